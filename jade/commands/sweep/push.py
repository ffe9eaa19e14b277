"""Check a sweep file, register it with W&B, and print the commands of agents."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from jade.commands.base import make_parser, parse_all
from jade.commands.sweep import COMMANDS
from jade.commands.sweep_view import check, show_report
from jade.errors import ConfigError

if TYPE_CHECKING:
    from jade.sweep import Sweep
    from jade.sweep_registration import Registered

EPILOG = """\
Nothing is registered unless all files are in order and W&B answers. Agents run on any machine that
has the project, its data and a login; start as many as you like.

Exit codes: 0 registered, 1 W&B cannot be reached or has failed, 2 something in the files, the
            login or the names is to be mended.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade sweep push``."""
    parser = make_parser(program, "FILE|DIR [arguments]", COMMANDS["push"], EPILOG)
    parser.add_argument("path", metavar="FILE|DIR", help="a sweep file, or a folder of them")
    parser.add_argument("--project", metavar="P", help="default: the file's, then WANDB_PROJECT")
    parser.add_argument("--entity", metavar="E", help="user or team; default: likewise")
    parser.add_argument("--name", metavar="TEXT", help="shown for the sweep")
    parser.add_argument("--samples", type=int, metavar="N", help="as for jade check")
    parser.add_argument(
        "--no_check", "--no-check", action="store_true", help="do not try the points of the sweep"
    )
    parsed = parse_all(parser, tokens)
    if parsed is None:
        return 0
    from jade.envvars import exported, read_environment

    sweeps = _load(Path(parsed.path))
    # A file .env may hold the key.
    with exported(read_environment(os.environ, None)):
        return _push(sweeps, parsed)


def _push(sweeps: "list[Sweep]", parsed: argparse.Namespace) -> int:
    from jade.sweep_registration import register, require_account

    # Before the check, which takes longer.
    require_account(os.environ)
    for sweep in sweeps:
        for text in sweep.misread:
            print(f"note: {text} What is registered here has the right value.")
        if not parsed.no_check:
            show_report(sweep, check(sweep, num_samples=parsed.samples))
    for sweep in sweeps:
        found = register(sweep, entity=parsed.entity, project=parsed.project, name=parsed.name)
        _show(sweep, found)
    return 0


def _load(path: Path) -> "list[Sweep]":
    from jade.sweep import load_sweep, require_sweep

    if not path.is_dir():
        return [_for_wandb(require_sweep(path))]
    files = sorted(item for item in path.iterdir() if item.suffix in (".yml", ".yaml"))
    found = [sweep for sweep in map(load_sweep, files) if sweep is not None]
    if not found:
        raise ConfigError(f"There is no sweep file in {path}: none has parameters and a method.")
    return [_for_wandb(sweep) for sweep in found]


def _for_wandb(sweep: "Sweep") -> "Sweep":
    """Refuse a grid of tasks, which W&B has no words for."""
    if not sweep.parameters and sweep.local.cases:
        raise ConfigError(f"{sweep.path} is a grid of tasks: `jade sweep run` runs it, W&B cannot.")
    return sweep


def _show(sweep: "Sweep", found: "Registered") -> None:
    print(f"{sweep.path} is registered{f': {found.url}' if found.url else '.'}")
    print("Start agents, on any machine, with one of:")
    print(f"  wandb agent {found.path}")
    print(f"  jade agent {found.path}")
