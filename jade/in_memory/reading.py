"""Read a dataset into a table once, and refuse one whose samples change."""

import contextlib
import dataclasses
import logging
import random
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset, TensorDataset, default_collate

from jade.batch import inner_items, map_items
from jade.errors import ComponentError
from jade.in_memory.table import Table, TensorColumn, TextColumn

logger = logging.getLogger(__name__)

_USE_DATALOADER: Final = "Use torch.utils.data.DataLoader for it."
_READ_AT_ONCE: Final = 128
_NUM_PROBES: Final = 16


@dataclasses.dataclass(frozen=True)
class Entry:
    """A table, and what its dataset looked like when it was made."""

    table: Table
    fingerprint: tuple[int, ...]


_loaded: dict[int, Entry] = {}


def load(dataset: Any, max_bytes: int | None) -> Entry:
    """Return the table of a dataset: the one made before, if it still holds, or a new one."""
    _check_dataset(dataset)
    entry = _find_loaded(dataset)
    if entry is None:
        table = _make_table(dataset, max_bytes)
        entry = Entry(table, take_fingerprint(dataset))
        _remember(dataset, entry)
    return entry


def _find_loaded(dataset: Any) -> Entry | None:
    entry = _loaded.get(id(dataset))
    return entry if entry is not None and entry.fingerprint == take_fingerprint(dataset) else None


def _remember(dataset: Any, entry: Entry) -> None:
    key = id(dataset)
    if key not in _loaded:
        try:
            weakref.finalize(dataset, _loaded.pop, key, None).atexit = False
        except TypeError:
            return  # a list cannot be watched, and after its end its id may be another's
    _loaded[key] = entry


def take_fingerprint(dataset: Any) -> tuple[int, ...]:
    """Return what changes when the dataset grows or one of its attributes is replaced."""
    own = (len(dataset), *map(id, getattr(dataset, "__dict__", {}).values()))
    return own + take_fingerprint(dataset.dataset) if _is_plain(dataset, Subset) else own


def _is_plain(dataset: Any, kind: Any) -> bool:
    """Tell whether the samples are read as class ``kind`` reads them, by no subclass's method."""
    return isinstance(dataset, kind) and type(dataset).__getitem__ is kind.__getitem__


def _check_dataset(dataset: Any) -> None:
    name = type(dataset).__name__
    has_samples = _is_indexable(dataset) or hasattr(dataset, "as_tensors")
    if not has_samples or not hasattr(dataset, "__len__"):
        missing = "__len__" if has_samples else "__getitem__"
        raise ComponentError(
            f"Dataset {name} cannot be held in memory: it has no {missing}. {_USE_DATALOADER}"
        )
    if len(dataset) == 0:
        raise ComponentError(f"Dataset {name} is empty.")


def _is_indexable(dataset: Any) -> bool:
    # torch's base class has a __getitem__ that only raises; iterable datasets inherit it.
    method = getattr(type(dataset), "__getitem__", Dataset.__getitem__)
    return method is not Dataset.__getitem__


def _make_table(dataset: Any, max_bytes: int | None) -> Table:
    if hasattr(dataset, "as_tensors"):
        return _table_of_hook(dataset)
    if _is_plain(dataset, TensorDataset):
        return _new_table(list(dataset.tensors), dataset)
    if _is_plain(dataset, Subset) and _is_at_hand(dataset.dataset):
        return load(dataset.dataset, max_bytes).table.subset(dataset.indices)
    return _table_by_reading(dataset, max_bytes)


def _is_at_hand(dataset: Any) -> bool:
    """Tell whether the table of a dataset exists, or can be made without reading samples."""
    if hasattr(dataset, "as_tensors") or _is_plain(dataset, TensorDataset):
        return True
    if _find_loaded(dataset) is not None:
        return True
    return _is_plain(dataset, Subset) and _is_at_hand(dataset.dataset)


def _table_of_hook(dataset: Any) -> Table:
    name = type(dataset).__name__
    with _refusing_randomness(dataset):
        table = _new_table(dataset.as_tensors(), dataset)
    lengths = sorted({len(column) for column in table.columns})
    if lengths != [len(dataset)]:
        raise ComponentError(
            f"as_tensors() of dataset {name} must give {len(dataset)} rows, as len() says, "
            f"not {', '.join(map(str, lengths))}."
        )
    if _is_indexable(dataset) and not _reads_like(dataset, table):
        raise ComponentError(
            f"as_tensors() of dataset {name} disagrees with its samples: it must return what "
            "torch.utils.data.default_collate makes of all of them."
        )
    return table


def _table_by_reading(dataset: Any, max_bytes: int | None) -> Table:
    started, name = time.perf_counter(), type(dataset).__name__
    with _refusing_randomness(dataset):
        table = _read_all(dataset, max_bytes)
    if not _reads_like(dataset, table):
        raise ComponentError(
            f"Samples of dataset {name} differ each time they are read, so they cannot be held in "
            f"memory. {_USE_DATALOADER}"
        )
    megabytes, seconds = len(dataset) * table.row_bytes / 1e6, time.perf_counter() - started
    logger.info("%s: %d samples, %.1f MB, %.1f s.", name, len(dataset), megabytes, seconds)
    return table


