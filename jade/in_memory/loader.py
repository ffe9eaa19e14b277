"""Give the batches of a DataLoader from tensors in memory."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from jade.errors import ConfigError, MissingDataError
from jade.in_memory.reading import Entry, load, take_fingerprint
from jade.in_memory.table import Table


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
        self._entry: Entry | None = None
        # A trainer that is loaded where its data is not gets its loader; reading then explains it.
        with contextlib.suppress(MissingDataError):
            self._entry = load(dataset, max_bytes)

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
        if self._entry is None or self._entry.fingerprint != take_fingerprint(self.dataset):
            self._entry = load(self.dataset, self._max_bytes)
        # DataLoader draws a seed for its workers first, also when it has none.
        torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        # It draws the order with the first batch, which matters to zip(loader, loader). An epoch
        # that is continued needs it now, before the caller restores the generators.
        order = self._draw_order() if start_batch else None
        return self._batches(self._entry.table, start_batch, order)

    def _draw_order(self) -> Tensor | None:
        if not self.shuffle:
            return None
        generator = self.generator
        if generator is None:
            seed = int(torch.empty((), dtype=torch.int64).random_().item())
            generator = torch.Generator()
            generator.manual_seed(seed)
        return torch.randperm(len(self.dataset), generator=generator)

    def _batches(self, table: Table, start_batch: int, order: Tensor | None) -> Iterator[Any]:
        order = self._draw_order() if order is None else order
        size = self.batch_size
        end = len(self) * size if self.drop_last else len(self.dataset)
        yield from table.batches(order, range(start_batch * size, end, size))
        if self.shuffle and self.generator is not None:
            # DataLoader's sampler draws one order too many, and leaves its own generator like that.
            torch.randperm(len(self.dataset), generator=self.generator)


def _check_batch_size(batch_size: object) -> None:
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ConfigError(f"batch_size must be an integer of at least 1, not {batch_size!r}.")
