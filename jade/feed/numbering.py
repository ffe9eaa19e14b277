"""Number the batches that a sampler chooses, and begin with any of them."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from jade.feed.batch_rng import OwnRng


class Numbered(NamedTuple):
    """What a sampler chose for one batch, and the seed of the random numbers of that batch."""

    indices: Any
    seed: int


class Numbering:
    """Stands in the place of a sampler: passes on what it chooses, from some batch on.

    Attributes:
        start: The number of the first batch that is wanted; those before it are chosen, not made.
        seed_of: Returns the seed of a batch by its number; None passes the choice on as it is.
        own_seed: Of what the sampler itself draws after its first choice, if it may do that.
    """

    def __init__(self, sampler: Iterable[Any]) -> None:
        self.start = 0
        self.seed_of: Callable[[int], int] | None = None
        self.own_seed: int | None = None
        self.is_silent = False
        self._sampler = sampler
        self._latest: _Choices | None = None

    def __iter__(self) -> Iterator[Any]:
        if self.is_silent:
            return iter(())
        self._latest = _Choices(self)
        return self._latest

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]

    def skip(self) -> None:
        """Choose now what comes before the first batch, if nobody has asked for a batch yet."""
        if self._latest is not None:
            self._latest.skip()

    @property
    def sampler(self) -> Iterable[Any]:
        """The sampler that chooses."""
        return self._sampler


class _Choices:
    """One epoch of a ``Numbering``."""

    def __init__(self, numbering: Numbering) -> None:
        self._choices = iter(numbering.sampler)
        self._numbering = numbering
        self._number = 0
        self._start = numbering.start
        seed = numbering.own_seed
        self._rng = None if seed is None else OwnRng(seed)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._number < self._start:
            self.skip()
        indices = self._choose()
        number, self._number = self._number, self._number + 1
        seed_of = self._numbering.seed_of
        return indices if seed_of is None else Numbered(indices, seed_of(number))

    def skip(self) -> None:
        """Pass over what comes before the first batch that is wanted."""
        # A sampler with fewer batches than that has come to its end.
        with contextlib.suppress(StopIteration):
            for _ in range(self._number, self._start):
                self._choose()
        self._number = max(self._number, self._start)

    def _choose(self) -> Any:
        if self._rng is None:
            return next(self._choices)
        with self._rng:
            return next(self._choices)
