"""List the local sweeps."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from jade.commands.base import make_parser, parse_all
from jade.commands.sweep import COMMANDS
from jade.commands.sweep_table import ORDER, STATES, find_best
from jade.errors import JadeError


def main(tokens: list[str], program: str) -> int:
    """Run ``jade sweep list``."""
    parser = make_parser(program, "[DIR]", COMMANDS["list"])
    parser.add_argument("root", metavar="DIR", nargs="?", help="default: the experiments root")
    parsed = parse_all(parser, tokens)
    if parsed is None:
        return 0
    from jade.launch.sweep_folder import find_sweeps
    from jade.runs import default_root

    root = Path(parsed.root) if parsed.root else default_root()
    found = list(find_sweeps(root))
    if not found:
        print(f"no sweep below {root}")
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("sweep", "method", *ORDER, "best", "workers")
    for folder in found:
        table.add_row(folder.name, *_describe(folder))
    # A pipe has no width: nothing in it should be cut.
    console = Console(width=None if sys.stdout.isatty() else 160, markup=False)
    console.print(table)
    return 0


def _describe(folder: Any) -> list[str]:
    from jade.launch.kept_sweep import open_kept

    try:
        kept = open_kept(str(folder.root))
        views = kept.study.views()
        num_workers = len(kept.study.workers())
    except JadeError as error:
        return [f"cannot be read: {error}"]
    counts = Counter(STATES[view.state] for view in views)
    best = find_best(views, kept.study.goal) if kept.sweep.metric is not None else None
    shown = "" if best is None else f"{kept.sweep.metric.name}={best.value:.6g}"  # type: ignore[union-attr]
    return [
        kept.sweep.method,
        *(str(counts[name] or "") for name in ORDER),
        shown,
        str(num_workers),
    ]
