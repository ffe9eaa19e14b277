"""Put the model of a run into one file."""

from jade.commands import COMMANDS
from jade.commands.base import make_parser

EPILOG = """\
The file holds the weights, the code that the run has kept, its configuration, metrics and
versions, and a digest of each. In Python:
  model = jade.load_model("model.jade")                              executes nothing
  trainer = jade.load_model("model.jade", trust_code=True).trainer() executes the code in it
  jade train ... --load model.jade                                   starts from its weights
A run on W&B is entity/project/run_id, sweep:entity/project/sweep_id:best, or its address.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade export``."""
    usage = "RUN FILE.jade [--checkpoint best|last|N]"
    parser = make_parser(program, usage, COMMANDS["export"], EPILOG)
    parser.add_argument("run", metavar="RUN", help="directory or id of a run, or a run on W&B")
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
    from jade.loaded_run import load_run

    run = load_run(namespace.run, root=namespace.experiments_root)
    exported = run.export(namespace.file, namespace.checkpoint)
    print(
        f"{exported.path}: {exported.checkpoint} checkpoint of run {exported.run_id}, iteration "
        f"{exported.iteration}, {exported.num_sources} source files, "
        f"{exported.path.stat().st_size / 1e6:.2g} MB"
    )
    return 0
