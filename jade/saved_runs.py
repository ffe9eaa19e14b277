"""Read what a saved run keeps: its configuration, its records, its checkpoints by name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade.errors import ConfigError, suggest
from jade.run_dir import PERIODIC, RunDir
from jade.seal import read_iteration
from jade.yaml_file import load_mapping

BEST, LAST, PERIODICALLY = "best", "last", "periodic"
# What must be the same for a run to be the one that is meant; the rest may change on the way.
IDENTITY = (
    "model",
    "data",
    "eval",
    "arch_impl",
    "modules",
    "deterministic",
    "evaluate_first",
    "load",
    "load_strict",
)


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint of a run; the iteration is None for a file that does not end as it should."""

    path: Path
    kind: str
    iteration: int | None = None


def load_config(directory: RunDir) -> dict[str, Any]:
    """Load the configuration of a run, with variables as they were written."""
    values: dict[str, Any] = load_mapping(directory.config, "config.yml").values
    return values


def is_same(known: Mapping[str, Any], frozen: Mapping[str, Any]) -> bool:
    """Tell whether two configurations are of the same run, however long it is."""
    if any(known.get(key) != frozen.get(key) for key in IDENTITY):
        return False
    # A seed that was drawn fits any configuration that leaves it open.
    return frozen.get("seed") in (None, -1, known.get("seed"))


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
    found = [
        SavedCheckpoint(path, kind, read_iteration(path))
        for kind, path in named.items()
        if path.is_file()
    ]
    for path in directory.periodic_checkpoints() if directory.checkpoints.is_dir() else ():
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
