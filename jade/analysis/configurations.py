"""Runs that differ in nothing but their seed, as one configuration, ranked and with ties."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jade.analysis.measure import Measure
from jade.analysis.run_facts import RunFacts
from jade.analysis.spread import Spread
from jade.analysis.table import Row, Table


@dataclass(frozen=True)
class Configuration:
    """One configuration, and the runs that repeat it.

    Attributes:
        values: What it has for each parameter that differs between configurations.
        runs: All of its runs, also those that failed.
    """

    values: Mapping[str, Any]
    runs: Sequence[RunFacts]

    @cached_property
    def counted(self) -> list[RunFacts]:
        """The runs that ended as they should; the others say nothing of the configuration."""
        return [run for run in self.runs if run.ended_well]

    def spread(self, measure: Measure) -> Spread | None:
        """Return the spread of a measure over the repetitions; None without any finite value."""
        values = [value for run in self.counted if (value := measure.of(run)) is not None]
        return Spread.of(values)


@dataclass(frozen=True)
class Ranked:
    """A configuration at its place.

    Attributes:
        place: Counted from 1; None for one that has no value.
        is_tied: Whether its interval overlaps that of the best one; of the best one itself, whether
            any other does.
    """

    configuration: Configuration
    spread: Spread | None
    place: int | None
    is_tied: bool = False


def group(table: Table) -> list[Configuration]:
    """Group the runs of a table; one whose configuration is lost stays by itself."""
    groups: dict[str, list[RunFacts]] = {}
    for run in table.runs:
        values = [run.config.get(key) for key in table.parameters]
        # Text that tells 1 from 1.0 and from "1".
        key = json.dumps(values, default=str) if run.config else f"lost {run.path}"
        groups.setdefault(key, []).append(run)
    return [
        Configuration({key: runs[0].config.get(key) for key in table.parameters}, runs)
        for runs in groups.values()
    ]


def rank(configurations: Sequence[Configuration], measure: Measure) -> list[Ranked]:
    """Rank configurations by their means; equal means share a place, the rest come last."""
    found = [(configuration, configuration.spread(measure)) for configuration in configurations]
    measured = [(c, spread) for c, spread in found if spread is not None]
    measured.sort(key=lambda pair: measure.sign * pair[1].mean)
    ranked: list[Ranked] = []
    for place, (configuration, spread) in enumerate(measured, 1):
        if ranked and ranked[-1].spread and ranked[-1].spread.mean == spread.mean:
            place = ranked[-1].place or place
        is_tied = bool(ranked) and spread.is_tied_with(measured[0][1])
        ranked.append(Ranked(configuration, spread, place, is_tied))
    if any(item.is_tied for item in ranked):
        ranked[0] = replace(ranked[0], is_tied=True)
    rest = [Ranked(configuration, None, None) for configuration, s in found if s is None]
    return [*ranked, *rest]


SUMMARY = ("place", "tied_with_best", "metric", "mode", "count", "mean", "std", "interval_95")
REST = ("min", "max", "num_runs", "runs")


def summary_columns(table: Table) -> list[str]:
    """Return the columns of a summary."""
    return [*SUMMARY[:2], *table.parameters, *SUMMARY[2:], *REST]


def summarize(table: Table, measures: Sequence[Measure]) -> list[Row]:
    """Return one row per metric and configuration, the best first."""
    configurations = group(table)
    return [
        _row(ranked, measure) for measure in measures for ranked in rank(configurations, measure)
    ]


def _row(ranked: Ranked, measure: Measure) -> Row:
    spread = ranked.spread
    row: Row = {
        **ranked.configuration.values,
        "place": ranked.place,
        "tied_with_best": ranked.is_tied if spread else None,
        "metric": measure.label,
        "mode": measure.mode,
        "count": spread.count if spread else 0,
        "num_runs": len(ranked.configuration.runs),
        "runs": " ".join(run.id for run in ranked.configuration.runs),
    }
    if spread is not None:
        row |= {"mean": spread.mean, "std": spread.std, "interval_95": spread.margin}
        row |= {"min": spread.lowest, "max": spread.highest}
    return row
