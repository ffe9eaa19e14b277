"""Show a local sweep while it runs, and what came of it."""

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jade.errors import StorageError

if TYPE_CHECKING:
    from rich.table import Table

    from jade.launch.kept_sweep import KeptSweep
    from jade.launch.local_sweep import LocalSweep
    from jade.launch.sweep_folder import SweepFolder
    from jade.launch.sweep_study import SweepStudy, TrialView
    from jade.sweep import Sweep

REFRESH_S, STORAGE_S = 0.5, 2.0
# Where nobody can watch a table, a line now and then is enough.
PLAIN_S = 60.0
MAX_FAILURES, MAX_LINES, MAX_POINTS = 20, 5, 10
REMOVED = "no longer in the file"
ORDER = ("running", "waiting", "done", "stopped", "failed", REMOVED)
STATES = {
    "waiting": "waiting",
    "left": "waiting",
    "running": "running",
    "complete": "done",
    "pruned": "stopped",
    "fail": "failed",
    "removed": REMOVED,
}


class SweepDisplay:
    """A live table on a terminal, plain lines elsewhere."""

    def __init__(
        self,
        runner: "LocalSweep",
        study: "SweepStudy",
        sweep: "Sweep",
        folder: "SweepFolder",
    ) -> None:
        self._runner = runner
        self._folder = folder
        self._study = study
        self._sweep = sweep
        self._views: Sequence[TrialView] = []
        self._live: Any = None
        self._next_refresh = self._next_views = 0.0
        self._next_plain = time.monotonic() + PLAIN_S
        self._started = time.monotonic()

    def __enter__(self) -> "SweepDisplay":
        self._runner.on_line = self._line
        self._runner.on_tick = self._tick
        if sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def conclude(self, code: int) -> int:
        """Print what came of the sweep, and return the exit code."""
        from jade.launch.elsewhere import note_elsewhere

        self._refresh_views()
        with contextlib.suppress(OSError):
            note_elsewhere(self._folder, self._views)
        counts = self._counts()
        took = _duration(time.monotonic() - self._started)
        print(f"{self._summary(counts)}; {took}")
        failed = [view for view in self._views if view.state == "fail"]
        if failed:
            self._print_failures(failed)
        done = counts["done"] + counts["stopped"]
        if failed and not done and not counts["running"] and not counts["waiting"]:
            print("no trial has succeeded")
        best = self._best()
        if best is not None:
            print(f"best: {describe_best(best, self._sweep)}")
        return code if code != 0 else int(bool(failed))

    def _print_failures(self, failed: "Sequence[TrialView]") -> None:
        from rich.console import Console
        from rich.table import Table

        tails = {run.point.claim.key: run.tail for run in self._runner.failures}
        table = Table("run", "values", "why", title="Failed", title_justify="left")
        outputs = []
        for view in failed[:MAX_FAILURES]:
            run_id = next((r["id"] for r in view.result.get("runs", ()) if r.get("reason")), "")
            lines = [
                str(view.result.get("reason") or "failed"),
                *tails.get(view.key, [])[-MAX_LINES:],
            ]
            table.add_row(str(run_id), describe(view.values), "\n".join(lines))
            outputs += [self._folder.find_output(run_id)] if run_id else []
        # A pipe has no width: nothing in it should be cut.
        console = Console(width=None if sys.stdout.isatty() else 160, markup=False)
        console.print(table)
        if len(failed) > MAX_FAILURES:
            print(f"and {len(failed) - MAX_FAILURES} more")
        # Not in the table, where it would be broken into lines.
        for path in outputs:
            print(f"output: {path}")
        print("again: --retry-failed")

    def _line(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            print(text, flush=True)

    def _tick(self) -> None:
        now = time.monotonic()
        if self._live is not None and now >= self._next_refresh:
            self._next_refresh = now + REFRESH_S
            if now >= self._next_views:
                self._next_views = now + STORAGE_S
                self._refresh_views()
            self._live.update(self._table(), refresh=True)
        elif self._live is None and now >= self._next_plain:
            self._next_plain = now + PLAIN_S
            self._refresh_views()
            self._line(self._summary(self._counts()))

    def _refresh_views(self) -> None:
        try:
            self._views = self._study.views()
        except StorageError:
            # What was known is shown until it answers again.
            return

    def _counts(self) -> Counter[str]:
        return Counter(STATES[view.state] for view in self._views)

    def _summary(self, counts: Mapping[str, int]) -> str:
        shown = [f"{counts[name]} {name}" for name in ORDER if counts[name]]
        best, left = self._best(), self._time_left(counts)
        parts = [", ".join(shown) or "nothing to do"]
        if best is not None and self._sweep.metric is not None:
            parts.append(f"best {self._sweep.metric.name}={best.value:.6g}")
        if left is not None:
            parts.append(f"about {_duration(left)} left")
        return "; ".join(parts)

    def _time_left(self, counts: Mapping[str, int]) -> float | None:
        seconds, seats = self._runner.run_seconds, self._runner.seats
        waiting = counts["waiting"] + counts["running"]
        if not seconds or not seats or not waiting:
            return None
        each = sum(seconds) / len(seconds) * self._sweep.local.repetitions
        return each * waiting / len(seats)

    def _best(self) -> "TrialView | None":
        return find_best(self._views, self._study.goal) if self._sweep.metric else None

    def _table(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table(
            "run", "where", "values", "done", "for", caption=self._summary(self._counts())
        )
        for seat in self._runner.seats:
            if seat.run is None:
                continue
            share = seat.trial.status.get("fraction") if seat.trial is not None else None
            done = f"{share:.0%}" if isinstance(share, float) else ""
            elapsed = _duration(time.monotonic() - seat.started)
            shown = describe(seat.run.values)
            table.add_row(seat.run.run_id, seat.slot.name, Text(shown), done, elapsed)
        return table


def print_status(kept: "KeptSweep", *, everything: bool) -> None:
    """Print how a sweep stands: its counts, workers, failures and best points."""
    study, sweep = kept.study, kept.sweep
    views, workers = study.views(), study.workers()
    counts = Counter(STATES[view.state] for view in views)
    print(f"{study.name} ({sweep.method}) in {kept.folder.root}")
    print(", ".join(f"{counts[name]} {name}" for name in ORDER if counts[name]) or "no points yet")
    for record in workers.values():
        print(f"at work: process {record['pid']} on {record['host']}")
    if counts["running"] + counts["waiting"] and not workers:
        print("nobody is at work: `jade sweep run` goes on")
    _print_points(views, study.goal, sweep, None if everything else MAX_POINTS)


def _print_points(
    views: "Sequence[TrialView]", goal: str, sweep: "Sweep", limit: int | None
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    sign = -1.0 if goal == "maximize" else 1.0
    order = {name: place for place, name in enumerate(("done", "running", "failed"))}
    ranked = sorted(
        views,
        key=lambda view: (
            order.get(STATES[view.state], len(order)),
            sign * (view.value or 0.0),
            view.number,
        ),
    )
    name = sweep.metric.name if sweep.metric is not None else "value"
    table = Table("state", name, "values", "run", "why")
    for view in ranked[:limit]:
        value = "" if view.value is None or sweep.metric is None else f"{view.value:.6g}"
        runs = view.result.get("runs") or [{}]
        why = str(view.result.get("reason") or "")
        run_id = str(runs[0].get("id", ""))
        table.add_row(STATES[view.state], value, Text(describe(view.values)), run_id, Text(why))
    if ranked:
        # A pipe has no width: nothing in it should be cut.
        Console(width=None if sys.stdout.isatty() else 160).print(table)
    if limit is not None and len(ranked) > limit:
        print(f"and {len(ranked) - limit} more; --all lists them")


def find_best(views: "Sequence[TrialView]", goal: str) -> "TrialView | None":
    """Return the best point that is done; None if there is none."""
    done = [view for view in views if view.value is not None]
    if not done:
        return None
    choose = max if goal == "maximize" else min
    return choose(done, key=lambda view: view.value if view.value is not None else 0.0)


def describe_best(view: "TrialView", sweep: "Sweep") -> str:
    """Say which point is the best, and where it is."""
    name = sweep.metric.name if sweep.metric is not None else "value"
    runs = view.result.get("runs") or [{}]
    mean = f" (mean of {len(runs)})" if len(runs) > 1 else ""
    return f"{name}={view.value:.6g}{mean}  {describe(view.values)}  {runs[0].get('id', '')}"


def describe(values: Mapping[str, Any]) -> str:
    """Render the values of a point in one line."""
    return " ".join(f"{key}={value}" for key, value in values.items())


def _duration(seconds: float) -> str:
    from jade.timespan import render_duration

    return f"{seconds:.1f} s" if seconds < 60 else render_duration(seconds)
