"""Tell whether there is time for another trial, by how long the former ones took."""

import statistics

from jade.timespan import render_duration


class Pace:
    """How long trials take, and how much time there is.

    Args:
        limit_s: How long there is in all; None if nobody minds.
        reserve_s: How much of that is kept for checkpoints.
    """

    def __init__(self, limit_s: float | None, reserve_s: float) -> None:
        self._usable_s = None if limit_s is None else limit_s - reserve_s
        self._end_at: float | None = None
        self._durations: list[float] = []

    def start(self, now: float) -> float | None:
        """Begin to measure, and return when trials are to be stopped, if ever."""
        self._end_at = None if self._usable_s is None else now + self._usable_s
        return self._end_at

    def add(self, duration_s: float) -> None:
        """Note how long a trial took that came to its end."""
        self._durations.append(duration_s)

    @property
    def expected_s(self) -> float | None:
        """How long the next trial will take; None if there was none yet."""
        return statistics.median(self._durations) if self._durations else None

    def is_late(self, now: float) -> bool:
        """Tell whether a trial that begins now would be cut short, but would not be elsewhere.

        One that takes longer than all the time there is has to be begun some time.
        """
        expected_s = self.expected_s
        if expected_s is None or self._end_at is None or self._usable_s is None:
            return False
        return self._end_at - now < expected_s <= self._usable_s

    def describe(self, now: float) -> str:
        """Say why no trial is begun."""
        left = render_duration(max(0.0, (self._end_at or now) - now))
        takes = render_duration(self.expected_s or 0.0)
        return f"The time left ({left}) is shorter than a trial takes ({takes})."