def _read_all(dataset: Any, max_bytes: int | None) -> Table:
    """Read the samples, some at a time, into columns of the final size."""
    first = _read(dataset, range(1))
    _check_memory(dataset, first, max_bytes)
    table = first.allocate(len(dataset))
    for start in range(0, len(dataset), _READ_AT_ONCE):
        group = _read(dataset, range(start, min(start + _READ_AT_ONCE, len(dataset))))
        if not table.write(start, group):
            raise ComponentError(
                f"Dataset {type(dataset).__name__}: samples from number {start} on differ from "
                "the first in shape, type or structure. Use torch.utils.data.DataLoader with a "
                "collate_fn."
            )
    return table


def _check_memory(dataset: Any, first: Table, max_bytes: int | None) -> None:
    needed = len(dataset) * first.row_bytes
    if max_bytes is not None and needed > max_bytes:
        raise ComponentError(
            f"Dataset {type(dataset).__name__} needs {needed / 1e6:,.1f} MB in memory, more than "
            f"the {max_bytes / 1e6:,.1f} MB allowed. {_USE_DATALOADER}"
        )


def _read(dataset: Any, indices: Sequence[int]) -> Table:
    """Read some samples, and collate them as DataLoader does."""
    read_many = getattr(dataset, "__getitems__", None)
    samples = read_many(list(indices)) if read_many else [dataset[index] for index in indices]
    try:
        batch = default_collate(samples)
    except (RuntimeError, TypeError, LookupError, ValueError) as error:
        raise ComponentError(
            f"Samples {indices[0]} to {indices[-1]} of dataset {type(dataset).__name__} do not "
            f"make a batch: {error}. If they are meant to differ in shape, use "
            "torch.utils.data.DataLoader with a collate_fn."
        ) from error
    return _new_table(batch, dataset)


def _reads_like(dataset: Any, table: Table) -> bool:
    """Read some samples again and compare: this finds random generators that belong to the data."""
    last = len(dataset) - 1
    probes = sorted({last * number // _NUM_PROBES for number in range(_NUM_PROBES + 1)})
    with _refusing_randomness(dataset):
        again = _read(dataset, probes)
    held = next(table.batches(torch.tensor(probes), range(0, len(probes), len(probes))))
    return _new_table(held, dataset).is_close(again)


def _new_table(batch: Any, dataset: Any) -> Table:
    """Take a batch apart."""
    columns: list[TensorColumn | TextColumn] = []

    def number(item: Any) -> Any:
        if inner_items(item) is None or _is_text(item):
            columns.append(_new_column(item, dataset))
            return len(columns) - 1
        if type(item) is tuple:
            return [number(part) for part in item]  # as default_collate does
        return map_items(item, number)

    structure = number(batch)
    if not columns:
        raise ComponentError(f"The samples of dataset {type(dataset).__name__} are empty.")
    return Table(structure, columns)


def _is_text(batch: Any) -> bool:
    return isinstance(batch, list | tuple) and bool(batch) and isinstance(batch[0], str | bytes)


def _new_column(item: Any, dataset: Any) -> TensorColumn | TextColumn:
    if _is_text(item):
        return TextColumn(item)
    if not isinstance(item, Tensor) and hasattr(item, "__array__"):
        item = torch.as_tensor(item)
    if isinstance(item, Tensor) and _is_dense(item):
        return TensorColumn(item)
    raise ComponentError(
        f"Dataset {type(dataset).__name__} cannot be held in memory: its batches hold a "
        f"{type(item).__name__} that is not a dense tensor without gradient. {_USE_DATALOADER}"
    )


def _is_dense(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.dim() > 0 and not tensor.requires_grad


@contextlib.contextmanager
def _refusing_randomness(dataset: Any) -> Iterator[None]:
    """Leave the global generators as they were, and raise if a number was drawn from one."""
    before = _random_states()
    try:
        yield
    finally:
        after = _random_states()
        _restore_random_states(before)
    drawn = [name for name in before if _plain(before[name]) != _plain(after[name])]
    if drawn:
        raise ComponentError(
            f"Dataset {type(dataset).__name__} draws random numbers ({', '.join(drawn)}) when its "
            "samples are read. Held in memory, they would be the same in every epoch. "
            f"{_USE_DATALOADER}"
        )


def _random_states() -> dict[str, Any]:
    states: dict[str, Any] = {"torch": torch.get_rng_state(), "random": random.getstate()}
    if "numpy" in sys.modules:
        import numpy as np

        states["numpy.random"] = np.random.get_state()
    return states


def _restore_random_states(states: dict[str, Any]) -> None:
    torch.set_rng_state(states["torch"])
    random.setstate(states["random"])
    if "numpy.random" in states:
        import numpy as np

        np.random.set_state(states["numpy.random"])


def _plain(state: Any) -> list[Any]:
    """Return a generator's state as lists, which can be compared."""
    parts = state if isinstance(state, tuple) else (state,)
    return [part.tolist() if hasattr(part, "tolist") else part for part in parts]
