"""Download the files of a run on W&B, each whole or not at all."""

import base64
import contextlib
import hashlib
import logging
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade.errors import JadeError, NetworkError
from jade.remote.client import Client, has_given_up
from jade.seal import READ_BYTES
from jade.whole_file import ASIDE

# How often a file is asked for that does not arrive as the server says it is, and how long to wait.
ATTEMPTS = 3
PAUSE_S = 0.5
POLL_S = 0.1
_HEX = re.compile(r"[0-9a-f]{32}")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemoteFile:
    """A file as the server describes it."""

    name: str
    size: int
    md5: str
    updated: str
    handle: Any

    @classmethod
    def describe(cls, file: Any) -> "RemoteFile":
        """Take over what the package wandb says of a file."""
        attributes = file._attrs
        return cls(
            name=str(attributes["name"]),
            size=int(attributes.get("sizeBytes") or 0),
            md5=str(attributes.get("md5") or ""),
            updated=str(attributes.get("updatedAt") or ""),
            handle=file,
        )

    @property
    def version(self) -> list[Any]:
        """What is different when the file has changed."""
        return [self.size, self.md5, self.updated]

    def problem_of(self, path: Path) -> str | None:
        """Compare a file with what the server says of it."""
        size = path.stat().st_size
        if size != self.size:
            return f"{size:,} of {self.size:,} bytes have arrived"
        if self.md5 and digest(path, hexadecimal=bool(_HEX.fullmatch(self.md5))) != self.md5:
            return "its checksum is another one"
        return None


def digest(path: Path, *, hexadecimal: bool = False) -> str:
    """Return the MD5 of a file, in base 64 as W&B has it."""
    found = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            found.update(block)
    return found.hexdigest() if hexadecimal else base64.b64encode(found.digest()).decode()


class Downloads:
    """The files of a run below a folder, as they are on the server now.

    Args:
        client: Who asks.
        run: The run, as the package wandb has it.
        prefix: The folder on the server; nothing else is looked at.
    """

    def __init__(self, client: Client, run: Any, prefix: str) -> None:
        self._client = client
        self._run = run
        self._prefix = prefix
        self.files = self._list()

    def _list(self, name: str | None = None) -> dict[str, RemoteFile]:
        wanted: dict[str, Any] = {"names": [name]} if name else {"pattern": f"{self._prefix}%"}
        with self._client.asking(f"list of files of {'/'.join(self._run.path)}"):
            found = [RemoteFile.describe(file) for file in self._run.files(**wanted)]
        return {file.name: file for file in found if file.name.startswith(self._prefix)}

    def fetch(self, name: str, target: Path) -> None:
        """Download a file; one that arrives in part is asked for again, a few times.

        Raises:
            NetworkError: It does not arrive whole.
        """
        file, problem = self.files[name], "it is gone"
        for attempt in range(ATTEMPTS):
            if attempt:
                logger.warning("%s: %s; it is asked for again.", name, problem)
                time.sleep(PAUSE_S * attempt)
                # It may have been replaced meanwhile, and then is another one.
                file = self._list(name).get(name, file)
            with self._aside(target) as folder:
                try:
                    arrived = self._download(file, folder)
                except JadeError as error:
                    problem = str(error).rstrip(".")
                    if has_given_up(error.__cause__):
                        break
                    continue
                problem = file.problem_of(arrived) or ""
                if not problem:
                    arrived.replace(target)
                    self.files[name] = file
                    return
        raise NetworkError(f"{name} of {'/'.join(self._run.path)} does not arrive: {problem}.")

    def _download(self, file: RemoteFile, folder: Path) -> Path:
        """Let the client download a file, as long as something arrives."""
        path, outcome = folder / file.name, _Outcome()
        # Not waited for in the end: the client itself tries for a quarter of an hour.
        threading.Thread(target=outcome.record, args=(file, folder), daemon=True).start()
        while not self._is_stalled(outcome, path):
            if outcome.done.wait(POLL_S):
                break
        with self._client.asking(file.name):
            outcome.check()
        return path

    def _is_stalled(self, outcome: "_Outcome", path: Path) -> bool:
        size = path.stat().st_size if path.is_file() else 0
        now = time.monotonic()
        if size != outcome.size:
            outcome.size, outcome.grown_at = size, now
        return now - outcome.grown_at > self._client.patience_s

    @contextlib.contextmanager
    def _aside(self, target: Path) -> Iterator[Path]:
        """Yield a folder beside the target, from which a file can be renamed."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name}.",
            suffix=ASIDE,
            dir=target.parent,
            # A download that nobody waits for any more may still write there.
            ignore_cleanup_errors=True,
        ) as folder:
            yield Path(folder)


class _Outcome:
    """What came of a download in another thread."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.size = 0
        self.grown_at = time.monotonic()
        self._error: Exception | None = None

    def record(self, file: RemoteFile, folder: Path) -> None:
        try:
            file.handle.download(root=str(folder), replace=True).close()
        except Exception as error:
            self._error = error
        self.done.set()

    def check(self) -> None:
        """Raise what was raised, or that nothing arrives any more."""
        if not self.done.is_set():
            raise TimeoutError
        if self._error is not None:
            raise self._error
