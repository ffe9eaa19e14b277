"""What a sweep says of its runs: the parameters that it varies, and the metric that it improves."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade import yaml_file
from jade.errors import ConfigError
from jade.whole_file import write_whole

SWEEP_FILE, RUNS = "sweep.yml", "runs"
# Names the points of a sweep that have no directory among its runs.
ELSEWHERE = "elsewhere.json"


@dataclass(frozen=True)
class SweepFacts:
    """A sweep, here or on W&B.

    Attributes:
        keys: The parameters that it names, dotted, perhaps in a short form.
        metric: What it improves.
        mode: Which values of that are better.
    """

    name: str
    keys: tuple[str, ...] = ()
    metric: str | None = None
    mode: str = "min"


def describe_sweep(name: str, values: Mapping[str, Any]) -> SweepFacts:
    """Describe a sweep by the content of its file, as far as that makes sense."""
    metric = values.get("metric")
    metric = metric if isinstance(metric, Mapping) else {}
    named = metric.get("name")
    return SweepFacts(
        name=str(values.get("name") or name),
        keys=tuple(sorted(_parameters(values, ""))),
        metric=named if isinstance(named, str) else None,
        mode="max" if metric.get("goal") == "maximize" else "min",
    )


def load_sweep_facts(folder: Path) -> SweepFacts | None:
    """Load what the directory of a local sweep says; None if it is not one, or damaged."""
    path = folder / SWEEP_FILE
    if not path.is_file():
        return None
    try:
        values = yaml_file.load(path).values
    except ConfigError:
        return SweepFacts(folder.name)
    return describe_sweep(folder.name, values) if isinstance(values, Mapping) else None


def write_elsewhere(folder: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Write which runs of a sweep are in other places, or nowhere: id, values, path or reason."""
    path = folder / ELSEWHERE
    if runs:
        write_whole(path, (json.dumps(list(runs), indent=1, default=str) + "\n").encode())
    else:
        path.unlink(missing_ok=True)


def read_elsewhere(folder: Path) -> list[Mapping[str, Any]]:
    """Read what was written; nothing if there is none, or if it is damaged."""
    try:
        found = json.loads((folder / ELSEWHERE).read_bytes())
    except (OSError, ValueError):
        return []
    runs = found if isinstance(found, list) else []
    return [run for run in runs if isinstance(run, Mapping) and "id" in run]


def _parameters(values: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield dotted keys; nested parameters have ``parameters`` inside."""
    parameters = values.get("parameters")
    for name, options in parameters.items() if isinstance(parameters, Mapping) else ():
        if isinstance(options, Mapping) and isinstance(options.get("parameters"), Mapping):
            yield from _parameters(options, f"{prefix}{name}.")
        elif not (isinstance(options, Mapping) and "value" in options):
            yield f"{prefix}{name}"
