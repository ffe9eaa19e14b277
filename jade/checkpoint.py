"""Write and read checkpoints whole or not at all, and keep the last few."""

import collections
import copy
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from jade import seal
from jade.errors import CheckpointError
from jade.run_dir import RunDir
from jade.seal import SealedFile
from jade.whole_file import whole_file

FORMAT = 2
# What torch.load(weights_only=True) reads as it is.
PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
# An array of numpy is kept as a mapping with this one key.
NUMPY = "__numpy__"


def storable(value: Any, where: str) -> Any:
    """Return a value as a checkpoint holds it, so that reading it back runs no code.

    numpy's numbers become Python's, and its arrays what ``restored`` turns into arrays again;
    queues become lists, and kinds of mappings and tuples plain ones, until ``fit_to`` is asked.

    Raises:
        CheckpointError: Something in it can be neither stored nor read back.
    """
    if isinstance(value, torch.Tensor):
        return value.detach()
    if type(value) in PLAIN:
        return value
    if isinstance(value, (Mapping, list, tuple, set, collections.deque)):
        return _storable_items(value, where)
    if isinstance(value, (bool, int, float, str)):
        # A subclass such as numpy's float64, or an enum with a value.
        return next(kind(value) for kind in (bool, int, float, str) if isinstance(value, kind))
    if type(value).__module__ == "numpy":
        return _storable_numpy(value, where)
    raise _refusal(value, where)


def _storable_items(value: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        items = {storable(k, where): storable(v, f"{where}[{k!r}]") for k, v in value.items()}
        # Schedulers keep one, and expect it back.
        return collections.Counter(items) if type(value) is collections.Counter else items
    if isinstance(value, set):
        return {storable(item, f"an item of {where}") for item in value}
    listed = [storable(item, f"{where}[{i}]") for i, item in enumerate(value)]
    return tuple(listed) if isinstance(value, tuple) else listed


def _storable_numpy(value: Any, where: str) -> Any:
    if getattr(value, "ndim", 0) == 0 and hasattr(value, "item"):
        return storable(value.item(), where)
    try:
        return {NUMPY: torch.as_tensor(value.copy())}
    except (AttributeError, TypeError) as error:
        raise _refusal(value, where) from error


def _refusal(value: Any, where: str) -> CheckpointError:
    kind = f"{type(value).__name__} of {value.dtype}" if hasattr(value, "dtype") else None
    return CheckpointError(
        f"{where} is a {kind or type(value).__name__}, which a checkpoint cannot hold. Store "
        "numbers, texts, tensors, arrays, or lists, queues, sets and mappings of them, or give the "
        "class state_dict and load_state_dict."
    )


def restored(value: Any) -> Any:
    """Return what ``storable`` was given, up to the kinds of numbers and mappings."""
    if isinstance(value, dict):
        if value.keys() == {NUMPY}:
            return value[NUMPY].cpu().numpy()
        items = {key: restored(item) for key, item in value.items()}
        return collections.Counter(items) if type(value) is collections.Counter else items
    if isinstance(value, (list, tuple)):
        listed = [restored(item) for item in value]
        return listed if isinstance(value, list) else tuple(listed)
    return value


def fit_to(old: Any, new: Any, where: str) -> Any:
    """Return a restored value as the kind of the one that it replaces, and on its device.

    What stands inside is fitted to its counterpart, as far as there is one.

    Raises:
        CheckpointError: The class of the old value cannot hold what was stored.
    """
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        return new.to(old.device)
    try:
        if isinstance(old, Mapping) and isinstance(new, dict):
            return _fit_mapping(old, new, where)
        if isinstance(old, (list, collections.deque)) and isinstance(new, list):
            return _refill(old, _fit_items(old, new, where))
        if isinstance(old, tuple) and isinstance(new, tuple):
            # Named tuples take their items one by one, other tuples together.
            make = getattr(type(old), "_make", type(old))
            return make(_fit_items(old, new, where))
        if isinstance(old, set) and isinstance(new, set):
            return _refill(old, new)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"{where} cannot become a {type(old).__name__} again: {error}"
        ) from error
    return new


def _fit_mapping(old: Mapping[Any, Any], new: dict[Any, Any], where: str) -> Any:
    items = {
        key: fit_to(_counterpart(old, key, value), value, f"{where}[{key!r}]")
        for key, value in new.items()
    }
    return _refill(old, items) if isinstance(old, MutableMapping) else items


def _counterpart(old: Mapping[Any, Any], key: Any, value: Any) -> Any:
    """Return what a mapping has under a key, or would make for it."""
    makes = getattr(old, "default_factory", None)
    # Only for what has parts to be fitted: the next number of a count would be lost.
    if key not in old and callable(makes) and isinstance(value, (dict, list, tuple, set)):
        return makes()
    return old.get(key)


def _fit_items(old: Iterable[Any], new: Iterable[Any], where: str) -> list[Any]:
    counterparts = list(old)
    return [
        fit_to(counterparts[i] if i < len(counterparts) else None, item, f"{where}[{i}]")
        for i, item in enumerate(new)
    ]


def _refill(old: Any, items: Any) -> Any:
    """Return a copy of a collection, with all that its class knows besides, and other items."""
    refilled = copy.copy(old)
    refilled.clear()
    (refilled.extend if isinstance(old, (list, collections.deque)) else refilled.update)(items)
    return refilled


def save(content: Mapping[str, Any], path: Path, former: Path | None = None) -> None:
    """Write a checkpoint aside, flush it to the disk, and rename it to its name.

    Args:
        content: What to store.
        path: The file.
        former: The name under which the file that is replaced stays.

    Raises:
        CheckpointError: The content cannot be stored, or (then it has a cause) not written.
    """
    write(storable(content, "checkpoint"), path, former)


def write(storable_content: Mapping[str, Any], path: Path, former: Path | None = None) -> None:
    """Do what ``save`` does, with content that is storable already."""
    try:
        with whole_file(path, durable=True, former=former) as file:
            sealed = SealedFile(file)
            torch.save({"format": FORMAT, **storable_content}, cast("BinaryIO", sealed))
            sealed.seal(storable_content.get("clock", {}).get("iterations", 0))
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"{path} cannot be written: {_reason(error)}.") from error


def _reason(error: BaseException) -> str:
    """Return what the system said; torch raises an error of its own after that."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__context__
    return str(error)


def load(path: Path, device: str | torch.device = "cpu") -> dict[str, Any]:
    """Load a checkpoint; nothing in it is executed.

    Raises:
        CheckpointError: There is none, or it is damaged, or it is not one of JADE's.
    """
    try:
        with path.open("rb") as file:
            seal.check(file, path)
            content: Any = torch.load(file, map_location=device, weights_only=True)
    except FileNotFoundError as error:
        raise CheckpointError(f"There is no checkpoint {path}.") from error
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"{path} is not a readable checkpoint: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise CheckpointError(
            f"{path} is not a checkpoint of this version of JADE (format {FORMAT}, got {found!r})."
        )
    return dict(restored(content))


def prune(directory: RunDir, keep_last: int | None) -> None:
    """Remove the oldest periodic checkpoints beyond ``keep_last``."""
    if keep_last is not None:
        for path in directory.periodic_checkpoints()[:-keep_last]:
            path.unlink(missing_ok=True)
