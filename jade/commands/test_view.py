"""Show tests: the numbers of one, and a table of many."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jade.commands.run_view import make_console, render_number, render_status, render_text

if TYPE_CHECKING:
    from jade.launch.many_tests import TestedRun
    from jade.runs import RunSummary
    from jade.tester.single import FinishedTest

MOST_METRICS = 6


@contextmanager
def show_log() -> Iterator[None]:
    """Show on the console what is written to the log."""
    from jade.progress import ConsoleHandler

    handler = ConsoleHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("jade")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def print_test(test: "FinishedTest") -> None:
    """Print what a test has measured, and where that is kept."""
    from rich.table import Table

    is_repeated = len(test.seeds) > 1
    columns = ("metric", "mean", "std", "min", "max") if is_repeated else ("metric", "value")
    title = f"{test.checkpoint}, iteration {test.iteration}"
    table = Table(*columns, title=title)
    for name, values in test.statistics.items():
        keys = columns[1:] if is_repeated else ("mean",)
        table.add_row(render_text(name), *(_cell(values[key]) for key in keys))
    if test.statistics:
        console = make_console(None if sys.stdout.isatty() else 120)
        console.print(table)
    print(f"{test.status}: {test.reason}")
    print(f"test directory: {test.directory}")


def print_tests(tested: "Sequence[TestedRun]", without: "Sequence[RunSummary]") -> None:
    """Print one row for each test of many runs, then what has failed or could not be tested."""
    from rich.table import Table

    names = list(
        dict.fromkeys(n for item in tested for test in item.tests for n in test["metrics"])
    )
    shown = names[:MOST_METRICS]
    table = Table(
        "run", "checkpoint", "iteration", "status", *(render_text(name).plain for name in shown)
    )
    for item in tested:
        for test in item.tests:
            table.add_row(*_row(item.run.id, test, shown))
        if not item.tests:
            table.add_row(render_text(item.run.id), "", "", render_status("failed"))
    make_console().print(table)
    if names[MOST_METRICS:]:
        print(f"and {len(names) - MOST_METRICS} more metrics: {', '.join(names[MOST_METRICS:])}")
    for run in without:
        print(f"not tested: {run.id} has no checkpoint ({run.status})")
    failed = [item for item in tested if item.code != 0]
    for item in failed:
        print(f"\nfailed: {item.run.path} (exit code {item.code})")
        for line in item.tail:
            print(f"  {line}")
    num_tested = len(tested) - len(failed)
    print(
        f"{num_tested} of {len(tested)} runs are tested"
        + (f", {len(failed)} failed" if failed else "")
    )


def _row(run_id: str, test: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    return [
        render_text(run_id),
        test["checkpoint"],
        str(test["iteration"]),
        render_status(test["status"]),
        *(_cell(test["metrics"].get(name)) for name in names),
    ]


def _cell(value: Any) -> str:
    """Render a number; those that JSON does not have come as text."""
    if value is None:
        return ""
    return render_number(value) if isinstance(value, (int, float)) else str(value)
