"""Stand for a dataset that nobody wants to read: it knows its class and what a sample looks like.

A class says what its samples look like by ``example_sample``: one sample, or a class method that
takes some parameters of the constructor and returns one. The numbers in it do not matter::

    class Pictures(Dataset):
        example_sample = {"x": torch.zeros(1, 28, 28), "y": torch.tensor(0)}
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch
from torch.utils.data import Dataset

from jade.batch import move
from jade.errors import MissingDataError

EXAMPLE = "example_sample"
# Any size does where only the order of samples depends on it.
ASSUMED_SIZE = 10_000
# What asks for the size of a dataset to put its samples into an order, and for nothing else.
INDIFFERENT = ("torch.utils.data.sampler", "torch.utils.data.dataloader", "jade.")


class BlankDataset(Dataset[Any]):
    """Has samples of the right shapes if its class says which, and a size that is made up.

    Args:
        name: Of the dataset in the configuration.
        target: The class of the dataset.
        params: The parameters that it would be built with.
        device: Where samples are.
    """

    def __init__(
        self, name: str, target: type, params: Mapping[str, Any], device: torch.device
    ) -> None:
        self._name = name
        self._target = target
        self._params = params
        self._device = device
        # Whether somebody may have reckoned with the size.
        self._was_measured = False

    @property
    def was_measured(self) -> bool:
        """Whether anybody asked for the size who may have reckoned with it."""
        return self._was_measured

    def __len__(self) -> int:
        asking = str(sys._getframe(1).f_globals.get("__name__"))
        if not asking.startswith(INDIFFERENT):
            self._was_measured = True
        return ASSUMED_SIZE

    def __getitem__(self, index: Any) -> Any:
        declared = getattr(self._target, EXAMPLE, None)
        if declared is None:
            self._refuse(f"a sample ({self._target.__name__} has no {EXAMPLE})")
        sample = declared(**self._params_for(declared)) if callable(declared) else declared
        return move(sample, self._device)

    def _params_for(self, declared: Callable[..., Any]) -> dict[str, Any]:
        """Choose the parameters that a class method asks for."""
        wanted = inspect.signature(declared).parameters
        takes_all = any(item.kind is item.VAR_KEYWORD for item in wanted.values())
        return {k: value for k, value in self._params.items() if takes_all or k in wanted}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            # Python itself and torch ask for such names, and go on without them.
            raise AttributeError(name)
        if name == "as_tensors":
            # Loaders for data in memory take this way, and put up with what they hear.
            return lambda: self._refuse("all of it")
        found = inspect.getattr_static(self._target, name, None)
        if not isinstance(found, (int, float, str, tuple, list, dict, torch.Tensor)):
            self._refuse(f"its attribute {name!r}")
        return found

    def _refuse(self, wanted: str) -> NoReturn:
        raise MissingDataError(f"the dataset {self._name!r} is not read, and {wanted} was needed")
