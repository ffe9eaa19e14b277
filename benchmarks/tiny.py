"""The problem that all contenders solve: a tiny network on scikit-learn's digits."""

import hashlib
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH_SIZE = 32
LEARNING_RATE = 1e-3
SEED = 0
LOG_EVERY = 50


def save_digits(path: Path) -> None:
    """Write the digits as tensors, so that no contender has to import scikit-learn."""
    from sklearn.datasets import load_digits as load

    digits = load()
    inputs = torch.tensor(digits.data, dtype=torch.float32) / 16
    torch.save([inputs, torch.tensor(digits.target)], path)


def load_digits(path: str | Path) -> list[torch.Tensor]:
    """Read what ``save_digits`` wrote."""
    tensors: list[torch.Tensor] = torch.load(path)
    return tensors


def make_loader(path: str | Path) -> DataLoader[Any]:
    """Make the usual loader."""
    return DataLoader(TensorDataset(*load_digits(path)), BATCH_SIZE, shuffle=True)


def build_network() -> nn.Sequential:
    """Build the network; draws its weights."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def digest(network: nn.Module) -> str:
    """Return a text that is the same only for the same weights, to the last bit."""
    weights = [p.detach().contiguous().view(torch.uint8).numpy() for p in network.parameters()]
    return hashlib.sha256(b"".join(w.tobytes() for w in weights)).hexdigest()[:16]


class Stopwatch:
    """Seconds on the wall, and of all threads of this process."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def start(self) -> None:
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()

    def stop(self) -> None:
        self.wall += time.perf_counter()
        self.cpu += time.process_time()


def train_bare(path: str | Path, epochs: int) -> tuple[nn.Module, Stopwatch]:
    """Train by the loop that one writes by hand, and nothing else."""
    torch.manual_seed(SEED)
    network = build_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    loader: Iterable[Any] = make_loader(path)
    stopwatch = Stopwatch()
    stopwatch.start()
    for _ in range(epochs):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(network(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    stopwatch.stop()
    return network, stopwatch


def print_peak_memory() -> None:
    """Print the most memory that this process has had resident so far, in bytes."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    print(int(line.split()[1]) * 1024, flush=True)


def main(report: str, data: str, epochs: int = 1) -> None:
    """Train in this process, and print the time of the first step or the memory at the end."""
    torch.set_num_threads(1)
    if report == "light_memory":
        from jade.torch_startup import defer_dynamo

        defer_dynamo()
    if report == "first_step":
        # What stands before the first step is done; the epochs after it are none.
        train_bare(data, epochs=0)
        print(time.time(), flush=True)
        os._exit(0)
    else:
        train_bare(data, epochs)
        print_peak_memory()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
