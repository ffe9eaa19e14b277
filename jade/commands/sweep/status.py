"""Show how a local sweep stands."""

from jade.commands.base import make_parser, parse_all
from jade.commands.sweep import COMMANDS
from jade.commands.sweep_table import print_status

EPILOG = """\
SWEEP is a sweep file, the folder of a sweep, or its name; it may be left out if there is one only.
Nothing is changed, and workers are not disturbed.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade sweep status``."""
    parser = make_parser(program, "[SWEEP] [arguments]", COMMANDS["status"], EPILOG)
    parser.add_argument("sweep", metavar="SWEEP", nargs="?", help="file, folder or name")
    parser.add_argument("--storage", metavar="URL", help="if it is not in the folder of the sweep")
    parser.add_argument("--name", metavar="TEXT", help="if it was run by another name")
    parser.add_argument("--all", action="store_true", help="list every point, not only the best")
    parsed = parse_all(parser, tokens)
    if parsed is None:
        return 0
    from jade.launch.kept_sweep import open_kept

    print_status(open_kept(parsed.sweep, parsed.storage, parsed.name), everything=parsed.all)
    return 0
