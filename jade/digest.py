"""Digest the parts of objects, so that two processes can compare what they hold."""

import collections
import hashlib
import itertools
import operator
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from jade import stateful
from jade.in_memory import TensorLoader

# What is fully described by how it is printed.
PRINTED = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    slice,
    torch.dtype,
    torch.device,
    np.generic,
    PurePath,
    itertools.count,
)
# Other mappings may build what they are asked for.
COLLECTIONS = (dict, list, tuple, set, frozenset, collections.deque)
WITH_STATE = (
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.amp.GradScaler,
)
MODULE_NAMES = frozenset(vars(nn.Module()))
# Objects of these packages are machinery: nothing in them is the user's.
MACHINERY = frozenset({"jade", "torch", "wandb", "matplotlib", "PIL", "rich"})
MAX_DEPTH = 5
# How many objects in one collection are looked into, and how many values of data are read.
MAX_OBJECTS = 64
MAX_SAMPLES = 4096

Parts = Iterator[tuple[str, str]]


class Digester:
    """Names the parts of objects and digests each; an object is looked into only once.

    Args:
        samples: Whether a look at some of the values of a large tensor or list is enough.
        seen: What need not be looked into.
    """

    def __init__(self, *, samples: bool = False, seen: dict[int, Any] | None = None) -> None:
        self._samples = samples
        # The objects themselves, so that no other one gets the id of one that is gone.
        self.seen: dict[int, Any] = {} if seen is None else seen

    def parts(self, path: str, value: Any, depth: int = MAX_DEPTH) -> Parts:
        """Yield the path and the digest of everything in a value that can be told apart."""
        if isinstance(value, nn.Parameter):
            yield from self._parameter(path, value)
            return
        plain = self.digest(value)
        if plain is not None:
            yield path, plain
            return
        if depth == 0 or id(value) in self.seen:
            return
        self.seen[id(value)] = value
        if isinstance(value, nn.Module):
            yield from self._module(path, value, depth)
            return
        for key, item in _look_into(value):
            yield from self.parts(f"{path}{key}", item, depth - 1)

    def digest(self, value: Any) -> str | None:
        """Digest a value that is nothing but numbers, texts, tensors and collections of them."""
        state = stateful.state_of(value) if isinstance(value, stateful.GENERATORS) else value
        digest = hashlib.blake2b(digest_size=8)
        return digest.hexdigest() if self._update(digest, state, MAX_DEPTH) else None

    def _update(self, digest: "hashlib.blake2b", value: Any, depth: int) -> bool:
        """Add a value to a digest; tell whether there was nothing unknown in it."""
        if isinstance(value, torch.Tensor):
            digest.update(self._tensor_bytes(value))
        elif isinstance(value, np.ndarray):
            digest.update(self._array_bytes(value))
        elif isinstance(value, PRINTED):
            digest.update(f"{type(value).__name__} {value!r};".encode())
        elif isinstance(value, COLLECTIONS) and depth:
            return self._update_items(digest, value, depth)
        else:
            return False
        return True

    def _update_items(self, digest: "hashlib.blake2b", value: Any, depth: int) -> bool:
        digest.update(f"{len(value)};".encode())
        items: Iterable[Any] = value
        if isinstance(value, dict):
            # In which order things were put in is not what they are.
            items = sorted(value.items(), key=lambda item: repr(item[0]))
        elif isinstance(value, (set, frozenset)):
            items = sorted(value, key=repr)
        elif self._samples and len(value) > MAX_SAMPLES:
            items = itertools.islice(value, 0, None, len(value) // MAX_SAMPLES)
        return all(self._update(digest, item, depth - 1) for item in items)

    def _tensor_bytes(self, tensor: torch.Tensor) -> bytes:
        kind = f"{tensor.dtype} {tuple(getattr(tensor, 'shape', ()))}".encode()
        if nn.parameter.is_lazy(tensor) or tensor.is_meta or tensor.layout != torch.strided:
            return kind
        flat = tensor.detach().resolve_conj().reshape(-1)
        if self._samples and len(flat) > MAX_SAMPLES:
            flat = flat[:: len(flat) // MAX_SAMPLES]
        return kind + flat.cpu().contiguous().view(torch.uint8).numpy().tobytes()

    def _array_bytes(self, array: Any) -> bytes:
        kind = f"{array.dtype} {array.shape}".encode()
        if array.dtype.hasobject:
            return kind
        flat = array.reshape(-1)
        if self._samples and len(flat) > MAX_SAMPLES:
            flat = flat[:: len(flat) // MAX_SAMPLES]
        return kind + bytes(flat.tobytes())

    def _module(self, path: str, module: nn.Module, depth: int) -> Parts:
        """Yield the tensors of a network, and what may steer it besides."""
        for name, parameter in module.named_parameters(recurse=False):
            yield from self._parameter(f"{path}.{name}", parameter)
        for name, buffer in module.named_buffers(recurse=False):
            yield f"{path}.{name}", str(self.digest(buffer))
        yield f"{path}.training", str(self.digest(module.training))
        for name, item in list(vars(module).items()):
            if name not in MODULE_NAMES:
                yield from self.parts(f"{path}.{name}", item, depth - 1)
        for name, child in module.named_children():
            if id(child) not in self.seen:
                self.seen[id(child)] = child
                # Networks are as deep as they like.
                yield from self._module(f"{path}.{name}", child, depth)

    def _parameter(self, path: str, parameter: nn.Parameter) -> Parts:
        yield path, str(self.digest(parameter))
        yield f"{path}.requires_grad", str(self.digest(parameter.requires_grad))


def _look_into(value: Any) -> Iterable[tuple[str, Any]]:
    """Return what an object consists of, by what follows its name in a path."""
    if isinstance(value, WITH_STATE):
        return ((f".{key}", item) for key, item in value.state_dict().items())
    if isinstance(value, dict):
        return ((f"[{key!r}]", item) for key, item in _first(value.items()))
    if isinstance(value, (list, tuple, collections.deque)):
        return ((f"[{index}]", item) for index, item in enumerate(_first(value)))
    if isinstance(value, (DataLoader, TensorLoader)):
        return ((f".{key}", item) for key, item in vars(value).items() if key[0] != "_")
    if isinstance(value, Iterator):
        return _look_into_iterator(value)
    if _is_machinery(type(value)):
        return ()
    return [(f".{key}", item) for key, item in getattr(value, "__dict__", {}).items()]


def _look_into_iterator(value: Iterator[Any]) -> Iterable[tuple[str, Any]]:
    """Tell how far an iterator is, as far as it lets one know."""
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return [(f".{key}", item) for key, item in frame.f_locals.items()] if frame else ()
    if hasattr(value, "_num_yielded"):
        return [(".position", value._num_yielded)]
    if not _is_machinery(type(value)):
        return [(f".{key}", item) for key, item in getattr(value, "__dict__", {}).items()]
    left = operator.length_hint(value, -1)
    return [(".left", left)] if left >= 0 else ()


def _first(items: Iterable[Any]) -> Iterable[Any]:
    return itertools.islice(items, MAX_OBJECTS)


def _is_machinery(kind: type) -> bool:
    package = kind.__module__.partition(".")[0]
    if kind.__module__.startswith("torch.utils.data"):
        return False
    is_code = issubclass(kind, (type, types.ModuleType, types.FunctionType, types.MethodType))
    return is_code or package in MACHINERY or package in sys.stdlib_module_names
