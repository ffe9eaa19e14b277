"""Turn TERM, INT, USR1 and USR2 into a polite request to stop."""

import _thread
import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from jade.echo import Echo
from jade.job import is_in_job

WATCHED = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
EXIT_PREEMPTED, EXIT_INTERRUPTED = 75, 130
# Set in the trials of an agent, which passes on to them what it gets itself.
AGENT = "JADE_AGENT"
# What a run is said to be stopped by, until somebody knows better.
SIGNAL = "a signal"
WISH = "the wish of W&B"
# Names a file; if it exists, SIGTERM means that a sweep has seen enough of the run.
STOP_FILE = "JADE_STOP_FILE"


class SignalWatch:
    """Remember the first signal and call back; a second one acts as if nobody watched.

    In a job, and under an agent, the same one may arrive again soon, and a process that is leaving
    is left alone: whoever cannot wait for it any more, kills it.

    Handlers can only be set in the main thread; elsewhere (a notebook's worker, a test) the
    watch does nothing. A signal that the process was started to ignore stays ignored.

    Args:
        holds_back: Whether the first signal is only remembered until somebody can act on it;
            otherwise it ends the process as long as nobody can.
    """

    def __init__(self, *, holds_back: bool = False) -> None:
        self.received: signal.Signals | None = None
        self.on_signal: Callable[[], None] = _do_nothing if holds_back else self._leave
        self._is_leaving: Callable[[], bool] = lambda: False
        self._previous: dict[int, Any] = {}
        self._cause: str | None = None
        self._is_own_request = False
        self._pid = os.getpid()
        self._echo = Echo(is_possible=AGENT in os.environ or is_in_job(os.environ))

    @classmethod
    def for_run(cls, environ: Mapping[str, str]) -> "SignalWatch":
        """Watch for a run; one of a sweep has to be opened on W&B even if it is to stop at once.

        W&B hands out again what says of itself that it is preempted, and only that.
        """
        return cls(holds_back=is_in_sweep(environ))

    def __enter__(self) -> "SignalWatch":
        if threading.current_thread() is threading.main_thread() and not self._previous:
            for number in WATCHED:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        # Whatever failed after a signal that nobody took notice of failed because of it.
        self.check()

    def pass_on_to(
        self, on_signal: Callable[[], None], is_leaving: Callable[[], bool] = lambda: False
    ) -> None:
        """Call this from now on, and now if a signal has come in already.

        Args:
            on_signal: What is called.
            is_leaving: Tells whether nothing is left to do but to write down what there is.
        """
        self.on_signal, self._is_leaving = on_signal, is_leaving
        if self.received is not None:
            on_signal()

    def hold_back(self) -> None:
        """Remember a signal until somebody can act on it; leave if one was there before."""
        self.check()
        self.on_signal = _do_nothing

    def check(self) -> None:
        """Leave if a signal came in before training starts, and somebody took no notice of it.

        What the handler raises may be caught by any code that it interrupts: some libraries catch
        everything while they are being imported, and fail later for want of what was cut short.
        """
        if self.received is not None and self.on_signal == self._leave:
            self._leave()

    def find_cause(self, error: BaseException) -> BaseException:
        """Return what an error comes of: a signal that was to end everything, or nothing else."""
        try:
            self.check()
        except (SystemExit, KeyboardInterrupt) as request:
            return request
        return error

    def request(self, cause: str) -> None:
        """Act as if a signal had come, for a cause that has a name; safe from any thread."""
        self._cause = cause
        number = next((n for n in self._previous if n != signal.SIGINT), None)
        if number is not None:
            # The handler is run in the main thread, which may be in the middle of an evaluation.
            self._is_own_request = True
            _thread.interrupt_main(signal.Signals(number))
        else:
            self.on_signal()

    @property
    def cause(self) -> str:
        """What training was asked to stop by."""
        name = f" ({self.received.name})" if self.received is not None else ""
        return self._cause or f"{SIGNAL}{name}"

    @property
    def is_wish(self) -> bool:
        """Whether training was asked to stop for good, and not to make room."""
        return self._cause == WISH

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            # A data worker, which inherits this: the run ends its workers itself.
            return
        if self.received is not None and self._is_own_request:
            # Somebody else has the same wish; it is being fulfilled.
            self._is_own_request = False
            self._echo.listen()
            return
        if self._echo.is_one(number):
            return
        if self.received is not None:
            if self._echo.is_possible and number != signal.SIGINT and self._is_leaving():
                # SLURM is not so patient that anything is gained by giving up what is nearly done.
                return
            self._restore()
            signal.raise_signal(number)
            return
        self.received = signal.Signals(number)
        self.on_signal()

    def _leave(self) -> None:
        """Leave at once: before training starts there is nothing to finish."""
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(self.exit_code)

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._previous.clear()
        self._echo.close()

    @property
    def exit_code(self) -> int:
        """Return the exit code that tells a launcher what to do."""
        return EXIT_INTERRUPTED if self.received == signal.SIGINT else EXIT_PREEMPTED


def is_in_sweep(environ: Mapping[str, str]) -> bool:
    """Tell whether an agent of W&B has started this run."""
    return bool(environ.get("WANDB_SWEEP_ID") and environ.get("WANDB_RUN_ID"))


def _do_nothing() -> None:
    """Take note only."""
