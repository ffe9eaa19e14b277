"""Pass the signals that a command gets on to whoever runs its trials."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SIGNALS = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP")


class Receiver(Protocol):
    """Somebody who knows what to do about a signal."""

    def receive(self, number: int) -> None:
        """Take a signal."""


@contextmanager
def signals_kept_back() -> Iterator[list[int]]:
    """Remember signals until there is somebody to take them."""
    received: list[int] = []
    former = {
        number: signal.signal(number, lambda n, _: received.append(n)) for number in _watched()
    }
    try:
        yield received
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def signals_go_to(receiver: Receiver) -> Iterator[None]:
    """Let somebody take them from now on; only within `signals_kept_back`, which ends that."""
    for number in _watched():
        signal.signal(number, lambda n, _: receiver.receive(n))
    yield


def _watched() -> list[int]:
    """Return the signals that are passed on; one that was ignored from the start stays so."""
    found = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    return [number for number in found if signal.getsignal(number) is not signal.SIG_IGN]
