"""MNIST with a validation set, as dictionaries of tensors."""

from typing import Literal

import torch
from torch.utils.data import Dataset
from torchvision.datasets import MNIST

# The first pictures of the training set are for training, the rest for validation
N_TRAIN = 50_000


class MNISTWrapper(Dataset):
    # What a sample looks like: `jade check` passes a batch of these without reading any data
    example_sample = {"x": torch.zeros(1, 28, 28), "y": torch.tensor(0)}  # noqa: RUF012

    def __init__(
        self,
        root: str,
        split: Literal["train", "valid", "train+valid", "test"],
        download: bool = False,  # noqa: FBT001, FBT002 - a parameter in configuration files
    ):
        dataset = MNIST(root, train=split != "test", download=download)
        part = {"train": slice(N_TRAIN), "valid": slice(N_TRAIN, None)}.get(split, slice(None))
        self.images = dataset.data[part].unsqueeze(1)
        self.labels = dataset.targets[part]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, item):
        return {"x": self.images[item].float() / 255, "y": self.labels[item]}

    def as_tensors(self):
        # All samples at once: spares the loader 60,000 calls of __getitem__
        return {"x": self.images.to(torch.float32).div_(255), "y": self.labels}
