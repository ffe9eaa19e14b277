"""Write files in the background, one after another, and try again where that fails."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from jade.errors import CheckpointError

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0

logger = logging.getLogger(__name__)


@dataclass
class _Job:
    label: str
    write: Callable[[], None]


class Writer:
    """A thread that writes what it is given.

    What cannot be written is tried again until it works, or until there is something newer to
    write. It is said once that it does not work, and once that it works again.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._job: _Job | None = None
        self._is_closing = False
        self._is_failing = False
        self._num_failures = 0
        self._thread: threading.Thread | None = None

    def write(self, label: str, write: Callable[[], None]) -> None:
        """Call ``write`` in the background; call ``wait`` before, so that nothing is under way."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="jade-writer", daemon=True)
            self._thread.start()
        with self._condition:
            self._job = _Job(label, write)
            self._condition.notify_all()

    def wait(self) -> None:
        """Return when nothing is being written any more; what keeps failing is given up."""
        with self._condition:
            self._condition.wait_for(lambda: self._job is None or self._is_failing)
            if self._job is not None:
                logger.debug(
                    "%s is given up after %d attempts.", self._job.label, self._num_failures
                )
                # What comes next has not failed yet, even if the thread has not noticed it so far.
                self._job, self._is_failing = None, False
                self._condition.notify_all()

    def close(self) -> None:
        """Wait, and end the thread."""
        self.wait()
        with self._condition:
            self._is_closing = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._is_closing = False

    def _work(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._job is not None or self._is_closing)
                job = self._job
                if job is None:
                    return
            self._try(job)

    def _try(self, job: _Job) -> None:
        try:
            job.write()
        except CheckpointError as error:
            self._pause(job, str(error))
            return
        except BaseException as error:
            # Whatever it was: this thread must live, or training would wait for it forever.
            self._pause(job, f"{job.label} cannot be written: {type(error).__name__}: {error}.")
            return
        with self._condition:
            if self._num_failures:
                logger.info("%s is written, after %d failures.", job.label, self._num_failures)
            self._is_failing, self._num_failures = False, 0
            self._finish(job)

    def _pause(self, job: _Job, problem: str) -> None:
        """Say what is wrong, and wait a while, or until there is something newer to write."""
        with self._condition:
            if not self._num_failures:
                logger.error("%s The previous checkpoint stays; it is tried again.", problem)
            pause_s = min(FIRST_PAUSE_S * 2 ** min(self._num_failures, 10), LONGEST_PAUSE_S)
            self._num_failures += 1
            self._is_failing = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._job is not job, timeout=pause_s)
            self._is_failing = False

    def _finish(self, job: _Job) -> None:
        if self._job is job:
            self._job = None
        self._condition.notify_all()
