"""Measure how fast training goes."""

import itertools
from collections import deque

from jade.progress.status import TRAINING, Snapshot

RATE_WINDOW_S = 10.0
RATE_WINDOW_ITERATIONS = 10


class Pace:
    """Measure how fast training goes, from the snapshots taken of it and their times."""

    def __init__(self) -> None:
        self._last: tuple[float, Snapshot] | None = None
        self._window: deque[tuple[float, int]] = deque()
        self._pending_s = 0.0
        self._num_advances = 0
        self._anchor: tuple[float, float] | None = None

    def add(self, time_s: float, snapshot: Snapshot) -> None:
        """Take in the snapshot that was read at ``time_s``."""
        last, self._last = self._last, (time_s, snapshot)
        if last is None:
            return
        # An interval counts as what it began as: over many intervals the two errors, at the
        # beginning and at the end of an evaluation, cancel.
        if last[1].phase == TRAINING:
            self._pending_s += time_s - last[0]
        num_iterations = snapshot.iteration - last[1].iteration
        if num_iterations > 0:
            self._advance(num_iterations)

    @property
    def rate(self) -> float | None:
        """Iterations per second of training, lately; None until it is known."""
        duration_s = sum(entry[0] for entry in self._window)
        num_iterations = sum(entry[1] for entry in self._window)
        return num_iterations / duration_s if duration_s > 0 else None

    @property
    def left_s(self) -> float | None:
        """Seconds until the training amount is done, evaluations included; None if unknown."""
        if self._last is None or self._anchor is None:
            return None
        time_s, snapshot = self._last
        anchor_s, anchor_fraction = self._anchor
        if snapshot.fraction is None or snapshot.fraction <= anchor_fraction:
            return None
        per_fraction_s = (time_s - anchor_s) / (snapshot.fraction - anchor_fraction)
        return max(0.0, 1.0 - snapshot.fraction) * per_fraction_s

    def _advance(self, num_iterations: int) -> None:
        self._num_advances += 1
        if self._num_advances == 1:
            self._set_anchor()
        elif self._num_advances == 2:
            # The first interval holds the warm-up, or the jump to where a checkpoint left off.
            self._window.clear()
        self._window.append((self._pending_s, num_iterations))
        self._pending_s = 0.0
        while self._is_longer_than_needed():
            self._window.popleft()

    def _is_longer_than_needed(self) -> bool:
        rest = list(itertools.islice(self._window, 1, None))
        return (
            sum(entry[0] for entry in rest) >= RATE_WINDOW_S
            and sum(entry[1] for entry in rest) >= RATE_WINDOW_ITERATIONS
        )

    def _set_anchor(self) -> None:
        if self._last is not None and self._last[1].fraction is not None:
            self._anchor = (self._last[0], self._last[1].fraction)
