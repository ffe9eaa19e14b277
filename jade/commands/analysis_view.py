"""What ``jade analyze`` shows on a terminal: the best runs, repetitions, and what is odd."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jade.analysis.configurations import Ranked, group, rank
from jade.analysis.labels import render_mean, render_value, shorten_keys
from jade.analysis.measure import Measure
from jade.analysis.table import SEED, Table
from jade.commands.run_view import NEVER, align_columns, render_status, render_text
from jade.timespan import render_duration

if TYPE_CHECKING:
    from rich.text import Text

# A parameter that fills more of a line is cut.
VALUE_WIDTH = 28
SHOWN_NOTES = 5
BETTER = {"min": "less is better", "max": "more is better"}


class AnalysisView:
    """The best of many runs.

    Args:
        table: All runs.
        measures: What they are compared by; the first one decides on the order.
        reason: Why that one, if nobody asked for it.
        limit: How many runs and configurations are shown.
    """

    def __init__(self, table: Table, measures: Sequence[Measure], reason: str, limit: int) -> None:
        self._table = table
        self._measures = measures
        self._reason = reason
        self._limit = limit
        self._labels = shorten_keys(table.parameters)

    def render_runs(self) -> "Iterator[Text]":
        """Render the best runs with what differs between them."""
        table, measures = self._table, self._measures
        ordered = table.ranked(measures[0]) if measures else list(table.runs)
        shown = ordered[: self._limit]
        columns: dict[str, Sequence[Text]] = {"run": [render_text(run.id) for run in shown]}
        columns["name"] = [render_text(run.name) for run in shown]
        columns["status"] = [render_status(run.status) for run in shown]
        for key in (*table.parameters, SEED):
            label = self._labels.get(key, key)
            columns[label] = [_cell(run.config.get(key)) for run in shown]
        for measure in measures:
            columns[measure.label] = [_number(measure.of(run)) for run in shown]
        columns["took"] = [
            render_text(NEVER if run.seconds is None else render_duration(run.seconds))
            for run in shown
        ]
        columns["note"] = [render_text("; ".join(run.notes)) for run in shown]
        yield from align_columns(_telling(columns))
        yield render_text(self._count(len(shown)))
        if measures:
            yield render_text(self._explain(measures[0]))

    def render_summary(self) -> "Iterator[Text]":
        """Render configurations over their repetitions, and the best one for each metric."""
        configurations = group(self._table)
        for measure in self._measures:
            ranked = rank(configurations, measure)
            yield render_text("")
            yield from self._render_configurations(ranked[: self._limit], measure)
            measured = [item for item in ranked if item.spread]
            yield render_text(_verdict(measured, measure, len(configurations)))
        rest = [m for m in self._table.measures.all() if m not in self._measures]
        if rest:
            yield render_text("")
            yield from self._render_best([(m, rank(configurations, m)) for m in rest])

    def render_notes(self) -> "Iterator[Text]":
        """Render what somebody should know before they believe the numbers."""
        for name in self._table.measures.missing_of_sweeps():
            yield render_text(f"note: no run has logged {name!r}, the metric of the sweep")
        odd = [run for run in self._table.runs if run.notes]
        for run in odd[:SHOWN_NOTES]:
            yield render_text(f"note: {run.id}: {'; '.join(run.notes)}")
        if odd[SHOWN_NOTES:]:
            rest = len(odd) - SHOWN_NOTES
            yield render_text(f"note: {rest} more runs have something missing: --csv lists them")

    def _render_configurations(
        self, ranked: Sequence[Ranked], measure: Measure
    ) -> "Iterator[Text]":
        columns: dict[str, Sequence[Text]] = {"place": [render_text(_place(r)) for r in ranked]}
        for key in self._table.parameters:
            values = [_cell(item.configuration.values.get(key)) for item in ranked]
            columns[self._labels[key]] = values
        spreads = [item.spread for item in ranked]
        columns[f"{measure.label}, mean and 95 % interval"] = [
            render_text(NEVER if s is None else " ± ".join(filter(None, render_mean(s))))
            for s in spreads
        ]
        columns["std"] = [_number(s.std if s else None) for s in spreads]
        columns["min"] = [_number(s.lowest if s else None) for s in spreads]
        columns["max"] = [_number(s.highest if s else None) for s in spreads]
        columns["n"] = [
            render_text(_count_of(s.count if s else 0, len(r.configuration.runs)))
            for s, r in zip(spreads, ranked, strict=True)
        ]
        yield from align_columns(_telling(columns))

    def _render_best(self, found: Sequence[tuple[Measure, Sequence[Ranked]]]) -> "Iterator[Text]":
        """Render one line per metric: the best configuration, or how many share that place."""
        best = [(measure, ranked[0]) for measure, ranked in found if ranked[0].spread]
        columns: dict[str, Sequence[Text]] = {
            "best of": [render_text(f"{m.label} ({m.mode})") for m, _ in best],
            "mean": [
                render_text(" ± ".join(filter(None, render_mean(r.spread))) if r.spread else "")
                for _, r in best
            ],
            "tie": [render_text("tied" if r.is_tied else "") for _, r in best],
        }
        for key in self._table.parameters:
            values = [_cell(item.configuration.values.get(key)) for _, item in best]
            columns[self._labels[key]] = values
        if best:
            yield from align_columns(_telling(columns))

    def _count(self, num_shown: int) -> str:
        runs = self._table.runs
        counts = Counter(run.status for run in runs)
        listed = ", ".join(f"{number} {status}" for status, number in counts.most_common())
        total = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        part = f", the best {num_shown} shown" if num_shown < len(runs) else ""
        return f"{total}{part}: {listed}"

    def _explain(self, measure: Measure) -> str:
        why = f" ({self._reason})" if self._reason else ""
        return f"compared by {measure.label}{why}; {BETTER[measure.mode]}, {measure.reason}"


def _place(ranked: Ranked) -> str:
    if ranked.place is None:
        return NEVER
    return f"{ranked.place} tie" if ranked.is_tied else str(ranked.place)


def _count_of(num_counted: int, num_runs: int) -> str:
    return str(num_runs) if num_counted == num_runs else f"{num_counted} of {num_runs}"


def _verdict(measured: Sequence[Ranked], measure: Measure, num_configurations: int) -> str:
    if not measured:
        return f"no run that has ended well has {measure.label}"
    tied = [item for item in measured if item.is_tied]
    total = f"{num_configurations} configurations"
    if tied:
        return f"{total}; {len(tied)} are tied for the best: their intervals overlap"
    if measured[0].spread is not None and measured[0].spread.margin is None:
        return f"{total}; the best one has run once: how sure that is, repetitions would tell"
    return f"{total}; the best one is ahead of all others"


def _telling(columns: "Mapping[str, Sequence[Text]]") -> "dict[str, Sequence[Text]]":
    """Leave out columns that say nothing of any row."""
    return {name: cells for name, cells in columns.items() if any(cell.plain for cell in cells)}


def _cell(value: Any) -> "Text":
    text = render_text(render_value(value))
    text.truncate(VALUE_WIDTH, overflow="ellipsis")
    return text


def _number(value: float | None) -> "Text":
    return render_text(NEVER if value is None else render_value(float(value)))
