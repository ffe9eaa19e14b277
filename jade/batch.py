"""Move, count and cut nested batches, and feed datasets that fit into memory."""

import contextlib
import copy
import dataclasses
import logging
import operator
import random
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch.utils.data import Dataset, Subset, TensorDataset, default_collate

from jade.errors import ComponentError, ConfigError

logger = logging.getLogger(__name__)

_USE_DATALOADER: Final = "Use torch.utils.data.DataLoader for it."
_READ_AT_ONCE: Final = 128
_NUM_PROBES: Final = 16
_ALIGNMENT: Final = 64
# Many small batches are selected at once, up to this size, which a processor's cache holds.
_CHUNK_BYTES: Final = 1 << 20


def move(batch: Any, device: torch.device | str, *, non_blocking: bool = False) -> Any:
    """Return ``batch`` with all tensors in it on ``device``; what holds no tensor stays as it is.

    Lists, tuples, named tuples, mappings and dataclass instances keep their class. Any other object
    with a method ``to`` is moved by that.
    """
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=non_blocking)
    if hasattr(type(batch), "to"):
        return batch.to(device)
    return _map_items(batch, lambda item: move(item, device, non_blocking=non_blocking))


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


def _items(batch: Any) -> list[Any] | None:
    """Return the items of a container, or None for anything else."""
    if isinstance(batch, list | tuple):
        return list(batch)
    if isinstance(batch, Mapping):
        return list(batch.values())
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return [getattr(batch, field.name) for field in dataclasses.fields(batch)]
    return None


def _map_items(batch: Any, function: Callable[[Any], Any]) -> Any:
    """Apply ``function`` to the items of a container; return the same object if none changed."""
    items = _items(batch)
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
    found = (_find_number(item, measure) for item in _items(batch) or ())
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
    return _map_items(batch, lambda item: _cut(item, n, total))


