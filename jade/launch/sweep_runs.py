"""The runs of one point of a sweep: its repetitions, and what they make together."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.launch.sweep_study import Claim
from jade.run_dir import FINISHED, STOPPED, RunDir
from jade.saved_runs import read_json
from jade.sweep import derive_seed, run_id_of

COMPLETE, PRUNED, FAIL = "COMPLETE", "PRUNED", "FAIL"


@dataclass
class SweepRun:
    """One run: a point with one of its seeds.

    Attributes:
        values: What is swept, with the seed if it is derived.
        num_failures: How often it has failed in this call.
        num_losses: How often the process that had started it was gone.
        reason: Why it failed last.
    """

    point: "SweepPoint"
    repetition: int
    run_id: str
    values: Mapping[str, Any]
    directory: RunDir
    num_failures: int = 0
    num_losses: int = 0
    reason: str | None = None
    tail: list[str] = field(default_factory=list)


@dataclass
class SweepPoint:
    """A claimed point and its runs."""

    claim: Claim
    runs: list[SweepRun] = field(default_factory=list)
    results: dict[int, dict[str, Any]] = field(default_factory=dict)
    is_pruned: bool = False
    has_failed: bool = False
    is_released: bool = False

    @property
    def is_over(self) -> bool:
        return self.is_pruned or self.has_failed or len(self.results) == len(self.runs)

    @property
    def state(self) -> str:
        if self.has_failed:
            return FAIL
        return PRUNED if self.is_pruned else COMPLETE

    def objective(self, worst: float) -> float | None:
        """Return the mean of what the runs have come to; what is no number is the worst."""
        values = [result["value"] for result in self.results.values()]
        if not values or any(value is None for value in values):
            return None
        if any(math.isnan(value) for value in values):
            return worst
        return statistics.fmean(values)


def make_point(claim: Claim, name: str, base_seed: Any, folder: Path) -> SweepPoint:
    """Make the runs of a point; the first has the seed that is configured, others derived ones."""
    point = SweepPoint(claim)
    base = claim.values.get("seed", base_seed)
    for repetition in range(1, claim.repetitions + 1):
        run_id = run_id_of(name, claim.key, repetition)
        values = dict(claim.values)
        if repetition > 1:
            values["seed"] = derive_seed(base, claim.key, repetition)
        directory = RunDir(folder / run_id)
        point.runs.append(SweepRun(point, repetition, run_id, values, directory))
    return point


def find_value(status: Mapping[str, Any], metric: str | None) -> float | None:
    """Return what a run has come to; a sweep without a metric has nothing to compare."""
    if metric is None:
        return 0.0
    latest = status.get("latest")
    value = latest.get(metric) if isinstance(latest, Mapping) else None
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def read_ended(run: SweepRun) -> Mapping[str, Any] | None:
    """Return the status of a run that has come to its end before; None if it has not."""
    status: Any = read_json(run.directory.status_file)
    is_over = isinstance(status, Mapping) and status.get("status") in (FINISHED, STOPPED)
    return status if is_over else None
