"""Check a sweep before its first run starts: each point resolved, its networks built."""

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jade.check import find_problems
from jade.class_index import ClassIndex, RememberedClasses
from jade.config import Configuration, Sources, collect
from jade.envvars import exported
from jade.errors import ConfigError, closest, suggest
from jade.fence import Fence
from jade.file_tree import RememberedTrees
from jade.meta_build import Built, MetaBuilder
from jade.overrides import Override
from jade.resolve import Resolved, resolve
from jade.sweep import LocalGrid, Point, Sweep, telling_points

# A larger grid is checked at some of its points only, unless more are asked for.
LARGEST_GRID = 2000
DEFAULT_SAMPLES = 50
# What decides how a trainer is built.
DECISIVE = ("modules", "arch_impl", "model", "data", "eval")
# So many points are enough to see what they have in common.
MAX_LISTED = 3


@dataclass
class Impossible:
    """One reason why points cannot run, and these points."""

    reason: str
    points: list[Point] = field(default_factory=list)

    def describe(self, num_checked: int) -> str:
        """Render the reason with the number of points and the first of them."""
        if len(self.points) == num_checked:
            return self.reason
        listed = "".join(f"\n    {point}" for point in self.points[:MAX_LISTED])
        rest = len(self.points) - MAX_LISTED
        more = f"\n    and {rest} more" if rest > 0 else ""
        count = "1 point" if len(self.points) == 1 else f"{len(self.points)} points"
        return f"{self.reason}\n  {count}:{listed}{more}"


@dataclass
class SweepReport:
    """What was found out about a sweep.

    Attributes:
        num_points: How many points were checked.
        is_whole: Whether these are all points of the sweep.
        num_impossible: How many of them cannot run.
        problems: What keeps points, or the whole sweep, from running.
        notes: What is odd.
        untried: What could not be tried, and how many points that concerns.
        smallest: The smallest number of parameters, and the largest.
        largest: None as long as nothing was built.
    """

    num_points: int = 0
    is_whole: bool = False
    num_impossible: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    untried: dict[str, int] = field(default_factory=dict)
    smallest: int | None = None
    largest: int | None = None

    def add_size(self, num_parameters: int | None) -> None:
        """Take the size of one more trainer into account."""
        if num_parameters is not None:
            known = [size for size in (self.smallest, self.largest) if size is not None]
            self.smallest = min([num_parameters, *known])
            self.largest = max([num_parameters, *known])


def choose_points(sweep: Sweep, num_samples: int | None) -> tuple[Iterator[Point], bool]:
    """Choose the points to check, and tell whether they are all that there are."""
    grid = sweep.grid
    if grid is not None and grid.num_points <= (num_samples or LARGEST_GRID):
        return iter(grid), True
    return _some_points(sweep, DEFAULT_SAMPLES if num_samples is None else num_samples), False


def _some_points(sweep: Sweep, num_samples: int) -> Iterator[Point]:
    """Yield points with every value of each list and the ends of ranges, then random ones."""
    seen: set[str] = set()
    grid = sweep.grid
    if isinstance(grid, LocalGrid):
        # Not every combination of values is a point: zip, when and cases say which are.
        telling: Iterator[Point] = iter(())
        drawn = iter(random.Random(0).sample(list(grid), num_samples))  # noqa: S311
    else:
        telling = iter(()) if sweep.local.shapes_points else telling_points(sweep.parameters)
        drawn = (sweep.draw(index) for index in range(num_samples))
    for points in (telling, drawn):
        for point in points:
            if str(point) not in seen:
                seen.add(str(point))
                yield point
            if grid is not None and len(seen) == grid.num_points:
                return


def check_sweep(
    sweep: Sweep,
    arguments: Sequence[Override],
    num_samples: int | None = None,
    on_point: Callable[[int], None] = lambda _: None,
) -> SweepReport:
    """Check every point of a grid, or some of a search.

    Args:
        sweep: What to check.
        arguments: Of the program, as an agent gives them, and of whoever checks.
        num_samples: How many random points of a search; the most points of a grid.
        on_point: Called with the number of each point.
    """
    return _SweepCheck(sweep, arguments).run(num_samples, on_point)


