"""Put the model of a run into one file."""

from pathlib import Path

from jade.commands import COMMANDS
from jade.commands.base import make_parser

EPILOG = """\
The file holds the weights, the code that the run has kept, its configuration, metrics and
versions, and a digest of each. In Python:
  model = jade.load_model("model.jade")                              executes nothing
  trainer = jade.load_model("model.jade", trust_code=True).trainer() executes the code in it
  jade train ... --load model.jade                                   starts from its weights
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade export``."""
    usage = "RUN FILE.jade [--checkpoint best|last|N]"
    parser = make_parser(program, usage, COMMANDS["export"], EPILOG)
    parser.add_argument("run", metavar="RUN", help="directory or id of a run")
    parser.add_argument("file", metavar="FILE.jade", help="where to write; it is replaced")
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        help="best, last, an iteration or a file (default: best, else last)",
    )
    parser.add_argument(
        "--experiments_root",
        "--experiments-root",
        metavar="DIR",
        help="where runs are found by id (default: $EXPERIMENTS_ROOT, else experiments)",
    )
    try:
        namespace = parser.parse_args(tokens)
    except SystemExit:
        return 0
    from jade.export import export_run
    from jade.runs import find_directory

    root = namespace.experiments_root
    run = find_directory(namespace.run, None if root is None else Path(root))
    exported = export_run(run, Path(namespace.file), namespace.checkpoint)
    print(
        f"{exported.path}: {exported.checkpoint} checkpoint of run {exported.run_id}, iteration "
        f"{exported.iteration}, {exported.num_sources} source files, "
        f"{exported.path.stat().st_size / 1e6:.2g} MB"
    )
    return 0
