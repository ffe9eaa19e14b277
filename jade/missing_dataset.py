"""Stand for a dataset that is not on this machine, until somebody wants to read it."""

from typing import Any, NoReturn

from torch.utils.data import Dataset

from jade.errors import MissingDataError


class MissingDataset(Dataset[Any]):
    """Has the size of a dataset, so that loaders can be made of it, and nothing else.

    Args:
        name: Of the dataset in the configuration.
        size: How many samples it had when the model was trained; None if that is not known.
        reason: Why it cannot be built here.
    """

    def __init__(self, name: str, size: int | None, reason: Exception) -> None:
        self._name = name
        self._size = size
        self._reason = reason

    def __len__(self) -> int:
        return self._refuse("its size") if self._size is None else self._size

    def __getitem__(self, index: Any) -> NoReturn:
        self._refuse("a sample")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            # Python itself, torch and notebooks ask for such names, and go on without them.
            raise AttributeError(name)
        self._refuse(f"its attribute {name!r}")

    def _refuse(self, wanted: str) -> NoReturn:
        reason = f"{type(self._reason).__name__}: {self._reason}"
        raise MissingDataError(
            f"The dataset {self._name!r} cannot be built on this machine, and {wanted} was asked "
            f"for. The reason was {reason}"
        ) from self._reason

    def __repr__(self) -> str:
        return f"MissingDataset({self._name!r}, size {self._size})"
