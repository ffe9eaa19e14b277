"""Take turns: one process at a time tells W&B of a run, also if an earlier one is not done yet."""

import errno
import fcntl
import os
import time
from pathlib import Path

RETRY_S = 0.05
TAKEN = (errno.EAGAIN, errno.EACCES)


class Turn:
    """The right to tell W&B of a run; it ends with its process, however that ends.

    Training that is killed leaves a process behind that brings to W&B what is on its way. If the
    run goes on at once, two would write the same lines of its history.

    Args:
        path: A file that only this class opens.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, timeout_s: float) -> bool:
        """Wait until it is ours; tell whether it is. Where files cannot be locked, it always is."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        deadline = time.monotonic() + timeout_s
        while not self._lock(self._descriptor):
            if time.monotonic() > deadline:
                self.give_back()
                return False
            time.sleep(RETRY_S)
        return True

    def give_back(self) -> None:
        """Let others have it; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    @staticmethod
    def _lock(descriptor: int) -> bool:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in TAKEN
        return True
