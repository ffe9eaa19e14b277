"""What all faults share: a folder, random instants, and the run without a fault."""

import random
import shutil
import signal
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from benchmarks.faults.training import Training
from jade import seal
from jade.run_dir import RunDir


class Bench:
    """The means of one run of the bench.

    Args:
        root: The folder for all that is tried.
        seed: Decides the instants.
        quick: Whether a tenth of the cases will do.

    Attributes:
        random: Draws the instants.
        fresh_seconds: How long ``fresh`` took.
        fresh_ended: The time of day of its end.
    """

    def __init__(self, root: Path, seed: int, *, quick: bool) -> None:
        self.random = random.Random(seed)
        self.fresh_seconds = 0.0
        self.fresh_ended = 0.0
        self._root = root
        self._quick = quick

    def scaled(self, number: int) -> int:
        """Return how many cases there are to be, of as many in the whole bench."""
        return -(-number // 10) if self._quick else number

    def folder(self, name: str) -> Path:
        """Make a folder for a case."""
        path = self._root / name
        path.mkdir(parents=True)
        return path

    def done(self, folder: Path, problems: Sequence[str]) -> None:
        """Remove the folder of a case that held."""
        if not problems:
            shutil.rmtree(folder)

    @cached_property
    def _undisturbed(self) -> tuple[Training, float]:
        training = Training(self.folder("undisturbed"))
        return training, training.to_the_end()

    @property
    def reference(self) -> RunDir:
        """The run that nothing happened to."""
        return self._undisturbed[0].made

    @property
    def seconds(self) -> float:
        """How long that took."""
        return self._undisturbed[1]

    @cached_property
    def fresh(self) -> Training:
        """The same in a process that has to import everything first."""
        training = Training(self.folder("undisturbed and fresh"))
        attempt = training.fresh_attempt()
        if attempt.wait() != 0:
            raise RuntimeError(f"Training fails without a fault: {attempt.tail()}")
        self.fresh_seconds, self.fresh_ended = attempt.age, time.time()
        return training

    def left_run(self, name: str) -> RunDir:
        """Train until there are checkpoints and newer rows in the log, and kill it there."""
        training = Training(self.folder(name), settings={"backup_every": "5 iterations"})
        attempt = training.attempt(pause_s=0.01)
        if not attempt.wait_until(lambda: _is_far_enough(training)):
            raise RuntimeError(f"Training fails without a fault: {attempt.tail()}")
        attempt.send(signal.SIGKILL)
        attempt.wait()
        return training.made


def _is_far_enough(training: Training) -> bool:
    """Tell whether several steps are in the log that no checkpoint has."""
    directory = training.directory
    if directory is None or not directory.metrics.exists():
        return False
    steps = [seal.read_iteration(path) or 0 for path in directory.checkpoints.glob("[!.]*.pt")]
    rows = directory.metrics.read_bytes().count(b"\n") - 2
    return len(steps) > 3 and rows >= max(steps) + 3
