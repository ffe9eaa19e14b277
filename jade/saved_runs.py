"""Find saved runs by directory or id, and their checkpoints by name."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade.envvars import read_environment
from jade.errors import ConfigError, closest, suggest
from jade.run_dir import PERIODIC, RunDir
from jade.yaml_file import load_mapping

BEST, LAST, PERIODICALLY = "best", "last", "periodic"


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint of a run; the iteration of the last and the best one stands in the file only."""

    path: Path
    kind: str
    iteration: int | None = None


def default_root() -> Path:
    """Return where run directories are when nobody says it; a file .env may."""
    return Path(read_environment(os.environ, None).get("EXPERIMENTS_ROOT") or "experiments")


def find_run(path_or_id: str | Path, root: Path) -> RunDir:
    """Find a run by its directory, or by its id below a folder."""
    given = Path(path_or_id)
    for folder in (given, root / given):
        if RunDir(folder).config.is_file():
            return RunDir(folder.resolve())
    if given.is_dir():
        raise ConfigError(f"{given} is not the directory of a run: it has no config.yml.")
    ids = list_runs(root)
    none = "" if ids else f" There are no runs in {root}."
    raise ConfigError(f"There is no run {str(given)!r} here or in {root}.{none}{_hint(given, ids)}")


def list_runs(root: Path) -> list[str]:
    """List the ids of the runs below a folder, the newest first, as far as ids tell."""
    found = root.iterdir() if root.is_dir() else ()
    return sorted((path.name for path in found if RunDir(path).config.is_file()), reverse=True)


def _hint(given: Path, ids: list[str]) -> str:
    # Ids that were drawn begin with the time, so all of a day are alike: the end tells them apart.
    ending = [name for name in ids if name.endswith(given.name)]
    meant = ending[0] if len(ending) == 1 else closest(given.name, ids)
    listed = suggest("", ids[:5])
    return (f" Did you mean {meant!r}?" if meant else "") + listed


def load_config(directory: RunDir) -> dict[str, Any]:
    """Load the configuration of a run, with variables as they were written."""
    values: dict[str, Any] = load_mapping(directory.config, "config.yml").values
    return values


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that a run may not have written, or not yet."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values


def list_checkpoints(directory: RunDir) -> list[SavedCheckpoint]:
    """List the checkpoints of a run: the last, the best, and those on the way, oldest first."""
    named = {LAST: directory.last_checkpoint, BEST: directory.best_checkpoint}
    found = [SavedCheckpoint(path, kind) for kind, path in named.items() if path.is_file()]
    if not directory.checkpoints.is_dir():
        return found
    for path in directory.periodic_checkpoints():
        match = PERIODIC.fullmatch(path.name)
        found.append(SavedCheckpoint(path, PERIODICALLY, int(match[1]) if match else None))
    return found


def find_checkpoint(directory: RunDir, which: str | int | Path | None = None) -> SavedCheckpoint:
    """Find a checkpoint of a run.

    Args:
        directory: Of the run.
        which: ``best``, ``last``, an iteration, or the path of a file; None means the best one
            if there is one, else the last.
    """
    found = list_checkpoints(directory)
    if which is None:
        for kind in (BEST, LAST):
            for checkpoint in found:
                if checkpoint.kind == kind:
                    return checkpoint
    for checkpoint in found:
        if which is not None and str(which) in _names(checkpoint):
            return checkpoint
    if which is not None and Path(str(which)).is_file():
        return SavedCheckpoint(Path(str(which)), "file")
    names = [_names(checkpoint)[0] for checkpoint in found]
    wanted = "checkpoint yet" if which is None else f"checkpoint {str(which)!r}"
    hint = suggest(str(which), names)
    raise ConfigError(f"The run {directory.run_id} has no {wanted}.{hint}")


def _names(checkpoint: SavedCheckpoint) -> tuple[str, ...]:
    """Return what a checkpoint may be called, the usual name first."""
    is_periodic = checkpoint.kind == PERIODICALLY
    first = str(checkpoint.iteration) if is_periodic else checkpoint.kind
    return first, checkpoint.path.name, str(checkpoint.path)
