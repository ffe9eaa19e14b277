"""What it adds to a step that training can go on from any batch, over a plain ``DataLoader``."""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import tiny
from benchmarks.figures import Figure
from jade.position import Position
from jade.schedule import Clock

TARGET = 1.02
NUM_SAMPLES = 1_797
ROUNDS, QUICK_ROUNDS, WARM_UP = 300, 40, 5


def measure(*, quick: bool = False) -> list[Figure]:
    """Train the tiny network by the same loop on both, an epoch each in turn."""
    torch.set_num_threads(1)
    torch.manual_seed(tiny.SEED)
    data = TensorDataset(torch.rand(NUM_SAMPLES, 64), torch.randint(0, 10, (NUM_SAMPLES,)))
    loaders = [DataLoader(data, tiny.BATCH_SIZE, shuffle=True) for _ in range(2)]
    ours, theirs = _Epochs(_through_jade(loaders[0])), _Epochs(lambda: iter(loaders[1]))
    for _ in range(WARM_UP + (QUICK_ROUNDS if quick else ROUNDS)):
        ours.train()
        theirs.train()
    pairs = list(zip(ours.seconds[WARM_UP:], theirs.seconds[WARM_UP:], strict=True))
    per_step = [
        statistics.median(times) / len(loaders[0]) * 1e6 for times in zip(*pairs, strict=True)
    ]
    return [
        Figure.from_samples(
            "step",
            "tiny MLP fed for exact resume, over the plain DataLoader",
            [one / other for one, other in pairs],
            unit="x",
            at_most=TARGET,
            note=f"{per_step[0]:.1f} us over {per_step[1]:.1f} us per step",
        )
    ]


class _Epochs:
    """Trains a network of its own, and takes the processor time of each epoch."""

    def __init__(self, start_epoch: Callable[[], Iterable[Any]]) -> None:
        torch.manual_seed(tiny.SEED)
        self.seconds: list[float] = []
        self._start_epoch = start_epoch
        self._network = tiny.build_network()
        self._optimizer = torch.optim.Adam(self._network.parameters(), lr=tiny.LEARNING_RATE)

    def train(self) -> None:
        started = time.process_time()
        for inputs, labels in self._start_epoch():
            loss = nn.functional.cross_entropy(self._network(inputs), labels)
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
        self.seconds.append(time.process_time() - started)


def _through_jade(loader: "DataLoader[Any]") -> Callable[[], Iterator[Any]]:
    """Feed epochs as the training loop does; how far the clock is, is counted there anyway."""
    clock = Clock()
    position = Position(clock, loader, tiny.SEED)

    def start_epoch() -> Iterator[Any]:
        clock.epochs += 1
        return position.start_epoch(loader)

    return start_epoch
