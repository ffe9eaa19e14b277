"""How long training stands still for a checkpoint of 100 MB, over saving it by hand."""

import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from benchmarks.figures import Figure
from jade.keeper import Keeper
from jade.run_dir import RunDir
from jade.trainer import Trainer

TARGET = 0.35
SIDE = 5_000
ROUNDS, QUICK_ROUNDS = 15, 3


class LargeTrainer(Trainer):
    """Has 25 million weights of four bytes each."""

    def initialize(self) -> None:
        self.net = nn.Linear(SIDE, SIDE)

    def train_step(self, data: object) -> None:
        with torch.no_grad():
            self.net.weight.mul_(0.999)


def measure(*, quick: bool = False) -> list[Figure]:
    """Save the same state in both ways in turn, so that what disturbs the disk hits both."""
    torch.set_num_threads(1)
    trainer = LargeTrainer()
    trainer.initialize()
    ours, theirs = [], []
    with tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder:
        directory = RunDir.create(Path(folder))
        keeper = Keeper(trainer, directory, lambda: _state(trainer), lambda: None)
        for _ in range(1 + (QUICK_ROUNDS if quick else ROUNDS)):
            ours.append(_stall(keeper, trainer))
            theirs.append(_save_by_hand(trainer, Path(folder, "by hand.pt")))
    first, ours, theirs = ours[0], ours[1:], theirs[1:]
    median, by_hand = statistics.median(ours), statistics.median(theirs)
    return [
        Figure.from_samples(
            "checkpoint",
            "stall for 100 MB, over torch.save and fsync",
            [a / b for a, b in zip(ours, theirs, strict=True)],
            unit="x",
            at_most=TARGET,
            note=f"{median * 1e3:.0f} ms over {by_hand * 1e3:.0f} ms; the first {first * 1e3:.0f}",
        )
    ]


def _state(trainer: Trainer) -> dict[str, object]:
    return {"trainer": trainer.full_state(), "clock": {"iterations": trainer.iterations}}


def _stall(keeper: Keeper, trainer: Trainer) -> float:
    """Return the seconds that training waits; the rest is done before anything else is timed."""
    trainer.train_step(None)
    started = time.perf_counter()
    keeper.save_last()
    seconds = time.perf_counter() - started
    keeper.close()
    return seconds


def _save_by_hand(trainer: Trainer, path: Path) -> float:
    trainer.train_step(None)
    started = time.perf_counter()
    with path.open("wb") as file:
        torch.save(_state(trainer), file)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - started
