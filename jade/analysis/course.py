"""The course of each metric of a run: where it ended, and where it was lowest and highest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jade.metrics_table import STEP, MetricsTable

# Columns of metrics.csv that say when, not what.
CLOCKS = (STEP, "epoch")


@dataclass(frozen=True)
class Extreme:
    """A value, and the iteration at which it was first reached."""

    value: float
    iteration: int | None = None


@dataclass(frozen=True)
class Course:
    """What became of one metric; a value that is not finite is neither lowest nor highest.

    Attributes:
        curve: Its points, thinned; empty if nobody asked for them.
    """

    last: float
    lowest: Extreme | None = None
    highest: Extreme | None = None
    curve: Sequence[tuple[int, float]] = ()

    def best(self, mode: str) -> Extreme | None:
        """Return the best value, by what is better: ``min`` or ``max``."""
        return self.highest if mode == "max" else self.lowest


@dataclass(frozen=True)
class Courses:
    """Those of all metrics of a run, and how many rows of its file could not be read."""

    by_name: dict[str, Course]
    num_damaged: int = 0


def load_courses(path: Path, num_points: int = 0) -> Courses:
    """Load what a run has logged; OSError if it cannot be read.

    Args:
        path: Its metrics.csv; the row that is being written is left out.
        num_points: How many points of each curve are kept.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    header, *lines = text[: text.rfind("\n") + 1].split("\n")[:-1] or [""]
    names = header.split(",")
    if '"' in header or names[0] != STEP:
        return _load_odd(path, num_points)
    rows = [line.split(",") for line in lines]
    whole = [row for row in rows if len(row) == len(names)]
    columns = list(zip(*whole, strict=True))
    found: dict[str, Course] = {}
    try:
        steps = list(map(int, columns[0])) if columns else []
        for name, cells in zip(names[1:], columns[1:], strict=False):
            if name not in CLOCKS:
                pairs = [
                    (step, float(cell)) for step, cell in zip(steps, cells, strict=True) if cell
                ]
                add_course(found, name, pairs, num_points)
    except ValueError:
        return _load_odd(path, num_points)
    return Courses(found, len(rows) - len(whole))


def _load_odd(path: Path, num_points: int) -> Courses:
    """Load a file that needs more care: names with commas in them, cells that are no numbers."""
    table = MetricsTable.load(path)
    found: dict[str, Course] = {}
    if STEP not in table:
        return Courses(found, max(1, len(table)))
    for name in table.columns:
        if name not in CLOCKS:
            pairs = [
                (int(row[STEP] or 0), value) for row in table if (value := row[name]) is not None
            ]
            add_course(found, name, pairs, num_points)
    num_lines = path.read_text(encoding="utf-8", errors="replace").count("\n")
    return Courses(found, max(0, num_lines - 1 - len(table)))


def add_course(
    found: dict[str, Course], name: str, pairs: Sequence[tuple[int, float]], num_points: int
) -> None:
    """Add the course of a metric with these values at these iterations, unless there are none."""
    if not pairs:
        return
    finite = [pair for pair in pairs if math.isfinite(pair[1])]
    values = [value for _, value in finite]
    lowest = highest = None
    if finite:
        low, high = min(values), max(values)
        lowest = Extreme(low, finite[values.index(low)][0])
        highest = Extreme(high, finite[values.index(high)][0])
    found[name] = Course(pairs[-1][1], lowest, highest, thin(finite, num_points))


def thin(points: Sequence[tuple[int, float]], num_points: int) -> Sequence[tuple[int, float]]:
    """Keep so many points, the first and last among them, and the extremes of what lies between."""
    if num_points <= 0:
        return ()
    if len(points) <= num_points:
        return points
    # Two points of each part: a spike must not vanish.
    num_parts = max(1, (num_points - 2) // 2)
    kept = {0, len(points) - 1}
    for part in range(num_parts):
        start = 1 + part * (len(points) - 2) // num_parts
        end = 1 + (part + 1) * (len(points) - 2) // num_parts
        places = range(start, end)
        kept.add(min(places, key=lambda place: points[place][1]))
        kept.add(max(places, key=lambda place: points[place][1]))
    return [points[place] for place in sorted(kept)]
