"""Compare many runs: the best of them on the terminal, all of them in files."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from jade.commands import COMMANDS
from jade.commands.base import make_parser, parse_all
from jade.errors import ConfigError

if TYPE_CHECKING:
    from jade.analysis.measure import Measure
    from jade.analysis.table import Table

EPILOG = """\
SOURCE is a folder with runs, a local sweep (its folder, name or file), or a sweep on W&B
(entity/project/id); several are put together. A run that is here and on W&B counts once.

A metric is the last value of each run; best/NAME is the best one on its way, test/NAME that of its
newest test (test_TAG/NAME: with this tag). Runs that differ only in their seed are repetitions of
one configuration.
Failed and unfinished runs are listed with their status, but not counted in means.
"""
SHOWN = 10
# Curves on a page: enough for a shape, little enough for thousands of runs.
CURVE_POINTS = 200


def main(tokens: list[str], program: str) -> int:
    """Run ``jade analyze``."""
    arguments = parse_all(_make_parser(program), tokens)
    if arguments is None:
        return 0
    from jade.analysis.sources import collect
    from jade.analysis.table import Table
    from jade.runs import default_root

    targets = [arguments.csv, arguments.html, arguments.latex]
    _check_targets([Path(target) for target in targets if target])
    sources = arguments.sources or [str(default_root())]
    num_points = CURVE_POINTS if arguments.html else 0
    table = Table(collect(sources, os.environ, num_points=num_points), arguments.mode)
    measures, reason = _choose_measures(table, arguments.metric or [])
    _print_report(table, measures, reason, arguments)
    _write_files(table, measures, arguments, sources)
    return 0


def _make_parser(program: str) -> argparse.ArgumentParser:
    parser = make_parser(program, "[SOURCE ...] [arguments]", COMMANDS["analyze"], EPILOG)
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        nargs="*",
        help="what to look at (default: $EXPERIMENTS_ROOT, else experiments)",
    )
    parser.add_argument(
        "--metric",
        metavar="M",
        action="append",
        help="what runs are compared by; given again: more columns (default: that of the sweep)",
    )
    parser.add_argument(
        "--mode", choices=("min", "max"), help="what is better (default: as the sweep says)"
    )
    parser.add_argument("--csv", metavar="FILE", help="write all runs and tests as a table")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with plots, to look at or send"
    )
    parser.add_argument("--latex", metavar="FILE", help="write configurations as a LaTeX table")
    parser.add_argument(
        "--summary",
        action="store_true",
        help="statistics over repetitions; with --csv also in NAME_summary.csv",
    )
    parser.add_argument(
        "--blank",
        action="store_true",
        help="in the CSV, leave what concerns the run blank from its second test on",
    )
    parser.add_argument(
        "--limit", metavar="N", type=_natural, help=f"show the best N (default: {SHOWN})"
    )
    return parser


def _natural(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
    return int(text)


def _check_targets(paths: list[Path]) -> None:
    """Refuse files that could not be written, before anything is read."""
    for path in paths:
        if path.is_dir():
            raise ConfigError(f"{path} is a folder; the name of a file is needed.")
        if not path.parent.is_dir():
            raise ConfigError(f"{path} cannot be written: there is no folder {path.parent}.")
        if not os.access(path.parent, os.W_OK):
            raise ConfigError(f"{path} cannot be written: {path.parent} is not writable.")


def _choose_measures(table: "Table", wanted: list[str]) -> "tuple[list[Measure], str]":
    if wanted:
        return [table.measures.find(name) for name in wanted], ""
    chosen, reason = table.measures.choose()
    return ([chosen] if chosen else []), reason


def _print_report(
    table: "Table", measures: "list[Measure]", reason: str, arguments: argparse.Namespace
) -> None:
    from jade.commands.analysis_view import AnalysisView
    from jade.commands.run_view import make_console, print_lines

    console = make_console()
    view = AnalysisView(table, measures, reason, arguments.limit or SHOWN)
    lines = [*view.render_runs()]
    if arguments.summary:
        lines += view.render_summary()
    print_lines(console, [*lines, *view.render_notes()], cut=True)


def _write_files(
    table: "Table", measures: "list[Measure]", arguments: argparse.Namespace, sources: list[str]
) -> None:
    from jade.analysis.configurations import summarize, summary_columns
    from jade.analysis.table import write_report, write_table

    written = []
    if arguments.csv:
        path = Path(arguments.csv)
        table.write_csv(path, blank=arguments.blank)
        written.append(path)
        if arguments.summary:
            path = path.with_name(f"{path.stem}_summary{path.suffix}")
            every = measures + [m for m in table.measures.all() if m not in measures]
            write_table(path, summary_columns(table), summarize(table, every))
            written.append(path)
    if arguments.latex:
        from jade.analysis.latex import render_latex

        if not measures:
            raise ConfigError("--latex: no run has logged anything yet.")
        path = Path(arguments.latex)
        write_report(path, render_latex(table, measures, arguments.limit))
        written.append(path)
    if arguments.html:
        from jade.analysis.page import render_page

        path = Path(arguments.html)
        write_report(path, render_page(table, measures, sources))
        written.append(path)
    for path in written:
        print(f"written: {path}")
