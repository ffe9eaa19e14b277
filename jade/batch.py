"""Move, count and cut nested batches."""

import copy
import dataclasses
import operator
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from jade.errors import ConfigError


def move(batch: Any, device: torch.device | str, *, non_blocking: bool = False) -> Any:
    """Return ``batch`` with all tensors in it on ``device``; what holds no tensor stays as it is.

    Lists, tuples, named tuples, mappings and dataclass instances keep their class. Any other object
    with a method ``to`` is moved by that.
    """
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=non_blocking)
    if hasattr(type(batch), "to"):
        return batch.to(device)
    return map_items(batch, lambda item: move(item, device, non_blocking=non_blocking))


def count(batch: Any) -> int:
    """Return the number of samples in ``batch``.

    That is the first dimension of the first tensor or array in it, or, where there is none, the
    length of the first list or tuple.

    Raises:
        ConfigError: It cannot be known.
    """
    number = _find_number(batch, _rows_of_array)
    if number is None:
        number = _find_number(batch, _length_of_list)
    if number is None:
        raise ConfigError(
            f"The number of samples in a batch of type {type(batch).__name__} cannot be known: "
            "it holds no tensor that has a dimension, and no list."
        )
    return number


def take(batch: Any, n: int) -> Any:
    """Return the first ``n`` samples of ``batch``.

    Cut is what is as long as the batch has samples; the rest (a class weight, a name) stays.

    Raises:
        ConfigError: The batch holds something that cannot be cut.
    """
    total = count(batch)
    return batch if n >= total else _cut(batch, n, total)


def inner_items(batch: Any) -> list[Any] | None:
    """Return the items of a container, or None for anything else."""
    if isinstance(batch, list | tuple):
        return list(batch)
    if isinstance(batch, Mapping):
        return list(batch.values())
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return [getattr(batch, field.name) for field in dataclasses.fields(batch)]
    return None


def map_items(batch: Any, function: Callable[[Any], Any]) -> Any:
    """Apply ``function`` to the items of a container; return the same object if none changed."""
    items = inner_items(batch)
    if items is None:
        return batch
    values = [function(item) for item in items]
    if all(map(operator.is_, values, items)):
        return batch
    if isinstance(batch, list | tuple):
        return _rebuild_sequence(batch, values)
    if isinstance(batch, Mapping):
        return _rebuild_mapping(batch, dict(zip(batch, values, strict=True)))
    clone = copy.copy(batch)
    for field, value in zip(dataclasses.fields(batch), values, strict=True):
        object.__setattr__(clone, field.name, value)  # not setattr: it may be frozen
    return clone


def _rebuild_sequence(model: Sequence[Any], values: list[Any]) -> Sequence[Any]:
    if type(model) is list:
        return values
    make: Any = getattr(model, "_make", type(model))  # named tuples have _make
    try:
        rebuilt: Sequence[Any] = make(values)
    except TypeError:
        return values if isinstance(model, list) else tuple(values)
    return rebuilt


def _rebuild_mapping(model: Mapping[Any, Any], items: dict[Any, Any]) -> Mapping[Any, Any]:
    if type(model) is dict:
        return items
    if isinstance(model, MutableMapping):
        # The class may take other arguments than items, as defaultdict does: copy, then fill.
        clone = copy.copy(model)
        clone.update(items)
        return clone
    try:
        return type(model)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _find_number(batch: Any, measure: Callable[[Any], int | None]) -> int | None:
    """Return the first number that ``measure`` finds, in the batch itself or depth first in it."""
    number = measure(batch)
    if number is not None:
        return number
    found = (_find_number(item, measure) for item in inner_items(batch) or ())
    return next((number for number in found if number is not None), None)


def _rows_of_array(batch: Any) -> int | None:
    if isinstance(batch, PackedSequence):
        return int(batch.batch_sizes[0])
    shape = getattr(batch, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and shape else None


def _length_of_list(batch: Any) -> int | None:
    return len(batch) if isinstance(batch, list | tuple) else None


def _cut(batch: Any, n: int, total: int) -> Any:
    if isinstance(batch, PackedSequence):
        raise ConfigError(f"A packed sequence cannot be cut to {n} of its {total} samples.")
    rows = _rows_of_array(batch)
    if rows is None and _find_number(batch, _rows_of_array) is None:
        rows = _length_of_list(batch)
    if rows is not None:
        return batch[:n] if rows == total else batch
    return map_items(batch, lambda item: _cut(item, n, total))
