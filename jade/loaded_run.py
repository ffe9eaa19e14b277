"""Load a run again: its configuration, metrics, datasets, and its trainer from any checkpoint."""

import contextlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from jade import checkpoint as checkpoints
from jade.assemble import choose_device
from jade.code_copy import CodeCopy
from jade.components import LazyComponents
from jade.errors import CheckpointError, ConfigError, JadeError
from jade.export import Exported, export_run
from jade.fence import TRUST, Fence
from jade.metrics_table import MetricsTable
from jade.rebuild import Rebuilder, adopt_stored, ready
from jade.remote.cached_run import CachedRun
from jade.remote.place import find_anywhere
from jade.run_dir import RunDir
from jade.saved_runs import (
    SavedCheckpoint,
    find_checkpoint,
    list_checkpoints,
    load_config,
    read_json,
)
from jade.trainer import Trainer
from jade.user_modules import ModuleSet, shown


def load_run(
    path_or_id: str | Path, *, root: str | Path | None = None, trust_code: bool = False
) -> "LoadedRun":
    """Load a run, whatever its status; it is not altered, neither here nor on W&B.

    Args:
        path_or_id: The directory of the run, its id, or a reference to a run on W&B:
            ``entity/project/run_id``, ``sweep:entity/project/sweep_id:best``, or the address of its
            page. What is in a directory here always wins. Of a run on W&B, records and code are
            fetched into ``$JADE_CACHE`` (default: ``~/.cache/jade``), and each checkpoint when a
            trainer is built from it.
        root: Where runs are found by their ids: ``$EXPERIMENTS_ROOT``, else ``experiments``.
        trust_code: Whether classes come from the copy of the code that the run has kept, which is
            then executed, instead of from the working directory and the libraries of torch; and
            whether the configuration may name any other class.

    Raises:
        ConfigError: There is no such run.
        NetworkError: It is not here, and W&B cannot be asked.
    """
    found = find_anywhere(path_or_id, None if root is None else Path(root))
    if isinstance(found, CachedRun):
        return LoadedRun(found.directory, trust_code=trust_code, cached=found)
    return LoadedRun(found, trust_code=trust_code)


class LoadedRun:
    """A run as it was left on disk; each part is read when it is asked for."""

    def __init__(
        self, directory: RunDir, *, trust_code: bool = False, cached: CachedRun | None = None
    ) -> None:
        self._run = directory
        self._trusts_code = trust_code
        self._cached = cached

    @property
    def directory(self) -> Path:
        """Where the run has its files."""
        return self._run.root

    @property
    def run_id(self) -> str:
        """The name of the directory, which is the run's id on W&B, too."""
        return self._run.run_id

    @cached_property
    def config(self) -> dict[str, Any]:
        """The configuration, nested, with variables as they were written."""
        return load_config(self._run)

    @property
    def status(self) -> Mapping[str, Any]:
        """What ``status.json`` says now: ``status["status"]``, the reason, the counters."""
        return MappingProxyType(read_json(self._run.status_file))

    @property
    def summary(self) -> Mapping[str, Any]:
        """What ``summary.json`` says; empty as long as the run has not ended."""
        return MappingProxyType(read_json(self._run.summary))

    @property
    def metrics(self) -> MetricsTable:
        """What the run has logged so far."""
        return MetricsTable.load(self._run.metrics)

    @cached_property
    def datasets(self) -> LazyComponents:
        """The datasets by name, each built on first access with the variables of this machine."""
        return self._rebuilder.datasets()

    def checkpoints(self) -> list[SavedCheckpoint]:
        """List the checkpoints: path, kind (last, best, periodic), and the periodic iterations.

        Those of a run on W&B are fetched to their paths once they are needed.
        """
        return list_checkpoints(self._run) if self._cached is None else self._cached.checkpoints()

    def trainer(self, checkpoint: str | int | Path | None = None, device: str = "cpu") -> Trainer:
        """Build the trainer with its own ``initialize``, and load a state; it is in eval mode.

        A dataset that cannot be built here is replaced by something that has its size, and says
        what is wrong once a sample is asked for.

        Args:
            checkpoint: ``best``, ``last``, an iteration, or a path; None means the best one if
                there is one, else the last.
            device: Where the networks go.

        Raises:
            ConfigError: There is no such checkpoint, or the code does not fit the configuration.
            CheckpointError: The state does not fit the trainer, or cannot be read.
        """
        path = self._find_checkpoint(checkpoint)
        target = choose_device(device)
        state = checkpoints.load(path, target)
        with self._explained():
            trainer = self._rebuilder.build_trainer(target, self.datasets)
            adopt_stored(trainer, state["trainer"])
            trainer.load_full_state(state["trainer"])
        return ready(trainer, state["clock"])

    def export(self, path: str | Path, checkpoint: str | int | Path | None = None) -> Exported:
        """Write the model to one file for ``jade.load_model``, as ``jade export`` does."""
        if self._cached is not None:
            checkpoint = self._cached.fetch_checkpoint(checkpoint).name
        return export_run(self._run, Path(path), checkpoint)

    def _find_checkpoint(self, which: str | int | Path | None) -> Path:
        if self._cached is not None:
            return self._cached.fetch_checkpoint(which)
        return find_checkpoint(self._run, which).path

    @cached_property
    def _provenance(self) -> Mapping[str, Any]:
        return read_json(self._run.provenance)

    @cached_property
    def _code(self) -> CodeCopy:
        return CodeCopy(self._run.code, self._provenance.get("code") or {})

    @cached_property
    def _rebuilder(self) -> Rebuilder:
        sizes = self._provenance.get("samples") or {}
        if not self._trusts_code:
            return Rebuilder(self.config, Path(), sizes=sizes, fence=self._fence)
        if not self._run.code.is_dir():
            raise ConfigError(f"The run {self.run_id} has kept no code: {self._run.code} is gone.")
        config = self._code.translate(self.config)
        return Rebuilder(config, self._run.code, ModuleSet(self._run.code), sizes)

    @cached_property
    def _fence(self) -> Fence:
        return Fence(Path.cwd(), self.directory.resolve(), self._advice())

    def _advice(self) -> str:
        """Say where the code of the run is, if nothing of it is in the working directory."""
        started_in = str(self._provenance.get("directory") or "")
        is_here = any(Path(name).is_file() for name in self._code.files())
        if is_here or started_in in ("", str(Path.cwd())):
            return ""
        return (
            f"Classes are looked for in {Path.cwd()}, but the run was started in {started_in}: "
            f"change to the project's folder, or {TRUST} executes the code that the run has kept."
        )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say which files have changed when the current code does not fit the run."""
        try:
            yield
        except Exception as error:
            changes = [] if self._trusts_code else self._code.changes(Path())
            if not changes or self._fence.advice:
                raise
            self._raise_with_changes(error, changes)

    def _raise_with_changes(self, error: Exception, changes: list[str]) -> NoReturn:
        kind = type(error) if isinstance(error, (ConfigError, CheckpointError)) else ConfigError
        name = "" if isinstance(error, JadeError) else f"{type(error).__name__}: "
        listed = "\n".join(f"  - {change}" for change in changes)
        raise kind(
            f"The run {self.run_id} does not fit the current code: {name}{error}\n"
            f"Not as they are in {shown(self._run.code)}:\n{listed}\n"
            f"{TRUST} executes the files that are there instead."
        ) from error

    def __repr__(self) -> str:
        kinds = [str(item.iteration or item.kind) for item in self.checkpoints()]
        status = self.status.get("status", "unknown")
        return f"LoadedRun({self.run_id}, {status}, checkpoints: {', '.join(kinds) or 'none'})"