class TensorLoader:
    """Give the batches of a dataset that fits into memory, by the same rules as ``DataLoader``.

    From the same state of the random number generators it gives the same batches in the same order
    as ``DataLoader(dataset, batch_size, shuffle=..., drop_last=..., generator=...)``, and leaves
    the same state behind, but it reads each sample once instead of once per epoch: the dataset
    becomes tensors, which all loaders of that dataset share, and a batch is a selection of rows.

    A ``TensorDataset``, a ``Subset`` of what is in memory, and a dataset with a method
    ``as_tensors()`` are not copied. That method returns the whole dataset as one batch: what
    ``default_collate`` makes of all samples, for instance ``{"x": images, "y": labels}``.

    A dataset whose samples are drawn anew each time is refused. When an attribute of the dataset is
    replaced, it is read again at the start of the next epoch; other changes go unnoticed.

    Args:
        dataset: Has ``__len__``, and ``__getitem__`` or ``as_tensors``.
        batch_size: Samples per batch.
        shuffle: Draw a new order for each epoch.
        drop_last: Leave out the last batch when it is smaller.
        generator: Decides the order instead of torch's global generator.
        max_bytes: Refuse a dataset whose copy would need more memory than this.

    Raises:
        ComponentError: The dataset does not fit these rules.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
        max_bytes: int | None = None,
    ) -> None:
        _check_batch_size(batch_size)
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.generator = generator
        self._max_bytes = max_bytes
        self._entry = _load(dataset, max_bytes)

    def __len__(self) -> int:
        full, rest = divmod(len(self.dataset), self.batch_size)
        return full if self.drop_last or not rest else full + 1

    def __iter__(self) -> Iterator[Any]:
        return self.iterate()

    def iterate(self, start_batch: int = 0) -> Iterator[Any]:
        """Iterate over an epoch from batch ``start_batch`` on; the batches before it cost nothing.

        To continue an epoch, set the random number generators to their state at its start, call
        this, then set them to their state at the interruption.
        """
        if not 0 <= start_batch <= len(self):
            raise ConfigError(f"start_batch must be from 0 to {len(self)}, not {start_batch}.")
        if self._entry.fingerprint != _fingerprint(self.dataset):
            self._entry = _load(self.dataset, self._max_bytes)
        # DataLoader draws a seed for its workers first, also when it has none.
        torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        # It draws the order with the first batch, which matters to zip(loader, loader). An epoch
        # that is continued needs it now, before the caller restores the generators.
        order = self._draw_order() if start_batch else None
        return self._batches(start_batch, order)

    def _draw_order(self) -> Tensor | None:
        if not self.shuffle:
            return None
        generator = self.generator
        if generator is None:
            seed = int(torch.empty((), dtype=torch.int64).random_().item())
            generator = torch.Generator()
            generator.manual_seed(seed)
        return torch.randperm(len(self.dataset), generator=generator)

    def _batches(self, start_batch: int, order: Tensor | None) -> Iterator[Any]:
        order = self._draw_order() if order is None else order
        size = self.batch_size
        end = len(self) * size if self.drop_last else len(self.dataset)
        yield from self._entry.table.batches(order, range(start_batch * size, end, size))
        if self.shuffle and self.generator is not None:
            # DataLoader's sampler draws one order too many, and leaves its own generator like that.
            torch.randperm(len(self.dataset), generator=self.generator)


def _check_batch_size(batch_size: object) -> None:
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ConfigError(f"batch_size must be an integer of at least 1, not {batch_size!r}.")


class _TensorColumn:
    """One tensor of the batches, for all samples: a row for each."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.row_bytes = tensor[:1].nbytes

    def __len__(self) -> int:
        return len(self.tensor)

    def allocate(self, num_rows: int) -> "_TensorColumn":
        return _TensorColumn(self.tensor.new_empty((num_rows, *self.tensor.shape[1:])))

    def write(self, start: int, column: Any) -> bool:
        """Write the rows of another column from row ``start`` on; say whether they fit."""
        if not self._is_like(column):
            return False
        self.tensor[start : start + len(column)] = column.tensor
        return True

    def is_close(self, column: Any) -> bool:
        """Tell whether another column holds the same up to rounding."""
        if not self._is_like(column):
            return False
        return bool(torch.isclose(self.tensor, column.tensor, equal_nan=True).all())

    def select(self, order: Tensor | None, starts: range) -> Sequence[Tensor]:
        """Return copies of ``starts.step`` rows each, up to row ``starts.stop`` of the order."""
        if len(starts) == 1 or starts.step * self.row_bytes % _ALIGNMENT == 0:
            # Unlike views, the pieces count in-place changes each for itself, and each is aligned
            # as if it were alone, so that computations give the same result to the last bit.
            return self._rows(order, starts.start, starts.stop).unsafe_split(starts.step)
        return [self._rows(order, at, min(at + starts.step, starts.stop)) for at in starts]

    def _is_like(self, column: Any) -> bool:
        if not isinstance(column, _TensorColumn):
            return False
        mine, other = self.tensor, column.tensor
        return (mine.shape[1:], mine.dtype) == (other.shape[1:], other.dtype)

    def _rows(self, order: Tensor | None, start: int, stop: int) -> Tensor:
        if order is None:
            return self.tensor[start:stop].clone(memory_format=torch.contiguous_format)
        return self.tensor.index_select(0, order[start:stop].to(self.tensor.device))


class _TextColumn:
    """Strings of the batches, for all samples, as the list or tuple that a batch has of them."""

    row_bytes = 0

    def __init__(self, texts: Sequence[Any]) -> None:
        self.kind: Callable[[Any], Sequence[Any]] = type(texts)
        self.texts = list(texts)

    def __len__(self) -> int:
        return len(self.texts)

    def allocate(self, num_rows: int) -> "_TextColumn":
        return _TextColumn(self.kind([""] * num_rows))

    def write(self, start: int, column: Any) -> bool:
        """Write the texts of another column from row ``start`` on; say whether they fit."""
        if not isinstance(column, _TextColumn):
            return False
        self.texts[start : start + len(column)] = column.texts
        return True

    def is_close(self, column: Any) -> bool:
        """Tell whether another column holds the same."""
        return isinstance(column, _TextColumn) and column.texts == self.texts

    def select(self, order: Tensor | None, starts: range) -> Sequence[Any]:
        """Return ``starts.step`` texts each, up to row ``starts.stop`` of the order."""
        rows: Sequence[int] = range(starts.start, starts.stop)
        if order is not None:
            rows = order[starts.start : starts.stop].tolist()
        texts = [self.texts[row] for row in rows]
        return [self.kind(texts[at : at + starts.step]) for at in range(0, len(texts), starts.step)]


