"""What all faults share: a folder, random instants, and the run without a fault."""

import random
import shutil
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from benchmarks.faults.training import Training
from jade.run_dir import RunDir


class Bench:
    """The means of one run of the bench.

    Args:
        root: The folder for all that is tried.
        seed: Decides the instants.
        quick: Whether a tenth of the cases will do.
    """

    def __init__(self, root: Path, seed: int, *, quick: bool) -> None:
        self.random = random.Random(seed)
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
    def fresh_seconds(self) -> float:
        """How long it takes in a process that has to import everything first."""
        training = Training(self.folder("undisturbed and fresh"))
        attempt = training.fresh_attempt()
        if attempt.wait() != 0:
            raise RuntimeError(f"Training fails without a fault: {attempt.tail()}")
        return attempt.age
