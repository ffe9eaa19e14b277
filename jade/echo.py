"""Tell a signal that arrives again by another way from one that is sent again."""

import os
import signal
import threading
import time

# How long after a request the same one may still arrive.
ECHO_S = 5.0


class Echo:
    """Tell whether a signal is a request that has come already; to be asked by its handler.

    A job that ends signals all of its processes, and its script and its agent pass that on: one
    request comes several times. What counts is when a signal arrives, not when its handler is
    called, as the process may be in a long call of a library meanwhile. So Python writes a byte to
    a file when one arrives, and the system notes the time.

    Args:
        is_possible: Whether there is anybody who passes signals on.
    """

    def __init__(self, *, is_possible: bool) -> None:
        self.is_possible = is_possible
        self._until: float | None = None
        self._last_moment = 0.0
        self._arrivals: int | None = None

    def is_one(self, number: int) -> bool:
        """Tell whether the signal that is being handled has come already; the first one has not."""
        if not self.is_possible:
            return False
        if self._until is None:
            self.listen()
            return False
        if number == signal.SIGINT:
            # Nobody passes on a second Ctrl-C.
            return False
        # Who ends a job by TERM kills it by itself when its time is over: until then it may finish.
        is_end_of_job = number == signal.SIGTERM
        return is_end_of_job or time.monotonic() < self._until or self._has_arrived_early()

    def listen(self) -> None:
        """Take what arrives from now on, and not too late, for the same request."""
        if not self.is_possible:
            return
        self._until = time.monotonic() + ECHO_S
        self._last_moment = time.time() + ECHO_S
        is_in_main_thread = threading.current_thread() is threading.main_thread()
        if self._arrivals is None and is_in_main_thread and hasattr(os, "memfd_create"):
            self._arrivals = _note_arrivals()

    def close(self) -> None:
        """End, in the thread in which it has been asked."""
        arrivals, self._arrivals = self._arrivals, None
        if arrivals is not None:
            current = signal.set_wakeup_fd(-1)
            if current not in (-1, arrivals):
                # It wakes an event loop that began later.
                signal.set_wakeup_fd(current)
            os.close(arrivals)

    def _has_arrived_early(self) -> bool:
        return self._arrivals is not None and os.fstat(self._arrivals).st_mtime < self._last_moment


def _note_arrivals() -> int | None:
    """Make a file that is written to whenever a signal arrives."""
    arrivals = os.memfd_create("jade-signals")
    os.set_blocking(arrivals, False)
    former = signal.set_wakeup_fd(arrivals, warn_on_full_buffer=False)
    if former == -1:
        return arrivals
    # It wakes an event loop of somebody else.
    signal.set_wakeup_fd(former)
    os.close(arrivals)
    return None
