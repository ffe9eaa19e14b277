"""Show a training on the console, and print what came out."""

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from jade.signals import EXIT_INTERRUPTED, EXIT_PREEMPTED

if TYPE_CHECKING:
    from jade.finished_run import FinishedRun


def show(train: "Callable[[], FinishedRun]") -> int:
    """Train with the log on the console, print the result, and return the exit code."""
    import logging

    from jade.progress import ConsoleHandler

    handler = ConsoleHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    # How it ended is printed with the result.
    handler.addFilter(lambda record: not getattr(record, "is_result", False))
    log = logging.getLogger("jade")
    log.addHandler(handler)
    try:
        finished = train()
    finally:
        log.removeHandler(handler)
    _print_result(finished)
    return finished.exit_code


def _print_result(finished: "FinishedRun") -> None:
    from rich.console import Console
    from rich.table import Table

    title = "Final evaluations" if finished.exit_code == 0 else "Latest evaluations"
    table = Table("metric", "value", title=title)
    for name, value in finished.evaluations.items():
        table.add_row(name, f"{value:.6g}")
    if finished.best and finished.best["value"] is not None:
        best = finished.best
        table.add_section()
        table.add_row(f"best {best['metric']}", f"{best['value']:.6g} (it {best['iteration']})")
    # A pipe has no width: nothing in it should be cut.
    console = Console(width=None if sys.stdout.isatty() else 120)
    if finished.evaluations:
        console.print(table)
    for picture in finished.pictures() if finished.directory.exists() else ():
        print(f"picture: {picture}")
    print(f"{finished.status}: {finished.reason}")
    if finished.directory.exists():
        print(f"run directory: {finished.directory}")
        if finished.exit_code in (EXIT_PREEMPTED, EXIT_INTERRUPTED):
            print(f"go on: jade resume {shlex.quote(str(finished.directory))}")
    else:
        print("dry run: everything works, nothing was kept")
