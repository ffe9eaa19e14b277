"""Find what keeps state of its own among attributes, and read and write that state."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from jade.errors import CheckpointError
from jade.traits import ATOMS

GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
# Things with state that hold no parameters but those of the modules.
PARTNERS = (
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.amp.GradScaler,
    *GENERATORS,
)
# How far is looked for what is held by something else: in objects within objects, but not in data.
MAX_OBJECTS = 1000
SHORT = 64
# What optimizers of torch keep for each parameter in its own shape.
SHAPED_LIKE_PARAMETER = ("exp_avg", "momentum_buffer", "square_avg", "sum", "prev")


def find(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield everything with state in an attribute, also in lists and mappings, with its path."""
    if has_state(value):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from find(f"{name}[{key!r}]", item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from find(f"{name}[{index}]", item)


def find_generators(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the random generators that an object holds, also in objects within it, with paths.

    The nearest come first; what is far away in a large collection of objects is not looked at.
    """
    closed = (torch.Tensor, nn.Module, np.ndarray, type)
    return _search(
        value, lambda item: isinstance(item, GENERATORS), lambda item: isinstance(item, closed)
    )


def find_held(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield everything with state that an object holds, also in objects within it, with paths.

    Data is not looked at, nor is a module without parameters and buffers anything with state.
    """
    for path, item in _search(value, has_state, _is_closed):
        if not isinstance(item, nn.Module) or item.state_dict():
            yield path, item


def is_data(value: Any) -> bool:
    """Tell whether a value is a dataset, a loader or the like, and not a collection of parts."""
    kind = type(value)
    return (hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")) and not isinstance(
        value, (dict, list, tuple, torch.Tensor, nn.Module)
    )


def _is_closed(value: Any) -> bool:
    return isinstance(value, (type, ModuleType)) or is_data(value)


def _search(
    value: Any, is_sought: Callable[[Any], bool], is_closed: Callable[[Any], bool]
) -> Iterator[tuple[str, Any]]:
    """Yield what is sought in an object and the objects within it, the nearest first."""
    seen: set[int] = set()
    level: list[tuple[str, Any]] = [("", value)]
    while level and len(seen) < MAX_OBJECTS:
        below = []
        for path, item in level:
            if id(item) in seen or is_closed(item):
                continue
            if is_sought(item):
                seen.add(id(item))
                yield path, item
                continue
            parts = list(_parts(item))
            if parts:
                seen.add(id(item))
                below += [
                    (f"{path}.{key}" if path else key, part)
                    for key, part in parts
                    if type(part) not in ATOMS
                ]
        level = below


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    """Return what an object or a short collection consists of, by name."""
    # Other mappings may build what they are asked for.
    if isinstance(value, dict):
        return ((str(key), item) for key, item in value.items()) if len(value) <= SHORT else ()
    if isinstance(value, (list, tuple)):
        return ((str(i), item) for i, item in enumerate(value)) if len(value) <= SHORT else ()
    return getattr(value, "__dict__", {}).items()


def has_state(value: Any) -> bool:
    """Tell whether a value changes in training in a way that can be stored.

    That is: networks, optimizers, schedulers and whatever else has a ``state_dict``, random
    generators, and tensors that are trained.
    """
    if isinstance(value, torch.Tensor):
        return value.requires_grad and value.is_leaf
    kind = type(value)
    if callable(getattr(kind, "state_dict", None)):
        return callable(getattr(kind, "load_state_dict", None))
    return isinstance(value, GENERATORS)


def state_of(value: Any) -> Any:
    """Return the state of what ``has_state``."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, (torch.Generator, np.random.RandomState)):
        return value.get_state()
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    return value.state_dict()


def load_state(value: Any, state: Any) -> None:
    """Write a state back that ``state_of`` returned."""
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            value.copy_(state)
    elif isinstance(value, torch.Generator):
        value.set_state(state.cpu())
    elif isinstance(value, np.random.RandomState):
        value.set_state(state)
    elif isinstance(value, random.Random):
        value.setstate(state)
    elif isinstance(value, np.random.Generator):
        value.bit_generator.state = state
    else:
        value.load_state_dict(state)


def misfit(value: Any, state: Any) -> str | None:
    """Say in what a state differs from the value that it is meant for, or return None."""
    if isinstance(value, torch.Tensor):
        return _shape_misfit(state, value)
    if isinstance(value, nn.Module):
        return _module_misfit(value, state)
    if isinstance(value, torch.optim.Optimizer):
        return _optimizer_misfit(value, state)
    return None


def _shape_misfit(stored: Any, own: Any) -> str | None:
    # A parameter that waits for its first batch has no shape yet, and takes any.
    if not isinstance(stored, torch.Tensor) or nn.parameter.is_lazy(own):
        return None
    if stored.shape == own.shape:
        return None
    return f"has the shape {tuple(stored.shape)} in the checkpoint, {tuple(own.shape)} here"


def _module_misfit(module: nn.Module, state: Mapping[str, Any]) -> str | None:
    own = module.state_dict()
    for key in {**own, **state}:
        if key not in state or key not in own:
            return f"has {key} {'here' if key in own else 'in the checkpoint'} only"
        problem = _shape_misfit(state[key], own[key])
        if problem is not None:
            return f"{key} {problem}"
    return None


def _optimizer_misfit(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> str | None:
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    stored_sizes = [len(group["params"]) for group in state["param_groups"]]
    if sizes != stored_sizes:
        return f"has groups of {stored_sizes} parameters in the checkpoint, of {sizes} here"
    own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    for parameter, number in zip(own, numbers, strict=True):
        kept = state["state"].get(number, {})
        for problem in (_shape_misfit(kept.get(key), parameter) for key in SHAPED_LIKE_PARAMETER):
            if problem is not None:
                return f"keeps a value for a parameter that {problem}"
    return None


def is_weights(state: Any) -> bool:
    """Tell whether a state is that of a network or of a tensor that is trained.

    What optimizers, schedulers and random generators keep looks otherwise.
    """
    if isinstance(state, torch.Tensor):
        return state.is_floating_point() or state.is_complex()
    if not isinstance(state, Mapping) or not state:
        return False
    # Modules may keep whatever they like under this one name.
    items = [value for key, value in state.items() if not str(key).endswith("_extra_state")]
    return bool(items) and all(isinstance(value, torch.Tensor) for value in items)


def flatten_weights(states: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights of networks by path and name in one mapping."""
    flat: dict[str, Any] = {}
    for path, state in states.items():
        if isinstance(state, torch.Tensor):
            flat[path] = state
        else:
            flat.update({f"{path}.{key}": value for key, value in state.items()})
    return flat


def load_weights(path: str, value: Any, flat: Mapping[str, Any]) -> None:
    """Write those weights of ``flatten_weights`` into a network that there are for it."""
    prefix = f"{path}."
    state = {k.removeprefix(prefix): v for k, v in flat.items() if k.startswith(prefix)}
    if isinstance(value, torch.Tensor):
        if path in flat:
            load_state(value, flat[path])
    elif isinstance(value, nn.Module):
        value.load_state_dict(state, strict=False)
    elif state:
        load_checked(path, value, {**value.state_dict(), **state})


def overruled(value: Any, state: Any) -> list[str]:
    """List what was chosen for an optimizer otherwise than in the state that it will have."""
    if not isinstance(value, torch.optim.Optimizer):
        return []
    differences = []
    for own, stored in zip(value.param_groups, state["param_groups"], strict=True):
        for key, chosen in own.items():
            # A scheduler has changed the rate since, and keeps the one that it began with.
            kept = stored.get("initial_lr" if key == "lr" and "initial_lr" in stored else key)
            is_choice = type(chosen) in (bool, int, float, tuple) and key != "initial_lr"
            if is_choice and kept is not None and kept != chosen:
                differences.append(
                    f"{key} is {kept} in the checkpoint and {chosen} in the configuration"
                )
    return differences


def load_checked(name: str, value: Any, state: Any) -> None:
    """Write a state back; what the value itself says against it names the value."""
    try:
        load_state(value, state)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"The state of {name} cannot be loaded: {error}") from error


def count_unheld(held: Mapping[str, Any]) -> dict[str, int]:
    """Count for each optimizer the parameters that nothing else in ``held`` holds.

    What has a state_dict of its own making may hold anything, so then nothing is said.
    """
    known: set[int] = set()
    for value in held.values():
        if isinstance(value, nn.Module):
            known.update(id(parameter) for parameter in value.parameters())
        elif isinstance(value, torch.Tensor):
            known.add(id(value))
        elif value is not None and not isinstance(value, PARTNERS):
            return {}
    counts = {
        name: sum(id(p) not in known for group in value.param_groups for p in group["params"])
        for name, value in held.items()
        if isinstance(value, torch.optim.Optimizer)
    }
    return {name: number for name, number in counts.items() if number}


class Watched(NamedTuple):
    """A tensor that must not be spoilt, and what messages call it."""

    label: str
    tensor: torch.Tensor
    is_parameter: bool


def watch(modules: Iterable[nn.Module]) -> list[Watched]:
    """List the tensors by which one sees that training has diverged."""
    watched = []
    for module in modules:
        for name, parameter in module.named_parameters():
            if parameter.requires_grad and not nn.parameter.is_lazy(parameter):
                watched.append(
                    Watched(f"the parameter {name}", parameter.detach(), is_parameter=True)
                )
        for name, buffer in module.named_buffers():
            if buffer.is_floating_point() and not nn.parameter.is_lazy(buffer):
                watched.append(Watched(f"the buffer {name}", buffer, is_parameter=False))
    return watched


def find_spoilt(watched: Iterable[Watched]) -> str | None:
    """Name a parameter that is not finite, or a buffer with NaN in it, if there is one."""
    for label, tensor, is_parameter in watched:
        # A mask of infinities is nothing unusual.
        spoilt = ~tensor.isfinite() if is_parameter else tensor.isnan()
        if bool(spoilt.any()):
            return label
    return None
