"""One trial of a sweep: what it is to do, what it has printed, and what came of it."""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jade.launch.program import LOST
from jade.launch.slots import Slot
from jade.launch.sweep_command import Order
from jade.run_dir import RunDir
from jade.saved_runs import read_json
from jade.signals import EXIT_INTERRUPTED, EXIT_PREEMPTED

FINISHED, STOPPED, PREEMPTED = "finished", "stopped", "preempted"
INTERRUPTED, FAILED, IMPOSSIBLE = "interrupted", "failed", "impossible"
EXIT_CONFIGURATION = 2
LEFT = (EXIT_PREEMPTED, EXIT_INTERRUPTED)
TAIL_BYTES, TAIL_LINES = 8192, 12
# What W&B adds to the values of a run that was started before.
WANDB_KEY = "_wandb"


class Trial:
    """A trial that has been taken from W&B.

    Args:
        order: What W&B has asked for.
        slot: Where it runs.
        folder: Where its output goes until it has a directory of its own.
        directory: Its run directory, if it is one of JADE; it need not exist yet.
    """

    def __init__(self, order: Order, slot: Slot, folder: Path, directory: RunDir | None) -> None:
        self.order = order
        self.slot = slot
        self._directory = directory
        is_continued = directory is not None and directory.config.is_file()
        self.console = self._console_in_run if is_continued else folder / f"{order.run_id}.log"
        self.output = self.console.open("ab+")
        self._begin = self.output.seek(0, os.SEEK_END)
        self._started = time.monotonic()
        self.duration_s = 0.0
        self.code: int | None = None
        self.kill_at: float | None = None
        # Whether somebody has asked it to stop: W&B, or whoever runs the agent.
        self.was_asked_to_stop = False
        # Whether it was to make room for something else, and W&B still wants it.
        self.was_to_make_room = False
        self._former_status = self.status

    @property
    def run_id(self) -> str:
        return self.order.run_id

    def end(self, code: int) -> None:
        """Note that it has ended."""
        self.code = code
        self.duration_s = time.monotonic() - self._started
        self.place_console(finally_=True)

    def close(self) -> None:
        """Let its output go."""
        self.output.close()

    @property
    def outcome(self) -> str:
        """Say in one word how it ended."""
        if self.code == 0:
            return STOPPED if self.status.get("status") == STOPPED else FINISHED
        if self.never_began:
            return PREEMPTED
        known = {
            EXIT_PREEMPTED: PREEMPTED,
            EXIT_INTERRUPTED: INTERRUPTED,
            EXIT_CONFIGURATION: IMPOSSIBLE,
        }
        if self.was_asked_to_stop and self.code is not None and self.code < 0:
            return STOPPED
        return known.get(self.code or 0, FAILED)

    @property
    def cause(self) -> str:
        """Say what ended its process."""
        code = self.code or 0
        if code == LOST:
            return "the process that had started it is gone"
        if code >= 0:
            return f"exit {code}"
        number = -code
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        hint = ": out of memory?" if name == "SIGKILL" and not self.was_asked_to_stop else ""
        return f"killed by {name}{hint}"

    @property
    def never_began(self) -> bool:
        """Whether it has made room before its run was there: nobody has told W&B of it."""
        # Of one that is lost nobody knows whether it has left.
        has_left = self.code is not None and (LOST < self.code < 0 or self.code in LEFT)
        is_of_jade = self._directory is not None
        return (
            self.was_to_make_room and is_of_jade and has_left and self.status == self._former_status
        )

    @property
    def is_failure(self) -> bool:
        return self.outcome in (FAILED, IMPOSSIBLE)

    @property
    def status(self) -> Mapping[str, Any]:
        """What the run itself says of its state; empty if there is no run directory."""
        if self._directory is None:
            return {}
        return read_json(self._directory.status_file)

    def result(self, metric: str | None) -> tuple[str, float] | None:
        """Return the metric that the sweep is about, or else the best one that the run knows."""
        status = self.status
        latest, best = status.get("latest") or {}, status.get("best") or {}
        found: list[tuple[Any, Any]] = [(metric, latest.get(metric))]
        found.append((best.get("metric"), best.get("value")))
        for name, value in found:
            # What is no number for JSON, such as NaN, stands there as text.
            with contextlib.suppress(TypeError, ValueError):
                return str(name), float(value)
        return None

    def place_console(self, *, finally_: bool = False) -> None:
        """Move the output into the run directory as soon as that is there."""
        if self._directory is None or self.console == self._console_in_run:
            return
        if not self._directory.config.is_file():
            return
        with contextlib.suppress(OSError):
            try:
                self.console.rename(self._console_in_run)
            except OSError:
                if not finally_:
                    return
                # On another disk: only now is the file complete.
                shutil.copyfile(self.console, self._console_in_run)
                self.console.unlink()
            self.console = self._console_in_run

    def tail(self) -> list[str]:
        """Return the last lines of its output."""
        end = self.output.seek(0, os.SEEK_END)
        self.output.seek(max(self._begin, end - TAIL_BYTES))
        lines = self.output.read().decode(errors="replace").splitlines()
        return [line for line in lines if line.strip()][-TAIL_LINES:]

    def describe_values(self) -> str:
        """Render the swept values; a run that goes on has got its whole configuration."""
        if WANDB_KEY in self.order.values:
            return "(continued)"
        return " ".join(f"{key}={value}" for key, value in self.order.values.items())

    @property
    def _console_in_run(self) -> Path:
        if self._directory is None:
            raise AssertionError("there is no run directory")
        return self._directory.root / "console.log"
