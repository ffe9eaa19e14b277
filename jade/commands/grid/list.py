"""List the runs of a grid with their numbers."""

from itertools import islice
from pathlib import Path

from jade.commands.base import make_parser, parse_all
from jade.commands.grid import COMMANDS
from jade.errors import ConfigError


def main(tokens: list[str], program: str) -> int:
    """Run ``jade grid list``."""
    parser = make_parser(program, "FILE [--limit N]", COMMANDS["list"])
    parser.add_argument("file", metavar="FILE", help="a sweep file, or one with grid_tasks")
    parser.add_argument("--limit", metavar="N", type=int, help="list the first N only")
    parsed = parse_all(parser, tokens)
    if parsed is None:
        return 0
    if parsed.limit is not None and parsed.limit < 1:
        raise ConfigError(f"--limit must be at least 1, not {parsed.limit}.")
    from jade.sweep import NumberedRuns, require_sweep

    runs = NumberedRuns(require_sweep(Path(parsed.file)))
    numbers = iter(range(runs.count))
    for index in islice(numbers, parsed.limit):
        run = runs[index]
        repetition = f"  repetition {run.repetition}" if runs.repetitions > 1 else ""
        print(f"{index}  {run}{repetition}")
    left = runs.count - (parsed.limit or runs.count)
    if left > 0:
        print(f"and {left} more")
    return 0
