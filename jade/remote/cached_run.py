"""A run on W&B as a run directory in the cache of this machine, filled when it is needed."""

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jade.errors import CheckpointError
from jade.remote.client import Client
from jade.remote.remote_run import CHECKPOINTS, CODE, RemoteRun
from jade.run_dir import RunDir
from jade.saved_runs import SavedCheckpoint, read_json
from jade.whole_file import write_whole

CACHE_VARIABLE = "JADE_CACHE"
RECORDS = ("config.yml", "provenance.json", "status.json", "summary.json", "metrics.csv")
# Which version of each file is here, in the words of the server.
VERSIONS = "wandb_files.json"

logger = logging.getLogger(__name__)


def cache_root(environ: Mapping[str, str]) -> Path:
    """Return where copies of what W&B has are kept: ``$JADE_CACHE``, else ``~/.cache/jade``."""
    given = environ.get(CACHE_VARIABLE)
    return Path(given).expanduser() if given else Path.home() / ".cache" / "jade"


class CachedRun:
    """A run directory in the cache, which is brought up to date with W&B when it is opened.

    Its records and its code are there from the beginning, each checkpoint once it is asked for.

    Args:
        client: Who asks.
        remote: The run on W&B.
        root: Of the cache.
    """

    def __init__(self, client: Client, remote: RemoteRun, root: Path) -> None:
        self._client = client
        self.remote = remote
        reference = remote.reference
        self.directory = RunDir(root / str(reference.entity) / reference.project / reference.run_id)

    def load_records(self, more: Iterable[str] = ()) -> RunDir:
        """Fetch the records and the code, as far as those here are not the same."""
        self.remote.require_records()
        for folder in (self.directory.checkpoints, self.directory.evaluations):
            folder.mkdir(parents=True, exist_ok=True)
        for name in (*RECORDS, CODE, *more):
            if self.remote.has(name) and not self._is_current(name):
                self.remote.fetch(self.directory, [name])
                self._note(name)
            elif not self.remote.has(name) and name != CODE:
                (self.directory.root / name).unlink(missing_ok=True)
        return self.directory

    def fetch_checkpoint(self, which: str | int | Path | None) -> Path:
        """Return the file of a checkpoint, fetched if it is not here; see ``find_checkpoint``.

        Without a wish, the last one is taken if the best one is damaged on the server.
        """
        if which is not None and Path(str(which)).is_file():
            return Path(str(which))
        wanted = self.remote.find_checkpoint(which)
        try:
            return self._fetch_checkpoint(wanted)
        except CheckpointError as error:
            others = [name for name in self.remote.checkpoint_names() if name != wanted]
            if which is not None or not others:
                raise
            logger.warning("%s %s is taken instead.", error, others[0])
            return self._fetch_checkpoint(others[0])

    def _fetch_checkpoint(self, name: str) -> Path:
        if not self._is_current(f"{CHECKPOINTS}{name}"):
            self.remote.fetch_checkpoint(self.directory, name)
            self._note(f"{CHECKPOINTS}{name}")
        return self.directory.checkpoints / name

    def checkpoints(self) -> list[SavedCheckpoint]:
        """List the checkpoints that W&B has."""
        return self.remote.list_checkpoints(self.directory)

    def _is_current(self, name: str) -> bool:
        path = self.directory.code if name == CODE else self.directory.root / name
        known = read_json(self.directory.root / VERSIONS).get(name)
        return path.exists() and known == self.remote.describe(name).version

    def _note(self, name: str) -> None:
        path = self.directory.root / VERSIONS
        known: dict[str, Any] = {**read_json(path), name: self.remote.describe(name).version}
        write_whole(path, (json.dumps(known, indent=1) + "\n").encode())
