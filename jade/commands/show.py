"""Show all about one run on one screen."""

import argparse
from typing import TYPE_CHECKING

from jade.commands import COMMANDS
from jade.commands.base import make_parser, parse_all
from jade.errors import ConfigError, suggest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jade.chart import Point
    from jade.remote.remote_run import RemoteRun

EPILOG = """\
RUN is a run directory, an id, the beginning of an id, or "last" for the newest one. Ids are looked
for below $EXPERIMENTS_ROOT, else below experiments. A run on W&B is entity/project/run_id,
sweep:entity/project/sweep_id:best, or its address.
"""
LEAST_WIDTH = 40


def main(tokens: list[str], program: str) -> int:
    """Run ``jade show``."""
    arguments = parse_all(_make_parser(program), tokens)
    if arguments is None:
        return 0
    from jade.commands.run_page import RunPage, load_series
    from jade.remote.place import find_summary

    run, remote = find_summary(arguments.run)
    series = load_series(run.path)
    RunPage(run, series, _chosen(series, arguments.metric), arguments.width).print()
    if remote is not None:
        _print_origin(remote)
    return 0


def _print_origin(remote: "RemoteRun") -> None:
    """Say where on W&B the run is, and which of its checkpoints are there."""
    from jade.commands.run_page import labelled, render_size
    from jade.commands.run_view import make_console, print_lines

    lines = [labelled("W&B", f"{remote.url}  {remote.state}")]
    for name in remote.checkpoint_names():
        file = remote.describe_checkpoint(name)
        lines.append(labelled("on W&B", f"{name:<24}{render_size(file.size):>8}  {file.updated}"))
    if remote.checkpoint_names():
        lines.append(labelled("go on", f"jade resume {remote.reference}"))
    print_lines(make_console(), lines, cut=False)


def _make_parser(program: str) -> argparse.ArgumentParser:
    parser = make_parser(program, "RUN [arguments]", COMMANDS["show"], EPILOG)
    parser.add_argument("run", metavar="RUN", help="the run to show")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        default=[],
        help="draw this metric only, larger; repeatable",
    )
    parser.add_argument(
        "--width", metavar="N", type=_width, help="columns to use (default: all, 100 in a pipe)"
    )
    return parser


def _width(text: str) -> int:
    if not text.isdecimal() or int(text) < LEAST_WIDTH:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of {LEAST_WIDTH} or more")
    return int(text)


def _chosen(series: "Mapping[str, Sequence[Point]]", wanted: "Sequence[str]") -> list[str]:
    """Return the metrics that were asked for, each of which must have been logged."""
    for name in wanted:
        if name not in series:
            known = suggest(name, series) or " It has not logged anything yet."
            raise ConfigError(f"--metric: the run has not logged {name!r}.{known}")
    return list(dict.fromkeys(wanted))
