"""Where an agent works: the folders of a sweep, the environment of its trials, what they need."""

import contextlib
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from jade.command_line import ArgumentParser, add_settings, collect_overrides
from jade.config import Configuration, Sources, load
from jade.errors import ConfigError
from jade.launch.preflight import ROOT, Preflight, find_setting
from jade.launch.wandb_sweep import WandbSweep
from jade.loggers.shared_service import SERVICE
from jade.provenance import describe_git
from jade.settings import FILES
from jade.signals import AGENT
from jade.sweep import Sweep, require_sweep, telling_points
from jade.sweep.command import DEFAULT_COMMAND, Command


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """Where an agent works, and what it checks there.

    Attributes:
        folder: What the paths of the sweep are relative to.
        sweep_folder: Where parameters and the output of trials go.
        experiments_root: Where run directories are made; None if the program is not one of JADE.
        environ: What every trial has in its environment.
        preflight: What is examined before work is taken, and again after a failure.
        notes: What somebody should know.
    """

    folder: Path
    sweep_folder: Path
    experiments_root: Path | None
    environ: Mapping[str, str]
    preflight: Preflight
    notes: Sequence[str] = ()


def make_sweep_folder(sweep_id: str, environ: Mapping[str, str], folder: Path) -> Path:
    """Make the folder in which W&B's own agent keeps the parameters of trials, too."""
    sweep_folder = folder / (environ.get("WANDB_DIR") or ".") / "wandb" / f"sweep-{sweep_id}"
    try:
        sweep_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{sweep_folder} cannot be made: {error.strerror}. Name another place: WANDB_DIR."
        ) from error
    return sweep_folder


def name_server_log(sweep_folder: Path) -> Path:
    """Name a file that no other agent of the sweep writes to, nor removes."""
    return sweep_folder / f"server-{socket.gethostname()}-{os.getpid()}.log"


def remove_if_unused(sweep_folder: Path, log_path: Path | None = None) -> None:
    """Remove the folder of a sweep in which nothing was written, and the one around it.

    Other agents work there, too: a file of theirs may be empty because it was opened just now.

    Args:
        sweep_folder: The folder.
        log_path: A file of this process, which is removed if it is empty.
    """
    with contextlib.suppress(OSError):
        if log_path is not None and log_path.stat().st_size == 0:
            log_path.unlink()
    with contextlib.suppress(OSError):
        sweep_folder.rmdir()
        sweep_folder.parent.rmdir()


def make_workplace(
    sweep: WandbSweep, devices: Sequence[str], environ: Mapping[str, str], folder: Path
) -> Workplace:
    """Find out what the trials of a sweep need."""
    around = trial_environment(sweep, environ, folder)
    sweep_folder = make_sweep_folder(sweep.sweep_id, environ, folder)
    notes = _compare_code(sweep, folder)
    found = _read_sweep(sweep.config, notes)
    tokens = tuple(str(token) for token in sweep.config.get("command") or DEFAULT_COMMAND)
    problems = list(Command(sweep.config.get("program"), tokens).problems(folder, around))
    configurations = load_configurations(found, around, problems) if found is not None else []
    root = Path(find_setting(configurations[0], ROOT)) if configurations else None
    folders = {"WANDB_DIR": sweep_folder, **({ROOT: folder / root} if root is not None else {})}
    preflight = Preflight(
        configurations=configurations,
        folders=folders,
        devices=devices,
        environ=around,
        command_problems=tuple(problems),
    )
    return Workplace(
        folder=folder,
        sweep_folder=sweep_folder,
        experiments_root=folder / root if root is not None else None,
        environ=around,
        preflight=preflight,
        notes=notes,
    )


def _compare_code(sweep: WandbSweep, folder: Path) -> list[str]:
    """Say so if the runs of a sweep were made with another version of the code."""
    theirs = sweep.newest_commit()
    git = describe_git(folder) if theirs is not None else None
    ours = git.get("commit") if git is not None else None
    if theirs is None or ours is None or ours == theirs:
        return []
    return [
        f"The code here is of commit {ours[:12]}, that of the newest run of the sweep is of "
        f"{theirs[:12]}."
    ]


def trial_environment(
    sweep: WandbSweep, environ: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """Return what W&B's own agent puts into the environment of a trial."""
    around = {name: value for name, value in environ.items() if name != SERVICE}
    return {
        **around,
        "WANDB_ENTITY": sweep.entity,
        "WANDB_PROJECT": sweep.project,
        "WANDB_SWEEP_ID": sweep.sweep_id,
        AGENT: str(os.getpid()),
        "WANDB_DIR": str(folder / (environ.get("WANDB_DIR") or ".")),
    }


def _read_sweep(config: Mapping[str, Any], notes: list[str]) -> Sweep | None:
    # A file that nobody else reads, writes or removes meanwhile.
    with tempfile.TemporaryDirectory(prefix="jade-") as folder:
        path = Path(folder, "sweep.yml")
        path.write_text(yaml.safe_dump(dict(config), sort_keys=False), encoding="utf-8")
        try:
            return require_sweep(path)
        except ConfigError as error:
            notes.append(f"The sweep is not checked, because it is not understood: {error}")
            return None


def load_configurations(
    sweep: Sweep, environ: Mapping[str, str], problems: list[str], others: Sequence[str] = ()
) -> list[Configuration]:
    """Load the configurations of points of a sweep, as far as that can be done without classes.

    Args:
        sweep: The sweep; if its program is not one of JADE, there are no configurations.
        environ: Of the trials.
        problems: Gets what cannot be loaded.
        others: Arguments for all runs, besides those of the sweep.
    """
    parser = ArgumentParser(allow_abbrev=False, add_help=False)
    add_settings(parser)
    given = [*sweep.command.filled_in(environ), *others]
    found = []
    try:
        arguments = collect_overrides(*parser.parse_known_args(given))
        for point in telling_points(sweep.parameters):
            overrides = [*arguments, *point.overrides()]
            if not any(override.key in FILES for override in overrides):
                return []
            found.append(load(Sources(arguments=overrides, environ=environ)))
    except ConfigError as error:
        problems.append(str(error))
    return found
