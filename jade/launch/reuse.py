"""Find finished runs, of other sweeps or of none, that are just what points of a sweep ask for."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade.errors import ConfigError
from jade.launch.local_sweep import Setup
from jade.launch.sweep_runs import find_value, make_point
from jade.launch.sweep_study import Claim, TrialView
from jade.origin import Origin
from jade.overrides import Override
from jade.run_dir import FINISHED, RunDir
from jade.runs import find_runs
from jade.saved_runs import IDENTITY, load_config, read_json
from jade.settings import AMOUNT, FIELDS
from jade.sweep import Point, point_key
from jade.sweep_check import PointResolver

# What must be equal for a run to have the same result, to the last bit.
COMPARED = (
    *IDENTITY,
    "seed",
    *(name for name, field in FIELDS.items() if field.metadata["group"] == AMOUNT),
)


@dataclass(frozen=True)
class Reusable:
    """A point that need not run, and the runs that stand for it."""

    key: str
    values: Mapping[str, Any]
    value: float
    runs: list[dict[str, Any]]

    def __str__(self) -> str:
        shown = " ".join(f"{key}={value}" for key, value in self.values.items())
        return f"{shown}  from {', '.join(run['path'] for run in self.runs)}"


def find_reusable(
    setup: Setup, views: Sequence[TrialView], overrides: Sequence[Override]
) -> list[Reusable]:
    """Find points that wait although runs of the same configuration are finished.

    Args:
        setup: Of the sweep.
        views: Its points.
        overrides: What all its points have in common.
    """
    waiting = [view for view in views if view.state == "waiting"]
    known = dict(_finished(setup.folder.root.parent, setup.folder.runs)) if waiting else {}
    if not known:
        return []
    finder = _Finder(setup, known, PointResolver(overrides))
    return [found for view in waiting if (found := finder.find(view)) is not None]


def _finished(root: Path, own: Path) -> Iterator[tuple[str, RunDir]]:
    for run in find_runs(root):
        if run.status == FINISHED and own not in run.path.absolute().parents:
            directory = RunDir(run.path)
            try:
                yield _digest(load_config(directory)), directory
            except ConfigError:
                continue


def _digest(values: Mapping[str, Any]) -> str:
    return point_key({key: values.get(key) for key in COMPARED})


@dataclass(frozen=True)
class _Finder:
    setup: Setup
    known: Mapping[str, RunDir]
    resolver: PointResolver

    def find(self, view: TrialView) -> Reusable | None:
        setup = self.setup
        claim = Claim(-1, view.number, view.key, view.values, view.repetitions)
        point = make_point(claim, setup.folder.name, setup.base_seed, setup.folder.runs)
        found = [self._find_run(run.values) for run in point.runs]
        runs = [item for item in found if item is not None]
        if not runs or len(runs) < len(found):
            return None
        value = statistics.fmean(run["value"] for run in runs)
        return Reusable(view.key, view.values, value, runs)

    def _find_run(self, values: Mapping[str, Any]) -> dict[str, Any] | None:
        origin = Origin(str(self.setup.sweep.path))
        try:
            resolved = self.resolver.resolve(Point(values, dict.fromkeys(values, origin)))
        except ConfigError:
            # It is said when it is run.
            return None
        if resolved.frozen.get("seed") in (None, -1):
            # Each of its runs would be another one.
            return None
        directory = self.known.get(_digest(resolved.frozen))
        if directory is None:
            return None
        metric = self.setup.sweep.metric
        value = find_value(read_json(directory.status_file), metric.name if metric else None)
        if value is None:
            return None
        return {
            "id": directory.run_id,
            "value": value,
            "status": "finished",
            "seed": resolved.frozen["seed"],
            "path": str(directory.root),
        }
