"""Go through the points of a sweep: one by one, at random, or those that tell most."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jade.origin import Origin
from jade.overrides import Override
from jade.sweep.parameters import Parameter


@dataclass(frozen=True)
class Point:
    """A value for each parameter of a sweep."""

    values: Mapping[str, Any]
    origins: Mapping[str, Origin]

    def overrides(self) -> list[Override]:
        """Return what changes a configuration into that of this point."""
        return [
            Override(key, value, self.origins[key], swept=True)
            for key, value in self.values.items()
        ]

    def __str__(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.values.items())


class Grid:
    """All combinations of values, the last parameter changing fastest; none is kept.

    Args:
        parameters: In W&B's order; each has a number of values.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._parameters = list(parameters)
        self._axes: list[Sequence[Any]] = []
        for parameter in parameters:
            values = parameter.distribution.grid()
            if values is None:
                raise ValueError(f"{parameter.key} has no end: {parameter.kind}")
            self._axes.append(values)
        # A sweep may have more points than len() can say.
        self.num_points = 1
        for values in self._axes:
            self.num_points *= len(values)

    def __getitem__(self, index: int) -> Point:
        """Return a point by its number in W&B's order."""
        if not 0 <= index < self.num_points:
            raise IndexError(index)
        places: list[int] = []
        for values in reversed(self._axes):
            index, place = divmod(index, len(values))
            places.append(place)
        chosen = zip(self._axes, reversed(places), strict=True)
        return _point(self._parameters, [values[place] for values, place in chosen])

    def __iter__(self) -> Iterator[Point]:
        return map(self.__getitem__, range(self.num_points))


def grid_of(parameters: Sequence[Parameter]) -> Grid | None:
    """Return the grid of some parameters; None if it would have no end."""
    if any(parameter.distribution.grid() is None for parameter in parameters):
        return None
    return Grid(parameters)


def sample_of(parameters: Sequence[Parameter], index: int, seed: int = 0) -> Point:
    """Draw point ``index`` of a random search; the same one whenever it is asked for."""
    rng = random.Random(f"{seed}/{index}")  # noqa: S311 - nothing secret
    return _point(parameters, [parameter.distribution.sample(rng) for parameter in parameters])


def telling_points(parameters: Sequence[Parameter]) -> Iterator[Point]:
    """Yield points that have each value of a list and both ends of each range at least once."""
    telling = [parameter.distribution.telling_values() for parameter in parameters]
    first = [values[0] for values in telling]
    yield _point(parameters, first)
    for place, values in enumerate(telling):
        for value in values[1:]:
            yield _point(parameters, [*first[:place], value, *first[place + 1 :]])


def _point(parameters: Sequence[Parameter], values: Sequence[Any]) -> Point:
    chosen = {p.key: value for p, value in zip(parameters, values, strict=True)}
    return Point(chosen, {p.key: p.origin for p in parameters})
