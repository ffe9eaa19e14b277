"""Show now and then that a process is alive, by a thread of its own."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType

INTERVAL_S = 10.0

logger = logging.getLogger(__name__)


class Heartbeat:
    """Call ``beat`` every ``interval_s`` seconds while the ``with`` block lasts.

    In between the thread sleeps. A ``beat`` that raises is reported once, and again only after it
    has worked in between; whatever it raises never reaches the run.
    """

    def __init__(self, beat: Callable[[], None], interval_s: float = INTERVAL_S) -> None:
        self._beat = beat
        self._interval_s = interval_s
        self._done = threading.Event()
        self._is_failing = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Heartbeat":
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin; the first beat comes after one interval."""
        self._done.clear()
        self._thread = threading.Thread(target=self._run, name="jade-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End at once: when this returns, no beat is under way and none will follow."""
        self._done.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            # Without a time limit: a late beat would overwrite what is written after this.
            thread.join()

    def _run(self) -> None:
        while not self._done.wait(self._interval_s):
            try:
                self._beat()
                self._is_failing = False
            except Exception as error:
                if not self._is_failing:
                    logger.warning("The sign of life cannot be given: %s", error)
                self._is_failing = True
