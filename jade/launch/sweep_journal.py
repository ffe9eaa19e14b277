"""Keep the storage of a sweep in one file of a shared folder, which many processes append to.

The file is what Optuna's own journal is: a line of JSON for each operation. Three things are ours.
The lock is one that ends with its process, so that nobody waits for a worker that was killed.
A line that a full disk has cut is removed by the next one who writes. And several operations can be
made one: others see all of them or none, and the disk is waited for once.
"""

import contextlib
import errno
import fcntl
import json
import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from optuna.storages.journal import BaseJournalBackend, JournalFileOpenLock

from jade.errors import ConfigError, StorageError

TAKEN = (errno.EAGAIN, errno.EACCES)
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)
CHUNK = 65536
# How long somebody else may hold the lock, also if somebody here is in a hurry.
PATIENCE_S, HURRY_S = 30.0, 1.0
# Between two tries; the others hold it for about a millisecond.
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.0005, 0.02


class FileLock:
    """A lock that its holder may take again, and that ends with the process.

    Args:
        path: A file that exists for nothing else; it stays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.RLock()
        self._depth = 0
        self._is_hurried = False
        self._descriptor: int | None = None
        self._substitute: JournalFileOpenLock | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; wait for it if somebody else does, but not for ever.

        Raises:
            StorageError: Somebody else holds it all the time.
        """
        with self._mutex:
            if self._depth == 0:
                self._acquire()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._release()

    @property
    def depth(self) -> int:
        """How often its holder has taken it."""
        return self._depth

    def hurry(self) -> None:
        """Wait only for a moment from now on: somebody wants to leave."""
        self._is_hurried = True

    def _acquire(self) -> None:
        if self._substitute is None:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                self._wait_for(descriptor)
            except BaseException as error:
                os.close(descriptor)
                if not isinstance(error, OSError) or error.errno not in NO_LOCKS:
                    raise
            else:
                self._descriptor = descriptor
                return
            # A file system without locks: a file that only one process can make does it, too.
            self._substitute = JournalFileOpenLock(str(self._path))
        self._substitute.acquire()

    def _wait_for(self, descriptor: int) -> None:
        began, pause_s = time.monotonic(), SHORTEST_PAUSE_S
        while True:
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in TAKEN:
                    raise
            if time.monotonic() - began > (HURRY_S if self._is_hurried else PATIENCE_S):
                raise StorageError(f"Another process holds the lock {self._path}.")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        elif self._substitute is not None:
            self._substitute.release()


class SweepJournal(BaseJournalBackend):
    """A file that Optuna writes its operations to, one line each.

    Args:
        path: The file; it is made if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        # How many lines were read, and where the next one begins.
        self._num_read, self._offset = 0, 0
        self._unsaved: int | None = None
        with path.open("ab"):
            pass

    def hurry(self) -> None:
        """Wait only for a moment from now on."""
        self._lock.hurry()

    @contextlib.contextmanager
    def held(self, *, durable: bool = True) -> Iterator[None]:
        """Let nobody else write; others see what is written within at the end.

        Args:
            durable: Whether it must survive a power cut, too, which takes milliseconds.
        """
        with self._lock.held():
            try:
                yield
            finally:
                if self._lock.depth == 1 and self._unsaved is not None:
                    descriptor, self._unsaved = self._unsaved, None
                    try:
                        if durable:
                            os.fsync(descriptor)
                    finally:
                        os.close(descriptor)

    def claiming(self) -> AbstractContextManager[None]:
        """Let nobody else claim; a power cut that takes a claim back has ended its worker, too."""
        return self.held(durable=False)

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """Yield the operations from a number on; a line that is being written does not count."""
        if log_number_from != self._num_read:
            self._num_read, self._offset = 0, 0
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            self._num_read += 1
            self._offset += len(line)
            if self._num_read > log_number_from:
                yield self._parse(line)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append operations."""
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with self.held():
            if self._unsaved is None:
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                self._unsaved = os.open(self._path, flags, 0o666)
            self._write(self._unsaved, text.encode())

    def _write(self, descriptor: int, data: bytes) -> None:
        end = os.fstat(descriptor).st_size
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            end = _last_line_end(descriptor, end)
            os.ftruncate(descriptor, end)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError:
            # All or nothing, as when a disk is full.
            os.ftruncate(descriptor, end)
            raise

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            log = json.loads(line)
            if isinstance(log, dict) and "op_code" in log:
                return log
        except ValueError:
            pass
        raise ConfigError(
            f"{self._path}:{self._num_read} is no line of a sweep's journal. "
            "Is it another file? Remove the line if it is damaged, or give another --storage."
        )


def _last_line_end(descriptor: int, end: int) -> int:
    """Return where the last whole line ends."""
    while end > 0:
        start = max(0, end - CHUNK)
        place = os.pread(descriptor, end - start, start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0
