"""List the runs below a folder."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.commands import COMMANDS
from jade.commands.base import make_parser, parse_all
from jade.errors import ConfigError, closest, suggest

if TYPE_CHECKING:
    from rich.text import Text

    from jade.runs import RunSummary

EPILOG = """\
Statuses: running, finished, failed, crashed (killed, or its machine is gone), preempted,
interrupted, stopped (by the wish of W&B), unknown. `jade show RUN` tells all about one of them.
"""
SORTED_BY = ("age", "best", "progress", "name")
# On a terminal that is not that wide, the bar makes room for what cannot be said otherwise.
BAR_WIDTH, WIDE = 8, 96
# A reason that gets less room than this says nothing.
LEAST_REASON = 24
GAP = "  "


def main(tokens: list[str], program: str) -> int:
    """Run ``jade runs``."""
    arguments = parse_all(_make_parser(program), tokens)
    if arguments is None:
        return 0
    from jade.runs import default_root, find_runs

    statuses = _read_statuses(arguments.status)
    root = default_root() if arguments.root is None else Path(arguments.root)
    if arguments.root is not None and not root.is_dir():
        raise ConfigError(_missing(root))
    found = find_runs(root)
    runs = [run for run in found if run.status in statuses] if statuses else found
    runs = sorted(runs, key=_sort_key(arguments.sort, runs))[: arguments.limit]
    if arguments.json:
        _print_json(runs)
    elif runs:
        _print_table(runs)
        print(_count(found, runs))
    else:
        print(_nothing(root, found))
    return 0


def _make_parser(program: str) -> argparse.ArgumentParser:
    parser = make_parser(program, "[ROOT] [arguments]", COMMANDS["runs"], EPILOG)
    parser.add_argument(
        "root",
        metavar="ROOT",
        nargs="?",
        help="the folder to look below (default: $EXPERIMENTS_ROOT, else experiments)",
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
    from jade.commands.run_view import is_ascii_only, make_console, print_lines

    console = make_console()
    bar_width = BAR_WIDTH if console.width >= WIDE else 0
    columns = _make_columns(runs, bar_width, ascii_only=is_ascii_only(console))
    reasons = columns.pop("reason", None)
    if reasons and console.width - _width(columns) >= LEAST_REASON:
        columns["reason"] = reasons
    print_lines(console, _align(columns), cut=True)


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
        "best or last": [_measure(run) for run in runs],
        "started": [render_text(render_age(run.age_s)) for run in runs],
        "took": [render_text(render_duration(run.duration_s)) for run in runs],
        "host": [render_text(None if run.host == here else run.host) for run in runs],
        "reason": [render_text(run.reason if run.status == FAILED else None) for run in runs],
    }
    return {name: cells for name, cells in columns.items() if any(cells)}


def _width(columns: "Mapping[str, Sequence[Text]]") -> int:
    return sum(_column_width(name, cells) + len(GAP) for name, cells in columns.items())


def _column_width(name: str, cells: "Sequence[Text]") -> int:
    return max(len(name), *(cell.cell_len for cell in cells))


def _align(columns: "Mapping[str, Sequence[Text]]") -> "Iterator[Text]":
    """Yield the header and the rows; a table of rich takes seconds for a thousand of them."""
    from rich.text import Text

    widths = [_column_width(name, cells) for name, cells in columns.items()]
    header = [Text(name, style="bold") for name in columns]
    for row in (header, *zip(*columns.values(), strict=True)):
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            line.append_text(cell).append(" " * (width - cell.cell_len) + GAP)
        line.rstrip()
        yield line


def _measure(run: "RunSummary") -> "Text":
    """Render the best value, or else the last loss."""
    from jade.commands.run_view import NEVER, render_number, render_text

    if run.best is not None:
        return render_text(f"{run.best.metric} {render_number(run.best.value)}")
    losses = [name for name in run.latest if "loss" in name.lower()]
    name = next(iter([*losses, *run.latest]), None)
    text = NEVER if name is None else f"{name} {render_number(run.latest[name])}"
    return render_text(text)


def _count(found: Sequence["RunSummary"], shown: Sequence["RunSummary"]) -> str:
    """Say how many runs there are, of each status."""
    counts = Counter(run.status for run in found)
    listed = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    runs = "1 run" if len(found) == 1 else f"{len(found)} runs"
    part = f", {len(shown)} of them shown" if len(shown) < len(found) else ""
    return f"{runs}{part}: {listed}"


def _nothing(root: Path, found: Sequence["RunSummary"]) -> str:
    if found:
        return f"None of these. {_count(found, found)}"
    return f"There are no runs below {root} yet. `jade train` starts one."


def _missing(root: Path) -> str:
    if root.exists():
        return f"{root} is a file; a folder with runs is needed."
    siblings = [path.name for path in root.parent.iterdir()] if root.parent.is_dir() else []
    meant = closest(root.name, siblings)
    hint = f" Did you mean {root.parent / meant}?" if meant else ""
    return f"There is no folder {root}.{hint}"
