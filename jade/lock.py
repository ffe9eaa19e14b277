"""Own a run directory: one process at a time, and nobody once that process is gone."""

import contextlib
import errno
import fcntl
import logging
import os
import threading
import time
from pathlib import Path
from types import TracebackType

from jade.errors import JadeError, RunInUseError
from jade.owner import Owner
from jade.run_dir import RUNNING, RunDir

# A process of another host that has given no sign of life for so long is gone.
STALE_S = 60.0
# Whoever only asks whether a run is in use is in the way of a starter for a moment.
PATIENCE_S = 1.0
RETRY_S = 0.02
# Without locks, the last one to write its name wins; this is how long the others have to write.
SETTLE_S = 0.2
TAKEN = (errno.EAGAIN, errno.EACCES)
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)

_FileId = tuple[int, int]

logger = logging.getLogger(__name__)


class _OwnLocks:
    """The lock files that this process has locked: it must not open any of them again.

    Closing a file drops all locks of the process on it, whichever descriptor they were taken with.
    """

    def __init__(self) -> None:
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Begin without any: locks stay with the process that took them, also after a fork."""
        # The fork may have copied the mutex while a thread, which the copy lacks, held it.
        self.mutex = threading.Lock()
        self.files: set[_FileId] = set()

    def has(self, path: Path) -> bool:
        """Tell whether this process has locked a file, without opening it."""
        try:
            return _file_id(path.stat()) in self.files
        except OSError:
            return False


_own = _OwnLocks()


class RunLock:
    """The right to write into a run directory, held until ``release`` or the end of the process.

    It is a POSIX record lock: it ends with its process, however that ends, and the processes forked
    from it (data workers) have no part in it, as they would have with ``flock``. Where the file
    system knows no locks, the owner that is written beside it decides. Nothing but this file may
    open ``lock`` in a run directory.

    Args:
        directory: The run directory.
        stale_s: How long an owner on another host may be silent where locks do not tell.
    """

    def __init__(self, directory: Path, *, stale_s: float = STALE_S) -> None:
        self._run = RunDir(directory)
        self._stale_s = stale_s
        self._descriptor: int | None = None
        self._owner: Owner | None = None

    def __enter__(self) -> "RunLock":
        return self.acquire()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def acquire(self) -> "RunLock":
        """Become the owner of the run.

        Raises:
            RunInUseError: Another process owns it, or this one does already.
        """
        try:
            self._acquire()
        except OSError as error:
            raise JadeError(
                f"The run directory {self._run.root} cannot be locked: {error.strerror}."
            ) from error
        return self

    def release(self) -> None:
        """Give the run free; a second call, or a call in a forked process, does nothing."""
        owner, self._owner = self._owner, None
        if owner is None or owner.pid != os.getpid():
            return
        if Owner.load(self._run.owner) == owner:
            # What is left behind only makes the next owner look whether we are gone.
            with contextlib.suppress(OSError):
                self._run.owner.unlink(missing_ok=True)
        self._unlock()

    def _acquire(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._lock():
            if time.monotonic() > deadline:
                raise _refusal(self._run, Owner.load(self._run.owner))
            time.sleep(RETRY_S)
        try:
            self._settle_in()
        except BaseException:
            self._unlock()
            raise

    def _lock(self) -> bool:
        """Try once to lock the file; a file system without locks lets everybody pass."""
        path = self._run.lock
        with _own.mutex:
            if _own.has(path):
                raise _refusal(self._run, Owner.load(self._run.owner))
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(descriptor)
                if error.errno not in (*TAKEN, *NO_LOCKS):
                    raise
                return error.errno in NO_LOCKS
            self._descriptor = descriptor
            _own.files.add(_file_id(os.fstat(descriptor)))
            return True

    def _unlock(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with _own.mutex:
                _own.files.discard(_file_id(os.fstat(descriptor)))
                os.close(descriptor)

    def _settle_in(self) -> None:
        """Put our name in the place of the previous owner's, if that one is gone."""
        previous = Owner.load(self._run.owner)
        if previous is not None:
            if self._is_alive(previous):
                raise _refusal(self._run, previous)
            logger.info("The run was left by %s, which is gone: it is taken over.", previous)
        owner = Owner.this_process()
        owner.write(self._run.owner)
        if self._descriptor is None:
            time.sleep(SETTLE_S)
            winner = Owner.load(self._run.owner)
            if winner != owner:
                raise _refusal(self._run, winner)
        self._owner = owner

    def _is_alive(self, previous: Owner) -> bool:
        if previous.is_here:
            # The lock that we have got says that it is gone.
            return self._descriptor is None and previous.is_running
        return self._beats(previous)

    def _beats(self, previous: Owner) -> bool:
        """Wait for a sign of life of a process on another host, until it should have come.

        That we have got the lock says little: some file systems lock for each host apart.
        """
        sign = _last_sign(self._run, previous)
        # Clocks differ: one that is ahead must not make us wait for longer.
        rest_s = min(self._stale_s, sign + self._stale_s - time.time())
        deadline = time.monotonic() + rest_s
        if rest_s > 0:
            logger.info("Waiting up to %.0f s for a sign of life of %s.", rest_s, previous)
        while time.monotonic() < deadline:
            time.sleep(min(0.2, max(0.0, deadline - time.monotonic())))
            if Owner.load(self._run.owner) != previous:
                # It has ended in the meantime, or somebody was faster than we are.
                return self._run.owner.exists()
            if _last_sign(self._run, previous) > sign:
                return True
        return False


def is_held(directory: Path) -> bool:
    """Tell whether a process owns the run, without standing in the way of one that starts."""
    run = RunDir(directory)
    is_locked = _probe(run.lock)
    owner = Owner.load(run.owner)
    if is_locked:
        return True
    if owner is None:
        # Released; or of a time when, or on a file system where, nothing is locked.
        return is_locked is None and time.time() - _last_sign(run, None) < STALE_S
    if owner.is_here:
        return is_locked is None and owner.is_running
    return time.time() - _last_sign(run, owner) < STALE_S


def _probe(path: Path) -> bool | None:
    """Tell whether a file is locked; None if that cannot be told."""
    with _own.mutex:
        if _own.has(path):
            return True
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return True if error.errno in TAKEN else None
        finally:
            os.close(descriptor)
    return False


def _last_sign(run: RunDir, owner: Owner | None) -> float:
    """Return when the owner of a run gave the last sign of life, in seconds of ``time.time``."""
    beat = 0.0
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        status = run.read_status()
        beat = float(status["updated"]) if status["status"] == RUNNING else 0.0
    return max(beat, owner.since if owner is not None else 0.0)


def _file_id(stat: os.stat_result) -> _FileId:
    return stat.st_dev, stat.st_ino


def _refusal(run: RunDir, owner: Owner | None) -> RunInUseError:
    if owner is None or (owner.is_here and not owner.is_running):
        # The one that has it has not written its name yet.
        return RunInUseError(f"The run {run.run_id} is in use by another process. Wait for it.")
    if owner.is_here and owner.pid == os.getpid():
        return RunInUseError(
            f"The run {run.run_id} is in use by this very process: a directory takes one run at a "
            "time."
        )
    there = "" if owner.is_here else f" on {owner.host}"
    return RunInUseError(
        f"The run {run.run_id} is in use by {owner}. "
        f"Wait for it, or stop it{there}: kill {owner.pid}"
    )
