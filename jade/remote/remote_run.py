"""What a run has left on W&B: its records, its code and its checkpoints, fetched as needed."""

import logging
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from jade import seal
from jade.code_archive import unpack_code
from jade.errors import CheckpointError, ConfigError, suggest
from jade.publisher import PREFIX
from jade.remote.client import Client
from jade.remote.download import Downloads, RemoteFile
from jade.remote.reference import RunReference
from jade.run_dir import PERIODIC, RunDir
from jade.saved_runs import BEST, LAST, PERIODICALLY, SavedCheckpoint

CODE = "code.zip"
CHECKPOINTS = "checkpoints/"

logger = logging.getLogger(__name__)


class RemoteRun:
    """A run on W&B, of which nothing is altered.

    Args:
        client: Who asks.
        reference: Which run.

    Raises:
        ConfigError: There is no such run, or JADE did not make it.
    """

    def __init__(self, client: Client, reference: RunReference) -> None:
        self._client = client
        self.run = client.find_run(reference)
        self.reference = RunReference(str(self.run.entity), str(self.run.project), reference.run_id)

    @cached_property
    def downloads(self) -> Downloads:
        """The files that JADE has put there."""
        return Downloads(self._client, self.run, PREFIX)

    @property
    def url(self) -> str:
        """Where people look at the run."""
        return str(self.run.url)

    @property
    def state(self) -> str:
        """How the run stands, in W&B's words."""
        return str(self.run.state)

    def require_records(self) -> None:
        """Refuse a run that JADE did not make, or that has uploaded nothing."""
        if self.has("config.yml"):
            return
        raise ConfigError(
            f"The run {self.reference} has no {PREFIX}config.yml on W&B: it was not made by JADE, "
            "or did not get as far."
        )

    def has(self, name: str) -> bool:
        """Tell whether a file, named as in the directory of a run, is there."""
        return f"{PREFIX}{name}" in self.downloads.files

    def describe(self, name: str) -> RemoteFile:
        """Return what the server says of a file."""
        return self.downloads.files[f"{PREFIX}{name}"]

    def describe_checkpoint(self, name: str) -> RemoteFile:
        """Return what the server says of a checkpoint."""
        return self.describe(f"{CHECKPOINTS}{name}")

    def fetch(self, directory: RunDir, names: Iterable[str]) -> None:
        """Download those of the files that are there, to their places in a run directory."""
        for name in names:
            if name == CODE and self.has(CODE):
                self._fetch_code(directory)
            elif self.has(name):
                self.downloads.fetch(f"{PREFIX}{name}", directory.root / name)

    def _fetch_code(self, directory: RunDir) -> None:
        archive = directory.root / CODE
        self.downloads.fetch(f"{PREFIX}{CODE}", archive)
        try:
            unpack_code(archive, directory.code)
        except CheckpointError as error:
            raise CheckpointError(f"The code of {self.reference}: {error}") from error
        finally:
            archive.unlink(missing_ok=True)

    def fetch_checkpoint(self, directory: RunDir, name: str) -> int:
        """Download a checkpoint, compare it with its seal, and return its iteration.

        Raises:
            CheckpointError: It is damaged on the server; nothing is left of it here.
        """
        target = directory.checkpoints / name
        aside = target.with_name(f".{name}.arrived")
        try:
            self.downloads.fetch(f"{PREFIX}{CHECKPOINTS}{name}", aside)
            with aside.open("rb") as file:
                iteration = seal.check(file, Path(f"{self.reference}/{PREFIX}{CHECKPOINTS}{name}"))
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
        return iteration

    def checkpoint_names(self) -> list[str]:
        """List the file names of the checkpoints: last, best, those on the way, oldest first."""
        start = f"{PREFIX}{CHECKPOINTS}"
        names = [
            name.removeprefix(start) for name in self.downloads.files if name.startswith(start)
        ]
        periodic = sorted(
            (int(match[1]), name) for name in names if (match := PERIODIC.fullmatch(name))
        )
        named = [name for name in (f"{LAST}.pt", f"{BEST}.pt") if name in names]
        return [*named, *(name for _, name in periodic)]

    def find_checkpoint(self, which: str | int | Path | None) -> str:
        """Find the file name of a checkpoint by what ``saved_runs.find_checkpoint`` takes."""
        names = self.checkpoint_names()
        wanted = (f"{BEST}.pt", f"{LAST}.pt") if which is None else _spellings(str(which))
        for name in wanted:
            if name in names:
                return name
        what = "checkpoint" if which is None else f"checkpoint {str(which)!r}"
        known = [name.removesuffix(".pt").removeprefix("checkpoint_") for name in names]
        raise ConfigError(
            f"The run {self.reference} has no {what} on W&B.{suggest(str(which), known)}"
        )

    def list_checkpoints(self, directory: RunDir) -> list[SavedCheckpoint]:
        """List the checkpoints with the paths that they get; one that is not here has no age."""
        found = []
        for name in self.checkpoint_names():
            path = directory.checkpoints / name
            match = PERIODIC.fullmatch(name)
            kind = PERIODICALLY if match else name.removesuffix(".pt")
            iteration = int(match[1]) if match else seal.read_iteration(path)
            found.append(SavedCheckpoint(path, kind, iteration))
        return found


def fetch_newest(remote: RemoteRun, directory: RunDir) -> int | None:
    """Download what a run goes on from, and its best state; return the newest iteration.

    A damaged one is named and left out: another one may be whole.

    Returns:
        The iteration of the newest checkpoint that is whole; None if there is none at all.

    Raises:
        CheckpointError: There are checkpoints, but all of them are damaged.
    """
    names: Sequence[str] = remote.checkpoint_names()
    iterations, damaged = [], []
    for name in _needed(names):
        try:
            iterations.append(remote.fetch_checkpoint(directory, name))
        except CheckpointError as error:
            logger.warning("%s Another one is tried.", error)
            damaged.append(name)
    if damaged and not iterations:
        # Those on the way are only asked for when nothing better is left.
        for name in reversed([name for name in names if name not in damaged]):
            try:
                return remote.fetch_checkpoint(directory, name)
            except CheckpointError as error:
                logger.warning("%s", error)
        raise CheckpointError(
            f"All checkpoints of {remote.reference} on W&B are damaged: {', '.join(names)}. "
            "Nothing is left to go on from."
        )
    return max(iterations, default=None)


def _needed(names: Sequence[str]) -> list[str]:
    named = [name for name in names if not PERIODIC.fullmatch(name)]
    return named or list(names[-1:])


def _spellings(which: str) -> tuple[str, ...]:
    name = Path(which).name
    return name, f"{name}.pt", f"checkpoint_{name}.pt"
