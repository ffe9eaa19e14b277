"""Bring runs to W&B that were made offline, or whose connection was lost."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jade.commands import COMMANDS
from jade.commands.base import make_parser, parse_all
from jade.errors import ConfigError, JadeError, NetworkError, UnfinishedError

if TYPE_CHECKING:
    from jade.run_dir import RunDir
    from jade.sync import Synced

EPILOG = """\
What a run has logged stands in its directory: metrics, pictures and other media, configuration,
summary, code and checkpoints. W&B gets what it does not have yet, as one run with the id of the
directory, also if it was resumed offline several times; nothing is sent twice, and what W&B has
stays. A run goes to the entity, project and sweep that it was started with; where none was set,
WANDB_ENTITY and WANDB_PROJECT say where to. W&B's own folders of offline runs are not used.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade sync``."""
    arguments = parse_all(_make_parser(program), tokens)
    if arguments is None:
        return 0
    if bool(arguments.runs) == arguments.all:
        raise ConfigError("Which runs? Name one or more of them, or give --all.")
    from jade.envvars import read_environment
    from jade.sync import own_environment

    runs = _find(arguments)
    if not runs:
        print("There are no runs to bring to W&B.")
        return 0
    with own_environment():
        return _sync(runs, read_environment(os.environ, None), arguments.upload)


def _make_parser(program: str) -> argparse.ArgumentParser:
    from jade.publisher import LEVELS

    parser = make_parser(program, "RUN [RUN ...] [arguments]", COMMANDS["sync"], EPILOG)
    parser.add_argument("runs", metavar="RUN", nargs="*", help="directory or id of a run")
    parser.add_argument(
        "--all",
        action="store_true",
        help="all runs that are not running, without those with --wandb disabled",
    )
    parser.add_argument(
        "--upload", choices=LEVELS, help="which checkpoints (default: as the run would have)"
    )
    parser.add_argument(
        "--experiments_root",
        "--experiments-root",
        metavar="DIR",
        help="where runs are found (default: $EXPERIMENTS_ROOT, else experiments)",
    )
    return parser


def _find(arguments: argparse.Namespace) -> "list[RunDir]":
    from jade.run_dir import RUNNING, RunDir
    from jade.runs import default_root, find_directory, find_runs

    root = Path(arguments.experiments_root) if arguments.experiments_root else default_root()
    if not arguments.all:
        return [find_directory(name, root) for name in arguments.runs]
    left = [RunDir(run.path) for run in reversed(find_runs(root)) if run.status != RUNNING]
    return [directory for directory in left if _is_wanted(directory)]


def _is_wanted(directory: "RunDir") -> bool:
    """Tell whether a run has begun, and was not kept from W&B on purpose."""
    from jade.saved_runs import load_config

    if not directory.config.is_file():
        return False
    try:
        return load_config(directory).get("wandb") != "disabled"
    except ConfigError:
        return False


def _sync(runs: "list[RunDir]", environ: dict[str, str], level: str | None) -> int:
    from jade.remote.client import Client
    from jade.sync import sync_run

    client = Client(environ)
    code = 0
    for run in runs:
        try:
            print(_render(sync_run(run, client, environ, level)), flush=True)
        except JadeError as error:
            # If W&B is away, none of the others would fare better.
            is_away = isinstance(error, NetworkError) and not isinstance(error, UnfinishedError)
            if is_away or len(runs) == 1:
                raise
            print(f"{run.run_id}: {error}", file=sys.stderr)
            code = max(code, error.exit_code)
    return code


def _render(synced: "Synced") -> str:
    if synced.was_current:
        return f"{synced.run_id}: W&B has all of it, {synced.url}"
    counts = (
        (synced.num_steps, "row"),
        (synced.num_media, "medium" if synced.num_media == 1 else "media"),
        (synced.num_files, "file"),
    )
    listed = ", ".join(
        f"{number} {noun}{'' if number == 1 or noun == 'media' else 's'}"
        for number, noun in counts
        if number
    )
    kind = "new run" if synced.is_new else "completed"
    return f"{synced.run_id}: {kind}, {listed or 'its state'} sent, {synced.url}"
