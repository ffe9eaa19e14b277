"""The faults that a test wishes for: slow answers, refused requests, uploads that are cut."""

import threading
from dataclasses import dataclass


@dataclass
class Fault:
    """What happens to the next ``count`` requests whose description contains ``match``."""

    status: int | None
    count: int | None
    match: str | None


class Faults:
    """Faults by request; a request is described as ``graphql UpsertBucket``,
    ``file_stream RUN``, ``put RUN/NAME`` or ``get RUN/NAME``."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.num_failed = 0
        self._wanted: list[Fault] = []
        self._held: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def fail(self, status: int, count: int | None = None, match: str | None = None) -> None:
        """Answer ``status`` (429 and 503 with Retry-After), ``count`` times or until cleared."""
        self._wanted.append(Fault(status, count, match))

    def cut(self, match: str | None = None, count: int | None = 1) -> None:
        """Close the connection in the middle of an upload or of a download."""
        self._wanted.append(Fault(None, count, match))

    def hold(self, match: str) -> None:
        """Do what is asked, but keep the answers back until all is well again."""
        self._held[match] = threading.Event()

    def wait(self, description: str) -> None:
        """Wait as long as the answer to this request is kept back."""
        for match, event in list(self._held.items()):
            if match in description:
                event.wait()

    def clear(self) -> None:
        """Be well again."""
        self.delay_s = 0.0
        self._wanted.clear()
        for event in self._held.values():
            event.set()
        self._held.clear()

    def take(self, description: str, *, cuts: bool) -> Fault | None:
        """Return the fault that hits this request, and use it up."""
        with self._lock:
            for fault in self._wanted:
                if (fault.status is None) == cuts and (fault.match or "") in description:
                    self._use_up(fault)
                    return fault
        return None

    def _use_up(self, fault: Fault) -> None:
        self.num_failed += 1
        if fault.count is not None:
            fault.count -= 1
            if fault.count == 0:
                self._wanted.remove(fault)
