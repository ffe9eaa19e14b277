"""Remember what has changed in networks besides weights: what is trained, and plain values."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

# What holds nothing, and is most of what objects hold.
ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
# What every module has, and what only torch itself sets; in which mode it is matters, though.
MODE = "training"
OF_ALL_MODULES = frozenset(vars(nn.Module())) - {MODE}
# Where a network was is not where it will be.
DEVICE = re.compile(r"(cpu|cuda|mps|xpu|meta)(:\d+)?")


class Traits:
    """The traits of networks that training may change: frozen parameters, modes, temperatures.

    Only what has changed since they were built is state: the rest comes from the configuration,
    which may be another one when a run goes on.

    Args:
        networks: By the path under which their traits are kept; the trainer itself is "".
        is_excluded: Tells of a path whether it is left out of checkpoints.
    """

    def __init__(
        self,
        networks: Mapping[str, nn.Module],
        is_excluded: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._networks = dict(networks)
        self._is_excluded = is_excluded
        self._built = self._read()

    def changed(self) -> dict[str, Any]:
        """Return the traits that are not as they were, by path."""
        now = self._read()
        return {key: value for key, value in now.items() if self._built.get(key, value) != value}

    def load(self, changed: Mapping[str, Any]) -> None:
        """Make the traits what they were where ``changed`` was called."""
        for path, module in self._modules():
            kept = {k: changed[f"{path}.{k}"] for k in _plain(module) if f"{path}.{k}" in changed}
            vars(module).update(kept)
        for path, parameter in self._parameters():
            if path in changed:
                parameter.requires_grad_(changed[path])

    def _read(self) -> dict[str, Any]:
        plain = {
            f"{path}.{key}": value
            for path, module in self._modules()
            for key, value in _plain(module).items()
        }
        return plain | {path: parameter.requires_grad for path, parameter in self._parameters()}

    def _modules(self) -> Iterator[tuple[str, nn.Module]]:
        for path, network in self._networks.items():
            # What the trainer itself counts is for its user to store.
            for name, module in network.named_modules(prefix=path):
                if name and not self._is_excluded(name):
                    yield name, module

    def _parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        for path, network in self._networks.items():
            for name, parameter in network.named_parameters(prefix=path):
                if not self._is_excluded(name):
                    yield f"{name}.requires_grad", parameter


def _plain(module: nn.Module) -> dict[str, Any]:
    """Return the plain values of a module, but for those that may describe what is not stored."""
    if _holds_unstored(module):
        return {MODE: module.training}
    return {
        key: value
        for key, value in atoms(module).items()
        if key not in OF_ALL_MODULES and not (isinstance(value, str) and DEVICE.fullmatch(value))
    }


def _holds_unstored(module: nn.Module) -> bool:
    """Tell whether a module has tensors that checkpoints do not keep, such as a table that grows.

    They come back as they were built, and what counts how far they have grown must fit them.
    """
    return bool(module._non_persistent_buffers_set) or any(
        isinstance(value, torch.Tensor) for value in vars(module).values()
    )


def atoms(value: Any) -> dict[str, Any]:
    """Return the attributes of an object that are plain numbers, texts and the like."""
    return {k: v for k, v in getattr(value, "__dict__", {}).items() if type(v) in ATOMS}
