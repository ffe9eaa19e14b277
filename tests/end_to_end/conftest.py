"""Fixtures of tests that run whole programs."""

import gzip
import struct
from pathlib import Path

import pytest
import torch


def write_idx(path: Path, values: torch.Tensor) -> None:
    """Write a tensor of bytes in the format of the MNIST files."""
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.write_bytes(header + values.numpy().tobytes())


@pytest.fixture(scope="module")
def mnist_root(tmp_path_factory):
    """Files like those of MNIST: as many training pictures as the split needs, of noise."""
    root = tmp_path_factory.mktemp("data")
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    for name, size in (("train", 50_200), ("t10k", 100)):
        images = torch.randint(0, 256, (size, 28, 28), generator=generator, dtype=torch.uint8)
        labels = torch.randint(0, 10, (size,), generator=generator, dtype=torch.uint8)
        write_idx(raw / f"{name}-images-idx3-ubyte", images)
        write_idx(raw / f"{name}-labels-idx1-ubyte", labels)
        (raw / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(b""))
    return root
