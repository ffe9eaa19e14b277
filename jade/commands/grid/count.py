"""Print how many runs a grid has."""

import sys
from pathlib import Path

from jade.commands.base import make_parser, parse_all
from jade.commands.grid import COMMANDS

EPILOG = """\
The number stands alone on stdout: the points, each as often as it is repeated. Points that are
equal count once; that there are any is said on stderr.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade grid count``."""
    parser = make_parser(program, "FILE", COMMANDS["count"], EPILOG)
    parser.add_argument("file", metavar="FILE", help="a sweep file, or one with grid_tasks")
    parsed = parse_all(parser, tokens)
    if parsed is None:
        return 0
    from jade.sweep import NumberedRuns, require_sweep

    sweep = require_sweep(Path(parsed.file))
    runs = NumberedRuns(sweep)
    for text in sweep.notes:
        print(f"note: {text}", file=sys.stderr)
    number = runs.num_duplicates
    if number:
        what = "1 point is equal to another one" if number == 1 else f"{number} points equal others"
        print(f"note: {what}, and not counted.", file=sys.stderr)
    print(runs.count)
    return 0
