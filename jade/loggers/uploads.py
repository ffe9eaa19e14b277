"""Decide when files are uploaded: newer ones replace those that wait, and bandwidth is bounded."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

# A file is sent at most this often, and no more bytes than this in the long run. What a run ends
# with is always sent.
SHORTEST_PAUSE_S = 30.0
BYTES_PER_SECOND = 10_000_000.0
# How long a copy is kept whose original is gone: as long as an upload may reasonably take.
KEPT_S = 3600.0


class Uploads:
    """Files that wait for their turn, each name once.

    Args:
        send: Begins to upload a file under a name, and returns.
        drop: Removes the copy of that name, which nobody needs any more.
        clock: Tells the seconds.
    """

    def __init__(
        self,
        send: Callable[[Path, str], None],
        drop: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._drop = drop
        self._clock = clock
        self._sent: dict[str, tuple[Path, float]] = {}
        self._waiting: dict[str, Path] = {}
        self._next: dict[str, float] = {}
        self._free_at = 0.0
        self._lock = threading.Lock()

    def offer(self, path: Path, name: str) -> None:
        """Put a file on the list; what waits under its name need not be sent any more."""
        with self._lock:
            self._waiting[name] = path

    def send_due(self) -> None:
        """Send what may be sent now.

        Raises:
            OSError: A file could not be sent; all others have been.
        """
        if self._waiting and self._clock() >= self._free_at:
            self._send_waiting(everything=False)

    def send_all(self) -> None:
        """Send all that waits, because there is no later."""
        self._send_waiting(everything=True)

    def _send_waiting(self, *, everything: bool) -> None:
        now = self._clock()
        with self._lock:
            due = [n for n in self._waiting if everything or now >= self._next.get(n, 0.0)]
            chosen = {name: self._waiting.pop(name) for name in due}
        num_bytes = 0
        problem: OSError | None = None
        for name, path in chosen.items():
            try:
                size = path.stat().st_size
            except OSError:
                # Pruned since, as checkpoints are.
                continue
            self._next[name] = now + SHORTEST_PAUSE_S
            try:
                self._send(path, name)
                self._sent[name] = (path, now)
                num_bytes += size
            except OSError as error:
                # A full disk, for one: smaller files may still find a place.
                problem = problem or error
        self._drop_gone(now)
        if num_bytes:
            self._free_at = now + num_bytes / BYTES_PER_SECOND
        if problem is not None:
            raise problem

    def _drop_gone(self, now: float) -> None:
        """Drop the copies of files that were pruned, or they would fill the disk in their place."""
        for name, (path, since) in list(self._sent.items()):
            if now >= since + KEPT_S and not path.exists():
                del self._sent[name]
                self._drop(name)
