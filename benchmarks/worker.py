"""A process that runs contenders whenever it is told to, and says how long that took."""

import contextlib
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parent.parent
MEANINGFUL = ("PYTHON", "JADE_", "WANDB_", "MALLOC_", "DEVICE", "EXPERIMENTS_ROOT")
TAIL_BYTES = 4000
# The size of the terminal and its kind decide how much a progress bar draws.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TERM": "xterm-256color",
    "COLUMNS": "120",
    "LINES": "40",
    "PYTHONPATH": str(ROOT),
    "WANDB_MODE": "disabled",
}


def environment(**more: str) -> dict[str, str]:
    """Return the environment of all measured processes: one thread, a terminal, no settings.

    Python's own variables are left out, too: one of them forbids it to keep compiled files.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(MEANINGFUL)}
    return {**kept, **ENVIRONMENT, **more}


class Terminal:
    """A pseudo-terminal whose output is read at once, as by a fast window; its end is kept."""

    def __init__(self) -> None:
        self._screen, self.descriptor = pty.openpty()
        self._tail = b""
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        # Linux raises when the last process that had the terminal has closed it.
        with contextlib.suppress(OSError):
            while output := os.read(self._screen, 1 << 16):
                self._tail = (self._tail + output)[-TAIL_BYTES:]
        os.close(self._screen)

    def close(self) -> None:
        """Let go of it; those who draw on it keep it until they end."""
        os.close(self.descriptor)

    def tail(self) -> str:
        """Return the last lines that were written, once all who wrote have ended."""
        self._thread.join(timeout=1)
        return self._tail.decode(errors="replace")


class Worker:
    """A process that has warmed up with some contenders, with a terminal to draw on.

    Two that are to be compared share it: where in memory a process has put things makes more of a
    difference to a small step than most libraries do.
    """

    def __init__(self, contenders: Sequence[str], data: Path, epochs: int, folder: Path) -> None:
        answers, theirs = os.pipe()
        self._terminal = Terminal()
        arguments = [str(data), str(epochs), str(folder), str(theirs)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=self._terminal.descriptor,
            stderr=self._terminal.descriptor,
            pass_fds=[theirs],
            cwd=ROOT,
            env=environment(),
            text=True,
        )
        os.close(theirs)
        self._terminal.close()
        self._answers = os.fdopen(answers)
        for contender in contenders:
            self.run(contender)

    def run(self, contender: str) -> dict[str, Any]:
        """Train once; return the seconds (``wall``, ``cpu``) and the digest of the weights."""
        if self._process.stdin is None:
            raise AssertionError("the worker has no standard input")
        self._process.stdin.write(f"{contender}\n")
        self._process.stdin.flush()
        answer = self._answers.readline()
        if not answer:
            self._process.wait()
            raise RuntimeError(f"{contender} has failed:\n{self._terminal.tail()}")
        result: dict[str, Any] = json.loads(answer)
        return result

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._answers.close()
        self._process.wait()


def main() -> None:
    """Train once for each line of standard input, which names a contender."""
    import torch

    from benchmarks import tiny
    from benchmarks.contenders import CONTENDERS, Task

    torch.set_num_threads(1)
    data, epochs, folder, descriptor = sys.argv[1:]
    task = Task(data, int(epochs), folder)
    with os.fdopen(int(descriptor), "w", buffering=1) as answers:
        for line in sys.stdin:
            network, stopwatch = CONTENDERS[line.strip()](task)
            values = {"wall": stopwatch.wall, "cpu": stopwatch.cpu, "weights": tiny.digest(network)}
            print(json.dumps(values), file=answers)


if __name__ == "__main__":
    main()
