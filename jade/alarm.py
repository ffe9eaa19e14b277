"""Wake somebody at a moment in time, by a thread that sleeps until then."""

import threading
import time
from collections.abc import Callable


class Alarm:
    """One alarm that can be set anew; setting it to the same moment again costs nothing."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._at: float | None = None
        self._timer: threading.Timer | None = None

    def set(self, at: float | None) -> None:
        """Ring at a time of ``time.monotonic``, at once if it is past; None means never."""
        if at == self._at:
            return
        self.cancel()
        if at is None:
            return
        delay = min(max(0.0, at - time.monotonic()), threading.TIMEOUT_MAX)
        self._at = at
        self._timer = threading.Timer(delay, self._go_off)
        self._timer.name, self._timer.daemon = "jade-alarm", True
        self._timer.start()

    def cancel(self) -> None:
        """Make sure that it does not ring any more, and that its thread is gone."""
        timer, self._timer, self._at = self._timer, None, None
        if timer is not None:
            timer.cancel()
            timer.join()

    def _go_off(self) -> None:
        # First: whoever is woken sets the next alarm, perhaps to the same moment.
        self._at = None
        self._ring()
