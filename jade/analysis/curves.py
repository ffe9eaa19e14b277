"""The learning curves that a page carries: as many points as it can have without getting slow."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jade.analysis.course import thin
from jade.analysis.run_facts import RunFacts

# All points of all curves together, and how many each may have.
MOST_POINTS = 220_000
FEWEST, MOST = 16, 200
MOST_METRICS = 24


@dataclass(frozen=True)
class Curves:
    """Curves by metric and number of the run: steps and values.

    Attributes:
        note: What was left out.
    """

    metrics: Sequence[str] = ()
    by_metric: Sequence[dict[int, tuple[list[int], list[float]]]] = ()
    note: str = field(default="")


def gather_curves(runs: Sequence[RunFacts], order: Sequence[int]) -> Curves:
    """Gather the curves of all runs, or of the best ones if there are too many.

    Args:
        runs: All runs.
        order: Their numbers, the best first.
    """
    names = sorted({name for run in runs for name, course in run.courses.items() if course.curve})
    metrics = names[:MOST_METRICS]
    if not metrics:
        return Curves()
    most_runs = MOST_POINTS // (FEWEST * len(metrics))
    kept = list(order[:most_runs])
    num_points = max(FEWEST, min(MOST, MOST_POINTS // (len(kept) * len(metrics))))
    by_metric: list[dict[int, Any]] = [{} for _ in metrics]
    for number in kept:
        for place, name in enumerate(metrics):
            course = runs[number].courses.get(name)
            if course is not None and course.curve:
                points = thin(course.curve, num_points)
                steps = [step for step, _ in points]
                by_metric[place][number] = (steps, [shorten(value) for _, value in points])
    left_out = [f"only those of the best {most_runs} runs are here"] if order[most_runs:] else []
    left_out += (
        [f"{len(names) - len(metrics)} metrics are left out"] if names[MOST_METRICS:] else []
    )
    return Curves(metrics, by_metric, "; ".join(left_out))


def shorten(value: float) -> float:
    """Return a number with the digits that can be seen in a plot."""
    return float(f"{value:.5g}")
