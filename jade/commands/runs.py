"""List the runs below a folder, or those of a sweep or a project on W&B."""

import argparse
import functools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.commands import COMMANDS
from jade.commands.base import make_parser, parse_all
from jade.errors import ConfigError, NetworkError, closest, suggest

if TYPE_CHECKING:
    from rich.text import Text

    from jade.runs import RunSummary

EPILOG = """\
Statuses: running, finished, failed, crashed (killed, or its machine is gone), preempted,
interrupted, stopped (by the wish of W&B), unknown. `jade show RUN` tells all about one of them.

On W&B:
  jade runs entity/project                      the runs of a project
  jade runs --sweep entity/project/sweep_id     those of a sweep, with the values that it has swept
"""
SORTED_BY = ("age", "best", "progress", "name")
# On a terminal that is not that wide, the bar makes room for what cannot be said otherwise.
BAR_WIDTH, WIDE = 8, 96
# A reason that gets less room than this says nothing.
LEAST_REASON = 24


def main(tokens: list[str], program: str) -> int:
    """Run ``jade runs``."""
    arguments = parse_all(_make_parser(program), tokens)
    if arguments is None:
        return 0
    statuses = _read_statuses(arguments.status)
    found, place = _find(arguments)
    runs = [run for run in found if run.status in statuses] if statuses else found
    runs = sorted(runs, key=_sort_key(arguments.sort, runs))[: arguments.limit]
    if arguments.json:
        _print_json(runs)
    elif runs:
        _print_table(runs)
        print(_count(found, runs))
    else:
        print(_nothing(place, found))
    return 0


def _find(arguments: argparse.Namespace) -> "tuple[Sequence[RunSummary], str]":
    """Find the runs that are asked for, and say where they are."""
    from jade.runs import default_root, find_runs

    if arguments.sweep is not None:
        if arguments.root is not None:
            raise ConfigError("ROOT and --sweep exclude each other: a sweep says where it is.")
        return _find_on_wandb(arguments.sweep, is_sweep=True)
    root = default_root() if arguments.root is None else Path(arguments.root)
    if arguments.root is None or root.is_dir():
        return find_runs(root), f"below {root}"
    try:
        return _find_on_wandb(arguments.root, is_sweep=False)
    except (ConfigError, NetworkError) as error:
        raise type(error)(f"{_missing(root)} {error}".rstrip()) from error


def _find_on_wandb(text: str, *, is_sweep: bool) -> "tuple[Sequence[RunSummary], str]":
    from jade.envvars import read_environment
    from jade.remote.client import Client
    from jade.remote.listing import list_project, list_sweep
    from jade.remote.reference import parse_project, parse_sweep

    environ = read_environment(os.environ, None)
    if is_sweep:
        sweep = parse_sweep(text, environ)
        return list_sweep(Client(environ), sweep), f"in the sweep {sweep}"
    project = parse_project(text, environ)
    if project is None:
        raise ConfigError("")
    return list_project(Client(environ), project), f"in the project {project}"


def _make_parser(program: str) -> argparse.ArgumentParser:
    parser = make_parser(program, "[ROOT] [arguments]", COMMANDS["runs"], EPILOG)
    parser.add_argument(
        "root",
        metavar="ROOT",
        nargs="?",
        help="the folder to look below (default: $EXPERIMENTS_ROOT, else experiments), or "
        "entity/project on W&B",
    )
    parser.add_argument(
        "--sweep", metavar="SWEEP", help="the runs of a sweep on W&B: entity/project/sweep_id"
    )
    parser.add_argument(
        "--status", metavar="NAMES", help="only runs with these statuses: failed,crashed"
    )
    parser.add_argument(
        "--sort",
        choices=SORTED_BY,
        default="age",
        help="what comes first: the newest, the best, the most advanced, or by name (default: age)",
    )
    parser.add_argument("--limit", metavar="N", type=_natural, help="at most N runs")
    parser.add_argument("--json", action="store_true", help="print JSON, with all that is known")
    return parser


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs")
    return int(text)


def _read_statuses(text: str | None) -> list[str]:
    from jade.runs import STATUSES

    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in names:
        if name not in STATUSES:
            raise ConfigError(f"--status: there is no status {name!r}.{suggest(name, STATUSES)}")
    return names


def _sort_key(name: str, runs: Sequence["RunSummary"]) -> "Callable[[RunSummary], Any]":
    """Return what runs are sorted by; those that have no such value come last, newest first."""
    counts = Counter(run.best.metric for run in runs if run.best)

    def by_best(run: "RunSummary") -> tuple[Any, ...]:
        if run.best is None:
            return (True, -run.started)
        # Values of two metrics cannot be compared: the metric that most runs have comes first.
        metric, sign = run.best.metric, 1 if run.best.mode == "min" else -1
        return (False, -counts[metric], metric, sign * run.best.value, -run.started)

    keys: dict[str, Callable[[RunSummary], Any]] = {
        "age": lambda run: (-run.started, run.id),
        "best": by_best,
        "progress": lambda run: (run.fraction is None, -(run.fraction or 0.0), -run.started),
        "name": lambda run: (run.name or run.id, run.id),
    }
    return keys[name]


