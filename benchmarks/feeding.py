"""Compare TensorLoader with DataLoader: feeding images, and steps of a tiny network."""

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from jade.in_memory import TensorLoader

NUM_IMAGES = 60_000
IMAGE_BATCH = 256
NUM_DIGITS = 1_797
DIGIT_BATCH = 32


class ImageDataset(Dataset):
    """Read samples as torchvision's MNIST does: array, PIL image, tensor from 0 to 1."""

    def __init__(self, num_images: int) -> None:
        generator = np.random.default_rng(0)
        self.images = generator.integers(0, 256, (num_images, 28, 28), dtype=np.uint8)
        self.labels = generator.integers(0, 10, num_images)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = Image.fromarray(self.images[index])
        pixels = torch.from_numpy(np.array(image, copy=True)).view(28, 28, 1)
        return pixels.permute(2, 0, 1).contiguous().to(torch.float32).div(255), int(
            self.labels[index]
        )


def measure(rounds: int = 5, num_images: int = NUM_IMAGES) -> dict[str, float]:
    """Return the figures: medians of interleaved rounds, on one thread."""
    torch.set_num_threads(1)
    return {**measure_images(rounds, num_images), **measure_steps(rounds * 4)}


def measure_images(rounds: int, num_images: int = NUM_IMAGES) -> dict[str, float]:
    """Return samples per second of one shuffled epoch, and the time that reading once takes."""
    dataset = ImageDataset(num_images)
    started = time.perf_counter()
    ours = TensorLoader(dataset, IMAGE_BATCH, shuffle=True)
    reading = time.perf_counter() - started
    theirs = DataLoader(dataset, IMAGE_BATCH, shuffle=True)
    seconds = _interleave({"ours": lambda: _drain(ours), "theirs": lambda: _drain(theirs)}, rounds)
    return {
        "images_per_s_dataloader": num_images / seconds["theirs"],
        "images_per_s_tensorloader": num_images / seconds["ours"],
        "images_ratio": seconds["theirs"] / seconds["ours"],
        "images_read_once_s": reading,
    }


def measure_steps(rounds: int) -> dict[str, float]:
    """Return microseconds per training step of the tiny network."""
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(NUM_DIGITS, 64), torch.randint(0, 10, (NUM_DIGITS,)))
    loaders: dict[str, Iterable[Any]] = {
        "theirs": DataLoader(data, DIGIT_BATCH, shuffle=True),
        "ours": TensorLoader(data, DIGIT_BATCH, shuffle=True),
    }
    seconds = _interleave(
        {name: _training(loader) for name, loader in loaders.items()}, rounds, warm_up=3
    )
    num_steps = -(-NUM_DIGITS // DIGIT_BATCH)
    return {
        "step_us_dataloader": seconds["theirs"] / num_steps * 1e6,
        "step_us_tensorloader": seconds["ours"] / num_steps * 1e6,
        "step_ratio": seconds["ours"] / seconds["theirs"],
    }


def main() -> None:
    """Measure, and print a table."""
    figures = measure()
    print(f"{'':34}{'DataLoader':>14}{'TensorLoader':>14}{'ratio':>10}")
    images = [figures[f"images_per_s_{name}"] for name in ("dataloader", "tensorloader")]
    print(f"{'images per second':34}{images[0]:14,.0f}{images[1]:14,.0f}", end="")
    print(f"{figures['images_ratio']:9.1f}x")
    steps = [figures[f"step_us_{name}"] for name in ("dataloader", "tensorloader")]
    print(f"{'microseconds per step, tiny MLP':34}{steps[0]:14.1f}{steps[1]:14.1f}", end="")
    print(f"{figures['step_ratio']:9.2f}x")
    print(f"reading {NUM_IMAGES:,} images once: {figures['images_read_once_s']:.2f} s")


def _training(loader: Iterable[Any]) -> Callable[[], None]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_function = nn.CrossEntropyLoss()

    def train_epoch() -> None:
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss_function(model(inputs), labels).backward()
            optimizer.step()

    return train_epoch


def _drain(loader: Iterable[Any]) -> None:
    for _ in loader:
        pass


def _interleave(
    contenders: dict[str, Callable[[], None]], rounds: int, warm_up: int = 0
) -> dict[str, float]:
    """Return the median seconds of each contender; they take turns, so that noise hits all."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + warm_up):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            if number >= warm_up:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


if __name__ == "__main__":
    main()
