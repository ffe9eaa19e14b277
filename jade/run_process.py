"""Start a run in a process of its own, follow its trace, and end it in time."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jade.trace import VARIABLE, Course, last_iteration, load_course

# How often a process is looked at.
INTERVAL_S = 0.005
# What must not reach a process: an account, and the member of a sweep that somebody else is.
PRIVATE = ("WANDB_", "EXPERIMENTS_ROOT")
# How much of the output of a process that has failed is shown.
NUM_LINES = 30


class RunProcess:
    """One start of a run; nothing of it is left when the ``with`` block ends.

    Args:
        arguments: Of ``jade``.
        folder: Where its output and its trace go.
        name: Of these files.
    """

    def __init__(self, arguments: Sequence[str], folder: Path, name: str) -> None:
        self._trace = folder / f"{name}.jsonl"
        self._output = folder / f"{name}.txt"
        self._started = time.monotonic()
        self._offset = 0
        self.iteration: int | None = None
        self.duration_s = 0.0
        environ = {k: v for k, v in os.environ.items() if not k.startswith(PRIVATE)}
        environ |= {"WANDB_MODE": "disabled", "JADE_PROGRESS": "off", VARIABLE: str(self._trace)}
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jade", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environ,
                # Ctrl-C is for whoever has started this; it ends the whole group here.
                start_new_session=True,
            )

    def __enter__(self) -> "RunProcess":
        return self

    def __exit__(self, *_: object) -> None:
        # Also what a process that was killed has left behind: the workers of its loaders.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait_until(self, is_time: Callable[["RunProcess"], bool]) -> bool:
        """Wait for a moment; tell whether the process is still there then."""
        while self._process.poll() is None:
            self._look()
            if is_time(self):
                return True
            time.sleep(INTERVAL_S)
        self._look()
        return False

    @property
    def age_s(self) -> float:
        """The time since it was started."""
        return time.monotonic() - self._started

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, not to its workers."""
        self._process.send_signal(number)

    def wait(self, timeout_s: float) -> int | None:
        """Wait until it has ended by itself, and return its exit code; None if it does not."""
        deadline = time.monotonic() + timeout_s
        if self.wait_until(lambda _: time.monotonic() > deadline):
            return None
        self.duration_s = self.age_s
        return self._process.returncode

    def load_course(self) -> Course:
        """Load what it did."""
        return load_course(self._trace)

    def read_output(self) -> str:
        """Return the end of what it printed."""
        lines = self._output.read_text(errors="replace").splitlines()
        return "\n".join(lines[-NUM_LINES:])

    def _look(self) -> None:
        """Read on in the trace."""
        if not self._trace.is_file():
            return
        with self._trace.open("rb") as file:
            file.seek(self._offset)
            text, _, _ = file.read().rpartition(b"\n")
        if not text:
            return
        self._offset += len(text) + 1
        iteration = last_iteration(text)
        self.iteration = self.iteration if iteration is None else iteration
