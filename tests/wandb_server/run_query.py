"""Filters and orders of run queries, as far as they are in use."""

import operator
from collections.abc import Callable
from typing import Any

from wandb_server.refusal import RefusalError
from wandb_server.runs import ServedRun

ATTRIBUTES = {
    "sweep": "sweep",
    "state": "state",
    "name": "id",
    "display_name": "display_name",
    "displayName": "display_name",
    "group": "group",
    "jobType": "job_type",
    "job_type": "job_type",
    "tags": "tags",
    "created_at": "created_at",
    "createdAt": "created_at",
    "heartbeat_at": "heartbeat_at",
}


def _compare(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda found, wanted: found is not None and holds(found, wanted)


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$in": lambda found, wanted: any(
        item in wanted for item in (found if isinstance(found, list) else [found])
    ),
    "$nin": lambda found, wanted: found not in wanted,
    "$exists": lambda found, wanted: (found is not None) == wanted,
    "$gt": _compare(operator.gt),
    "$gte": _compare(operator.ge),
    "$lt": _compare(operator.lt),
    "$lte": _compare(operator.le),
}


def inner(values: Any, name: str) -> Any:
    """Find a value by a name with dots, which may belong to the name or lead deeper."""
    if not isinstance(values, dict):
        return None
    if name in values:
        return values[name]
    for place in (i for i, letter in enumerate(name) if letter == "."):
        found = inner(values.get(name[:place]), name[place + 1 :])
        if found is not None:
            return found
    return None


def value_of(run: ServedRun, name: str) -> Any:
    """Find what a filter or an order calls ``name``."""
    if name.startswith("config."):
        return inner(run.config, name.removeprefix("config.").removesuffix(".value"))
    if name.startswith("summary_metrics."):
        return inner(run.summary, name.removeprefix("summary_metrics."))
    if name not in ATTRIBUTES:
        raise RefusalError(f"unknown field {name} in a filter or an order")
    return getattr(run, ATTRIBUTES[name])


def matches(run: ServedRun, wanted: dict[str, Any]) -> bool:
    """Tell whether a run fits a filter in the style of MongoDB."""
    return all(_fits(run, name, condition) for name, condition in wanted.items())


def _fits(run: ServedRun, name: str, condition: Any) -> bool:
    if name == "$and":
        return all(matches(run, part) for part in condition)
    if name == "$or":
        return any(matches(run, part) for part in condition)
    found = value_of(run, name)
    if not isinstance(condition, dict):
        return condition in found if isinstance(found, list) else bool(found == condition)
    unknown = [symbol for symbol in condition if symbol not in OPERATORS]
    if unknown:
        raise RefusalError(f"unknown operator {unknown[0]} in a filter")
    return all(OPERATORS[symbol](found, value) for symbol, value in condition.items())


def ordered(runs: list[ServedRun], order: str) -> list[ServedRun]:
    """Sort runs by ``+name`` or ``-name``; those without such a value come last."""
    name = order.lstrip("+-")
    having = [run for run in runs if value_of(run, name) is not None]
    having.sort(key=lambda run: value_of(run, name), reverse=order.startswith("-"))
    return having + [run for run in runs if value_of(run, name) is None]
