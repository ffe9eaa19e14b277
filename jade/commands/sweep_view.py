"""Check a sweep for a command, and show what was found out about it."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jade.command_line import collect_overrides
from jade.commands.base import importing_for_good, make_run_parser
from jade.errors import raise_all

if TYPE_CHECKING:
    from jade.sweep import Sweep
    from jade.sweep_check import SweepReport


def check(
    sweep: "Sweep", others: Sequence[str] = (), num_samples: int | None = None
) -> "SweepReport":
    """Check a sweep with the arguments of its command, and others."""
    parser = make_run_parser("jade check", "the command of the sweep")
    given = [*sweep.command.filled_in(os.environ), *others]
    overrides = collect_overrides(*parser.parse_known_args(given))
    with importing_for_good():
        from jade.sweep_check import check_sweep

    on_point = _count_aloud if sys.stderr.isatty() else lambda _: None
    try:
        return check_sweep(sweep, overrides, num_samples, on_point)
    finally:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)


def _count_aloud(number: int) -> None:
    """Show on a terminal how far a check is; a thousand points take half a minute."""
    if number % 10 == 0:
        print(f"\r{number:,} points checked", end="", file=sys.stderr, flush=True)


def show_report(sweep: "Sweep", report: "SweepReport") -> None:
    """Print a report; what is wrong is raised."""
    for text in report.notes:
        print(f"note: {text}")
    for text, count in report.untried.items():
        every = count == report.num_points
        print(f"note: not tried{'' if every else f' at {count} points'}: {text}")
    if sweep.only_local:
        named = ", ".join(sweep.only_local)
        print(f"note: only `jade sweep run` heeds the section jade ({named}); W&B ignores it.")
    print(f"{sweep.path}: {describe_size(sweep)}")
    keys = [p.key for p in sweep.parameters] + [k for case in sweep.local.cases for k in case]
    print(f"swept: {', '.join(dict.fromkeys(keys))}")
    checked = "all" if report.is_whole else "some"
    shown = [f"{report.num_points:,} points checked ({checked})"]
    if report.num_impossible:
        shown.append(f"{report.num_impossible:,} cannot run")
    if report.smallest is not None and report.largest is not None:
        shown.append(f"networks of {_range(report.smallest, report.largest)} parameters")
    print("; ".join(shown))
    raise_all(report.problems)
    print("no problems found")


def describe_size(sweep: "Sweep") -> str:
    """Say how many runs a sweep has."""
    cap = "" if sweep.run_cap is None else f", run_cap {sweep.run_cap:,}"
    if sweep.local.repetitions > 1:
        cap += f", each {sweep.local.repetitions} times"
    if sweep.grid is not None:
        return f"grid of {sweep.grid.num_points:,} points{cap}: {_count_runs(sweep)}"
    if sweep.num_runs is None:
        return f"{sweep.method} without an end: stop it yourself, or set run_cap"
    return f"{sweep.method}{cap}: {_count_runs(sweep)}"


def _count_runs(sweep: "Sweep") -> str:
    number = (sweep.num_runs or 0) * sweep.local.repetitions
    return "1 run" if number == 1 else f"{number:,} runs"


def _range(smallest: int, largest: int) -> str:
    return f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