def _print_json(runs: Sequence["RunSummary"]) -> None:
    import json

    print(json.dumps([run.to_json() for run in runs], indent=1, allow_nan=False))


def _print_table(runs: Sequence["RunSummary"]) -> None:
    from jade.commands.run_view import (
        align_columns,
        columns_width,
        is_ascii_only,
        make_console,
        print_lines,
    )

    console = make_console()
    bar_width = BAR_WIDTH if console.width >= WIDE else 0
    columns = _make_columns(runs, bar_width, ascii_only=is_ascii_only(console))
    reasons = columns.pop("reason", None)
    if reasons and console.width - columns_width(columns) >= LEAST_REASON:
        columns["reason"] = reasons
    print_lines(console, align_columns(columns), cut=True)


def _make_columns(
    runs: Sequence["RunSummary"], bar_width: int, *, ascii_only: bool
) -> "dict[str, list[Text]]":
    """Render the cells of each column; a column that says nothing of any run is left out."""
    import socket

    from jade.commands.run_view import render_progress, render_status, render_text
    from jade.run_dir import FAILED
    from jade.timespan import render_age, render_duration

    here = socket.gethostname()
    columns = {
        "run": [render_text(run.id) for run in runs],
        "name": [render_text(run.name) for run in runs],
        "status": [render_status(run.status) for run in runs],
        "progress": [render_progress(run, bar_width, ascii_only=ascii_only) for run in runs],
        **_swept_columns(runs),
        "best or last": [_measure(run) for run in runs],
        "started": [render_text(render_age(run.age_s)) for run in runs],
        "took": [render_text(render_duration(run.duration_s)) for run in runs],
        "host": [render_text(None if run.host == here else run.host) for run in runs],
        "reason": [render_text(run.reason if run.status == FAILED else None) for run in runs],
    }
    return {name: cells for name, cells in columns.items() if any(cells)}


def _swept_columns(runs: Sequence["RunSummary"]) -> "dict[str, list[Text]]":
    """Render what a sweep has swept, under names as short as they can be told apart by."""
    from jade.commands.run_view import render_text

    swept: list[Mapping[str, Any]] = [getattr(run, "swept", {}) for run in runs]
    keys = list(dict.fromkeys(key for values in swept for key in values))
    last_parts = Counter(key.rpartition(".")[2] for key in keys)
    return {
        key.rpartition(".")[2] if last_parts[key.rpartition(".")[2]] == 1 else key: [
            render_text(_value(values[key]) if key in values else None) for values in swept
        ]
        for key in keys
    }


def _value(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _measure(run: "RunSummary") -> "Text":
    """Render the best value, or else the last one of the metric of its sweep, or of a loss."""
    from jade.commands.run_view import NEVER, render_number, render_text

    if run.best is not None:
        return render_text(f"{run.best.metric} {render_number(run.best.value)}")
    losses = [name for name in run.latest if "loss" in name.lower()]
    swept = [_metric_of_sweep(run.path.parent.parent)] if len(run.path.parts) > 2 else []
    telling = [name for name in (*swept, *losses, *run.latest) if name in run.latest]
    name = telling[0] if telling else None
    text = NEVER if name is None else f"{name} {render_number(run.latest[name])}"
    return render_text(text)


@functools.cache
def _metric_of_sweep(folder: Path) -> str | None:
    from jade.analysis.sweep_facts import load_sweep_facts

    facts = load_sweep_facts(folder)
    return None if facts is None else facts.metric


def _count(found: Sequence["RunSummary"], shown: Sequence["RunSummary"]) -> str:
    """Say how many runs there are, of each status."""
    counts = Counter(run.status for run in found)
    listed = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    runs = "1 run" if len(found) == 1 else f"{len(found)} runs"
    part = f", {len(shown)} of them shown" if len(shown) < len(found) else ""
    return f"{runs}{part}: {listed}"


def _nothing(place: str, found: Sequence["RunSummary"]) -> str:
    if found:
        return f"None of these. {_count(found, found)}"
    return f"There are no runs {place} yet. `jade train` starts one."


def _missing(root: Path) -> str:
    if root.exists():
        return f"{root} is a file; a folder with runs is needed."
    siblings = [path.name for path in root.parent.iterdir()] if root.parent.is_dir() else []
    meant = closest(root.name, siblings)
    hint = f" Did you mean {root.parent / meant}?" if meant else ""
    return f"There is no folder {root}.{hint}"