@dataclasses.dataclass(frozen=True)
class _Table:
    """All samples of a dataset.

    Attributes:
        structure: A batch with the number of a column in the place of what is taken from it.
        columns: What batches are taken from.
        rows: Where sample ``i`` stands in the columns, when that is not row ``i``.
    """

    structure: Any
    columns: list[_TensorColumn | _TextColumn]
    rows: Tensor | None = None

    @property
    def row_bytes(self) -> int:
        return sum(column.row_bytes for column in self.columns)

    def allocate(self, num_rows: int) -> "_Table":
        """Return an empty table with room for rows like ours."""
        return _Table(self.structure, [column.allocate(num_rows) for column in self.columns])

    def write(self, start: int, table: "_Table") -> bool:
        """Write the rows of another table from row ``start`` on; say whether they fit."""
        if table.structure != self.structure:
            return False
        columns = zip(self.columns, table.columns, strict=True)
        return all(mine.write(start, other) for mine, other in columns)

    def is_close(self, table: "_Table") -> bool:
        """Tell whether another table holds the same up to rounding."""
        if table.structure != self.structure:
            return False
        columns = zip(self.columns, table.columns, strict=True)
        return all(mine.is_close(other) for mine, other in columns)

    def subset(self, indices: Any) -> "_Table":
        """Return the table of some of the samples; nothing is copied."""
        num_rows = len(self.columns[0] if self.rows is None else self.rows)
        rows = torch.as_tensor(indices, dtype=torch.int64)
        rows = torch.where(rows < 0, rows + num_rows, rows)
        return dataclasses.replace(self, rows=rows if self.rows is None else self.rows[rows])

    def batches(self, order: Tensor | None, starts: range) -> Iterator[Any]:
        """Iterate over batches of ``starts.step`` samples, taken in the given order."""
        if self.rows is not None:
            order = self.rows if order is None else self.rows[order]
        chunk = starts.step * max(1, _CHUNK_BYTES // max(1, self.row_bytes * starts.step))
        for start in range(starts.start, starts.stop, chunk):
            pieces = range(start, min(start + chunk, starts.stop), starts.step)
            yield from self._assemble([column.select(order, pieces) for column in self.columns])

    def _assemble(self, pieces: list[Sequence[Any]]) -> Iterator[Any]:
        structure = self.structure
        if isinstance(structure, int):
            return iter(pieces[0])
        rows = zip(*pieces, strict=True)
        numbers = list(range(len(pieces)))
        if type(structure) is list and structure == numbers:
            return map(list, rows)
        if type(structure) is dict and list(structure.values()) == numbers:
            return (dict(zip(structure, row, strict=True)) for row in rows)
        return (_fill(structure, row) for row in rows)


def _fill(structure: Any, row: Sequence[Any]) -> Any:
    if isinstance(structure, int):
        return row[structure]
    return _map_items(structure, lambda item: _fill(item, row))


@dataclasses.dataclass(frozen=True)
class _Entry:
    """A table, and what its dataset looked like when it was made."""

    table: _Table
    fingerprint: tuple[int, ...]


_loaded: dict[int, _Entry] = {}


def _load(dataset: Any, max_bytes: int | None) -> _Entry:
    """Return the table of a dataset: the one made before, if it still holds, or a new one."""
    _check_dataset(dataset)
    entry = _find_loaded(dataset)
    if entry is None:
        table = _make_table(dataset, max_bytes)
        entry = _Entry(table, _fingerprint(dataset))
        _remember(dataset, entry)
    return entry


def _find_loaded(dataset: Any) -> _Entry | None:
    entry = _loaded.get(id(dataset))
    return entry if entry is not None and entry.fingerprint == _fingerprint(dataset) else None


def _remember(dataset: Any, entry: _Entry) -> None:
    key = id(dataset)
    if key not in _loaded:
        try:
            weakref.finalize(dataset, _loaded.pop, key, None).atexit = False
        except TypeError:
            return  # a list cannot be watched, and after its end its id may be another's
    _loaded[key] = entry


def _fingerprint(dataset: Any) -> tuple[int, ...]:
    """Return what changes when the dataset grows or one of its attributes is replaced."""
    own = (len(dataset), *map(id, getattr(dataset, "__dict__", {}).values()))
    return own + _fingerprint(dataset.dataset) if _is_plain(dataset, Subset) else own


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


def _make_table(dataset: Any, max_bytes: int | None) -> _Table:
    if hasattr(dataset, "as_tensors"):
        return _table_of_hook(dataset)
    if _is_plain(dataset, TensorDataset):
        return _new_table(list(dataset.tensors), dataset)
    if _is_plain(dataset, Subset) and _is_at_hand(dataset.dataset):
        return _load(dataset.dataset, max_bytes).table.subset(dataset.indices)
    return _table_by_reading(dataset, max_bytes)


def _is_at_hand(dataset: Any) -> bool:
    """Tell whether the table of a dataset exists, or can be made without reading samples."""
    if hasattr(dataset, "as_tensors") or _is_plain(dataset, TensorDataset):
        return True
    if _find_loaded(dataset) is not None:
        return True
    return _is_plain(dataset, Subset) and _is_at_hand(dataset.dataset)


def _table_of_hook(dataset: Any) -> _Table:
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


def _table_by_reading(dataset: Any, max_bytes: int | None) -> _Table:
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


def _read_all(dataset: Any, max_bytes: int | None) -> _Table:
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


def _check_memory(dataset: Any, first: _Table, max_bytes: int | None) -> None:
    needed = len(dataset) * first.row_bytes
    if max_bytes is not None and needed > max_bytes:
        raise ComponentError(
            f"Dataset {type(dataset).__name__} needs {needed / 1e6:,.1f} MB in memory, more than "
            f"the {max_bytes / 1e6:,.1f} MB allowed. {_USE_DATALOADER}"
        )


def _read(dataset: Any, indices: Sequence[int]) -> _Table:
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


def _reads_like(dataset: Any, table: _Table) -> bool:
    """Read some samples again and compare: this finds random generators that belong to the data."""
    last = len(dataset) - 1
    probes = sorted({last * number // _NUM_PROBES for number in range(_NUM_PROBES + 1)})
    with _refusing_randomness(dataset):
        again = _read(dataset, probes)
    held = next(table.batches(torch.tensor(probes), range(0, len(probes), len(probes))))
    return _new_table(held, dataset).is_close(again)


def _new_table(batch: Any, dataset: Any) -> _Table:
    """Take a batch apart."""
    columns: list[_TensorColumn | _TextColumn] = []

    def number(item: Any) -> Any:
        if _items(item) is None or _is_text(item):
            columns.append(_new_column(item, dataset))
            return len(columns) - 1
        if type(item) is tuple:
            return [number(part) for part in item]  # as default_collate does
        return _map_items(item, number)

    structure = number(batch)
    if not columns:
        raise ComponentError(f"The samples of dataset {type(dataset).__name__} are empty.")
    return _Table(structure, columns)


def _is_text(batch: Any) -> bool:
    return isinstance(batch, list | tuple) and bool(batch) and isinstance(batch[0], str | bytes)


def _new_column(item: Any, dataset: Any) -> _TensorColumn | _TextColumn:
    if _is_text(item):
        return _TextColumn(item)
    if not isinstance(item, Tensor) and hasattr(item, "__array__"):
        item = torch.as_tensor(item)
    if isinstance(item, Tensor) and _is_dense(item):
        return _TensorColumn(item)
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
