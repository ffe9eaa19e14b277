"""Remember what has changed in networks besides weights: what is trained, and plain values."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

# What holds nothing, and is most of what objects hold.
ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
# What every module has, and what only torch itself sets; in which mode it is matters, though.
OF_ALL_MODULES = frozenset(vars(nn.Module())) - {"training"}


class Traits:
    """The traits of networks that training may change: frozen parameters, modes, temperatures.

    Only what has changed since they were built is state: the rest comes from the configuration,
    which may be another one when a run goes on.

    Args:
        networks: By the path under which their traits are kept; the trainer itself is "".
    """

    def __init__(self, networks: Mapping[str, nn.Module]) -> None:
        self._networks = dict(networks)
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
            yield from (found for found in network.named_modules(prefix=path) if found[0])

    def _parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        for path, network in self._networks.items():
            for name, parameter in network.named_parameters(prefix=path):
                yield f"{name}.requires_grad", parameter


def _plain(module: nn.Module) -> dict[str, Any]:
    return {k: v for k, v in atoms(module).items() if k not in OF_ALL_MODULES}


def atoms(value: Any) -> dict[str, Any]:
    """Return the attributes of an object that are plain numbers, texts and the like."""
    return {k: v for k, v in getattr(value, "__dict__", {}).items() if type(v) in ATOMS}
