"""Go through the points that a sweep has when it runs locally: zipped, conditional, by cases."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jade.origin import Origin
from jade.sweep.identity import point_key
from jade.sweep.local import LocalOptions
from jade.sweep.parameters import Parameter
from jade.sweep.points import Point

# One axis: the keys that change together, and their values.
Axis = tuple[tuple[str, ...], Sequence[Sequence[Any]]]


class LocalGrid:
    """All points of a grid with its ``zip``, ``when`` and ``cases``, each once.

    Args:
        parameters: In W&B's order.
        local: What the section ``jade`` says.
        origin: Where that section is.
    """

    def __init__(
        self, parameters: Sequence[Parameter], local: LocalOptions, origin: Origin
    ) -> None:
        self._parameters = list(parameters)
        self._local = local
        self._origin = origin
        self._points: list[Point] | None = None

    @property
    def num_points(self) -> int:
        """How many points there are; those that conditions make equal count once."""
        return len(self._all())

    @property
    def num_combinations(self) -> int:
        """How many points there are if equal ones count as often as they come up."""
        return sum(1 for _ in self._combinations())

    def __iter__(self) -> Iterator[Point]:
        return iter(self._all())

    def __getitem__(self, index: int) -> Point:
        if not 0 <= index < self.num_points:
            raise IndexError(index)
        return self._all()[index]

    def _all(self) -> list[Point]:
        if self._points is None:
            different: dict[str, Point] = {}
            for point in self._combinations():
                different.setdefault(point_key(point.values), point)
            self._points = list(different.values())
        return self._points

    def _combinations(self) -> Iterator[Point]:
        for case in self._local.cases or ({},):
            open_axes = axes_of([p for p in self._parameters if p.key not in case], self._local)
            for chosen in itertools.product(*(values for _, values in open_axes)):
                values = dict(case)
                for (keys, _), items in zip(open_axes, chosen, strict=True):
                    values.update(zip(keys, items, strict=True))
                yield self.finish(values)

    def finish(self, values: Mapping[str, Any]) -> Point:
        """Make a point: in W&B's order, without the keys whose conditions are not met."""
        return make_point(self._parameters, self._local, values, self._origin)


def make_point(
    parameters: Sequence[Parameter],
    local: LocalOptions,
    values: Mapping[str, Any],
    origin: Origin,
) -> Point:
    """Make a point of values, without the keys whose conditions are not met."""
    origins = {parameter.key: parameter.origin for parameter in parameters}
    order = [*(key for key in origins if key in values), *(k for k in values if k not in origins)]
    kept = {key: values[key] for key in order if _applies(key, values, local.when)}
    return Point(kept, {key: origins.get(key, origin) for key in kept})


def draw_point(
    parameters: Sequence[Parameter], local: LocalOptions, index: int, origin: Origin
) -> Point:
    """Draw point ``index`` of a random search; the first ones are around the cases."""
    rng = random.Random(f"{local.seed}/{index}")  # noqa: S311 - nothing secret
    case = local.cases[index] if index < len(local.cases) else {}
    zipped = {key for group in local.zip for key in group}
    values = {p.key: p.distribution.sample(rng) for p in parameters if p.key not in zipped}
    for keys, items in axes_of([p for p in parameters if p.key in zipped], local):
        values.update(zip(keys, items[rng.randrange(len(items))], strict=True))
    return make_point(parameters, local, {**values, **case}, origin)


def axes_of(parameters: Sequence[Parameter], local: LocalOptions) -> list[Axis]:
    """Return what varies: each parameter by itself, but groups of ``zip`` together.

    Raises:
        ValueError: A parameter has no end.
    """
    by_key = {parameter.key: parameter for parameter in parameters}
    group_of = {key: group for group in local.zip for key in group}
    axes: list[Axis] = []
    done: set[str] = set()
    for parameter in parameters:
        if parameter.key in done:
            continue
        # What a case has taken out of a group does not vary any more.
        keys = tuple(k for k in group_of.get(parameter.key, (parameter.key,)) if k in by_key)
        done.update(keys)
        columns = [_values_of(by_key[key], as_written=len(keys) > 1) for key in keys]
        axes.append((keys, list(zip(*columns, strict=True))))
    return axes


def _values_of(parameter: Parameter, *, as_written: bool) -> Sequence[Any]:
    written = getattr(parameter.distribution, "values", None)
    if as_written and written is not None:
        return list(written)
    values = parameter.distribution.grid()
    if values is None:
        raise ValueError(f"{parameter.key} has no end: {parameter.kind}")
    return values


def _applies(
    key: str, values: Mapping[str, Any], when: Mapping[str, Mapping[str, tuple[Any, ...]]]
) -> bool:
    """Tell whether a key belongs to a point: what it depends on is there and as it must be."""
    return all(
        other in values and values[other] in wanted and _applies(other, values, when)
        for other, wanted in when.get(key, {}).items()
    )
