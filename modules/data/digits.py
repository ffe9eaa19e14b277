"""The 1,797 handwritten digits that come with scikit-learn: no download is needed."""

from typing import Literal

import torch
from torch.utils.data import Dataset

SPLITS = {
    "train": slice(1200),
    "valid": slice(1200, 1500),
    "train+valid": slice(1500),
    "test": slice(1500, None),
}


class Digits(Dataset):
    # What a sample looks like: `jade check` passes a batch of these without reading any data
    example_sample = {"x": torch.zeros(1, 8, 8), "y": torch.tensor(0)}  # noqa: RUF012

    def __init__(self, split: Literal["train", "valid", "train+valid", "test"]):
        from sklearn.datasets import load_digits

        digits = load_digits()
        # In the file, digits of one writer stand together; the same order for everybody
        order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
        chosen = order[SPLITS[split]]
        self.images = torch.from_numpy(digits.images).float().unsqueeze(1)[chosen] / 16
        self.labels = torch.from_numpy(digits.target).long()[chosen]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, item):
        return {"x": self.images[item], "y": self.labels[item]}

    def as_tensors(self):
        return {"x": self.images, "y": self.labels}
