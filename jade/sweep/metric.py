"""Read the metric of a sweep: what a search improves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jade.errors import suggest

GOALS = ("minimize", "maximize")
KEYS = ("name", "goal", "target", "impute", "impute_while_running")

Found = list[tuple[str | None, str]]


@dataclass(frozen=True)
class Metric:
    """What a search improves.

    Attributes:
        name: Under which it is logged.
        goal: Whether less or more is better.
        target: The sweep ends once a run has reached this.
    """

    name: str
    goal: Literal["minimize", "maximize"] = "minimize"
    target: float | None = None


def read_metric(given: Any, found: Found) -> Metric | None:
    """Read the key ``metric``; what is wrong is added to what was found."""
    if not isinstance(given, Mapping):
        found.append((None, f"metric must be a mapping: {{name: {given}, goal: minimize}}."))
        return None
    for key in given:
        if key not in KEYS:
            found.append((key, f"unknown key {key!r} of metric.{suggest(str(key), KEYS)}"))
    name, goal, target = given.get("name"), given.get("goal", "minimize"), given.get("target")
    if not isinstance(name, str):
        said = f", not {name!r}" if "name" in given else ""
        found.append((None, f"metric needs the name of what is logged{said}."))
    if goal not in GOALS:
        found.append(("goal", f"unknown goal {goal!r} of the metric.{suggest(str(goal), GOALS)}"))
    if target is not None and (isinstance(target, bool) or not isinstance(target, (int, float))):
        found.append(("target", f"target must be a number, not {target!r}."))
    return None if found else Metric(str(name), goal, target)