class PointResolver:
    """Resolves points one after another; files are parsed and classes indexed once.

    Args:
        arguments: What all points have in common.
    """

    def __init__(self, arguments: Sequence[Override]) -> None:
        self._arguments = list(arguments)
        self._trees = RememberedTrees()
        self._indices: dict[tuple[Path, ...], ClassIndex] = {}

    def resolve(self, point: Point) -> Resolved:
        """Resolve the configuration of a point.

        Raises:
            ConfigError: The point cannot run.
        """
        overrides = [*self._arguments, *point.overrides()]
        sources = Sources(arguments=overrides, environ=dict(os.environ), load_tree=self._trees)
        configuration: Configuration = collect(sources)
        with exported(configuration.environ):
            return resolve(configuration, find_problems, make_index=self._make_index)

    def _make_index(self, roots: Sequence[Path], folder: Path, fence: Fence | None) -> ClassIndex:
        key = tuple(roots)
        if key not in self._indices:
            self._indices[key] = RememberedClasses(roots, folder, fence)
        return self._indices[key]


class _SweepCheck:
    """Checks points one after another."""

    def __init__(self, sweep: Sweep, arguments: Sequence[Override]) -> None:
        self._sweep = sweep
        self._resolver = PointResolver(arguments)
        self._builder = MetaBuilder()
        self._impossible: dict[str, Impossible] = {}
        self._report = SweepReport(notes=list(sweep.notes))
        self._knows_metrics = False
        self._built: dict[str, Built] = {}

    def run(self, num_samples: int | None, on_point: Callable[[int], None]) -> SweepReport:
        report = self._report
        points, report.is_whole = choose_points(self._sweep, num_samples)
        for number, point in enumerate(points):
            on_point(number)
            report.num_points += 1
            self._check(point)
        blamed = [point for each in self._impossible.values() for point in each.points]
        report.num_impossible = len({id(point) for point in blamed})
        report.problems += [each.describe(report.num_points) for each in self._impossible.values()]
        return report

    def _check(self, point: Point) -> None:
        try:
            resolved = self._resolver.resolve(point)
        except ConfigError as error:
            for text in error.texts:
                self._blame(text, text, point)
            return
        wants_metrics = self._sweep.metric is not None and not self._knows_metrics
        built = self._build(resolved, with_metrics=wants_metrics)
        self._report.add_size(built.num_parameters)
        for reason in built.untried:
            self._report.untried[reason] = self._report.untried.get(reason, 0) + 1
        if built.failure is not None:
            self._blame(built.failure.sort, built.failure.text, point)
        elif wants_metrics:
            self._knows_metrics = True
            self._check_metric(resolved, built)

    def _build(self, resolved: Resolved, *, with_metrics: bool) -> Built:
        """Build what a point describes; points that differ only in the seed or the like, once."""
        parts = {key: resolved.expanded.get(key) for key in DECISIVE}
        key = repr((parts, with_metrics))
        if key not in self._built:
            with exported(resolved.configuration.environ):
                self._built[key] = self._builder.build(resolved, with_metrics=with_metrics)
        return self._built[key]

    def _blame(self, sort: str, reason: str, point: Point) -> None:
        self._impossible.setdefault(sort, Impossible(reason)).points.append(point)

    def _check_metric(self, resolved: Resolved, built: Built) -> None:
        """Compare the metric with what a run logs; what only a run can tell is a note."""
        metric = self._sweep.metric
        if metric is None or metric.name in built.metrics:
            return
        where = f"{self._sweep.where('metric')}: "
        evaluations = list(resolved.evaluations)
        first = metric.name.partition("/")[0]
        known: Mapping[str, None] = dict.fromkeys([*evaluations, *sorted(built.metrics)])
        meant = closest(metric.name, known)
        if built.is_complete:
            self._report.problems.append(
                f"{where}nothing logs the metric {metric.name!r}.{suggest(metric.name, known)}"
            )
        elif metric.name in evaluations:
            # Whatever it measures, the first number has its name.
            return
        elif first in evaluations:
            self._report.notes.append(
                f"{where}whether {first} logs {metric.name!r} is known when it runs."
            )
        elif meant is not None:
            self._report.problems.append(
                f"{where}no evaluation logs the metric {metric.name!r}. Did you mean {meant!r}?"
            )
        else:
            self._report.notes.append(
                f"{where}no evaluation logs the metric {metric.name!r}; it must be a loss item."
            )
