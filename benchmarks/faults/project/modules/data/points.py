"""Points that look otherwise each time they are read."""

import random

import numpy as np
import torch
from torch.utils.data import Dataset


class NoisyPoints(Dataset):
    def __init__(self, n: int = 40):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, 8, generator=generator)
        self.y = self.x.sum(dim=1, keepdim=True)
        self.own = np.random.default_rng(0)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        noise = torch.randn(8) + np.random.randn() + random.random() + self.own.normal()
        return {"x": (self.x[index] + 0.1 * noise).float(), "y": self.y[index]}
