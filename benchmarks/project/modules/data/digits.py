"""The data of the benchmarks."""

from torch.utils.data import TensorDataset

from benchmarks import tiny


class Digits(TensorDataset):
    def __init__(self, path: str):
        super().__init__(*tiny.load_digits(path))
