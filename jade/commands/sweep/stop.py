"""Ask the workers of a local sweep to stop, wherever they are."""

from jade.commands.base import make_parser, parse_all
from jade.commands.sweep import COMMANDS

EPILOG = """\
Each worker asks its runs to stop, which write a checkpoint, and ends with exit code 75.
`jade sweep run FILE` goes on where everything was left.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade sweep stop``."""
    parser = make_parser(program, "[SWEEP] [arguments]", COMMANDS["stop"], EPILOG)
    parser.add_argument("sweep", metavar="SWEEP", nargs="?", help="file, folder or name")
    parser.add_argument("--storage", metavar="URL", help="if it is not in the folder of the sweep")
    parser.add_argument("--name", metavar="TEXT", help="if it was run by another name")
    parsed = parse_all(parser, tokens)
    if parsed is None:
        return 0
    from jade.launch.kept_sweep import open_kept
    from jade.launch.sweep_study import STOPS

    kept = open_kept(parsed.sweep, parsed.storage, parsed.name)
    workers = kept.study.workers()
    if not workers:
        print(f"nobody works at the sweep {kept.study.name}")
        return 0
    kept.study.set_attribute(STOPS, int(kept.study.attributes().get(STOPS) or 0) + 1)
    for record in workers.values():
        print(f"asked to stop: process {record['pid']} on {record['host']}")
    return 0
