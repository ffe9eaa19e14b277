"""Hold all samples of a dataset in columns, and cut batches out of them."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from jade.batch import map_items

_ALIGNMENT: Final = 64
# Many small batches are selected at once, up to this size, which a processor's cache holds.
_CHUNK_BYTES: Final = 1 << 20


class TensorColumn:
    """One tensor of the batches, for all samples: a row for each."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.row_bytes = tensor[:1].nbytes

    def __len__(self) -> int:
        return len(self.tensor)

    def allocate(self, num_rows: int) -> "TensorColumn":
        return TensorColumn(self.tensor.new_empty((num_rows, *self.tensor.shape[1:])))

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
        if not isinstance(column, TensorColumn):
            return False
        mine, other = self.tensor, column.tensor
        return (mine.shape[1:], mine.dtype) == (other.shape[1:], other.dtype)

    def _rows(self, order: Tensor | None, start: int, stop: int) -> Tensor:
        if order is None:
            return self.tensor[start:stop].clone(memory_format=torch.contiguous_format)
        return self.tensor.index_select(0, order[start:stop].to(self.tensor.device))


class TextColumn:
    """Strings of the batches, for all samples, as the list or tuple that a batch has of them."""

    row_bytes = 0

    def __init__(self, texts: Sequence[Any]) -> None:
        self.kind: Callable[[Any], Sequence[Any]] = type(texts)
        self.texts = list(texts)

    def __len__(self) -> int:
        return len(self.texts)

    def allocate(self, num_rows: int) -> "TextColumn":
        return TextColumn(self.kind([""] * num_rows))

    def write(self, start: int, column: Any) -> bool:
        """Write the texts of another column from row ``start`` on; say whether they fit."""
        if not isinstance(column, TextColumn):
            return False
        self.texts[start : start + len(column)] = column.texts
        return True

    def is_close(self, column: Any) -> bool:
        """Tell whether another column holds the same."""
        return isinstance(column, TextColumn) and column.texts == self.texts

    def select(self, order: Tensor | None, starts: range) -> Sequence[Any]:
        """Return ``starts.step`` texts each, up to row ``starts.stop`` of the order."""
        rows: Sequence[int] = range(starts.start, starts.stop)
        if order is not None:
            rows = order[starts.start : starts.stop].tolist()
        texts = [self.texts[row] for row in rows]
        return [self.kind(texts[at : at + starts.step]) for at in range(0, len(texts), starts.step)]


@dataclasses.dataclass(frozen=True)
class Table:
    """All samples of a dataset.

    Attributes:
        structure: A batch with the number of a column in the place of what is taken from it.
        columns: What batches are taken from.
        rows: Where sample ``i`` stands in the columns, when that is not row ``i``.
    """

    structure: Any
    columns: list[TensorColumn | TextColumn]
    rows: Tensor | None = None

    @property
    def row_bytes(self) -> int:
        return sum(column.row_bytes for column in self.columns)

    def allocate(self, num_rows: int) -> "Table":
        """Return an empty table with room for rows like ours."""
        return Table(self.structure, [column.allocate(num_rows) for column in self.columns])

    def write(self, start: int, table: "Table") -> bool:
        """Write the rows of another table from row ``start`` on; say whether they fit."""
        if table.structure != self.structure:
            return False
        columns = zip(self.columns, table.columns, strict=True)
        return all(mine.write(start, other) for mine, other in columns)

    def is_close(self, table: "Table") -> bool:
        """Tell whether another table holds the same up to rounding."""
        if table.structure != self.structure:
            return False
        columns = zip(self.columns, table.columns, strict=True)
        return all(mine.is_close(other) for mine, other in columns)

    def subset(self, indices: Any) -> "Table":
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
    return map_items(structure, lambda item: _fill(item, row))
