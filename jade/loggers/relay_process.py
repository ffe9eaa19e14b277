"""The other end of a relay: receive what training logs, and hand it to W&B."""

import contextlib
import io
import logging
import os
import pickle
import queue
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from jade.errors import ConfigError
from jade.loggers import relay, shared_service
from jade.loggers.base import RunInfo
from jade.loggers.right_of_way import RightOfWay
from jade.loggers.wandb_logger import WandbLogger

TICK_S = 1.0
NICENESS = 10
EXIT_LOST = 1
# Training waits for what it asks here.
URGENT = ("is_stop_wanted", "finish")


class _Server:
    """Carries out what it is told, one call after another."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = Connection(incoming, writable=False)
        self._outgoing = Connection(outgoing, readable=False)
        self._lock = threading.Lock()
        self._batches: queue.SimpleQueue[list[relay.Call] | None] = queue.SimpleQueue()
        self._logger: WandbLogger | None = None
        self._right_of_way = RightOfWay()
        self._num_failures = 0
        self._last_problem = ""

    def run(self) -> None:
        # Read all the time, so that training can always get rid of what it has to say.
        threading.Thread(target=self._read, name="jade-relay-read", daemon=True).start()
        while True:
            try:
                batch = self._batches.get(timeout=TICK_S)
            except queue.Empty:
                self._tick()
                continue
            if batch is None:
                break
            for call, arguments in batch:
                if call == "finish":
                    self._finish(*arguments)
                    return
                self._carry_out(call, arguments)
        if self._logger is not None:
            # Training is gone without a word: killed, or the machine is going down.
            self._finish(EXIT_LOST)

    def _read(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                self._receive(self._incoming.recv_bytes())
        self._right_of_way.take_back()
        self._batches.put(None)

    def _receive(self, content: bytes) -> None:
        try:
            batch: list[relay.Call] = pickle.loads(content)  # noqa: S301
        except Exception as error:
            # Whatever it is, there is more to read.
            self._note_failure("what was sent", error)
            return
        if batch[-1][0] in URGENT:
            # Now, and not when all that came before it is done.
            self._right_of_way.take_back()
        self._batches.put(batch)

    def _tick(self) -> None:
        if self._logger is not None:
            self._attempt(self._logger.send_due_uploads)

    def _carry_out(self, call: str, arguments: tuple[Any, ...]) -> None:
        if call == "start":
            self._start(*arguments)
        elif self._logger is None:
            return
        elif call == "console":
            self._attempt(_print, *arguments)
        elif call == "is_stop_wanted":
            self._tell(relay.ANSWER, self._logger.is_stop_wanted())
        else:
            self._attempt(getattr(self._logger, call), *arguments)

    def _start(
        self, mode: str, environ: Mapping[str, str], pid: int, argv: list[str], run: RunInfo
    ) -> None:
        logging.getLogger("jade").addHandler(_Teller(self._tell))
        logging.getLogger("jade").setLevel(logging.INFO)
        # W&B shows how the run was started.
        sys.argv = argv
        try:
            logger = WandbLogger(mode, environ, pid=pid)
            logger.on_stop_wish(lambda: self._tell(relay.STOP, None))
            logger.open(run)
        except ConfigError as error:
            self._tell(relay.REFUSED, str(error))
        except Exception as error:
            self._tell(relay.FAILED, f"{type(error).__name__}: {error}")
        else:
            self._logger = logger
            self._tell(relay.STARTED, logger.mode)
            self._right_of_way.give()
            # Training need not wait for that.
            self._attempt(logger.catch_up, run)

    def _attempt(self, call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception as error:
            self._note_failure(call.__name__, error)

    def _note_failure(self, what: str, error: Exception) -> None:
        self._num_failures += 1
        self._last_problem = f"{type(error).__name__}: {error}"
        if self._num_failures == 1:
            text = f"W&B: {what} failed, training goes on (said once): {self._last_problem}"
            self._tell(relay.SAID, (logging.WARNING, text))

    def _finish(self, exit_code: int) -> None:
        if self._logger is not None:
            self._attempt(self._logger.finish, exit_code)
        lost = f"{self._num_failures} calls failed" if self._num_failures else ""
        self._tell(relay.FINISHED, lost and f"{lost}, the last one with {self._last_problem}")

    def _tell(self, kind: str, value: Any) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._outgoing.send((kind, value))


def _print(text: str) -> None:
    """Print what training has printed, for wandb to take it from there."""
    # Streams for errors take what is no text, such as the names of some files.
    sys.stdout.write(text.encode(errors="backslashreplace").decode())


class _Teller(logging.Handler):
    """Sends what JADE logs here to where training logs."""

    def __init__(self, tell: Any) -> None:
        super().__init__(logging.INFO)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(relay.SAID, (record.levelno, record.getMessage()))


def serve(incoming: int, outgoing: int) -> None:
    """Serve one run, whose calls come in by a pipe; return when all is done."""
    relay.ignore_signals()
    with contextlib.suppress(OSError):
        # Where processors are scarce, training comes first.
        os.nice(NICENESS)
    # What training prints is printed here once more, for wandb to see.
    os.environ.setdefault("WANDB_CONSOLE", "wrap")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Whatever the streams of training can print, this one can.
        sys.stdout.reconfigure(encoding="utf-8")
    shared_service.adopt()
    # Now: training is importing torch, and has nothing to say yet.
    import wandb

    try:
        _Server(incoming, outgoing).run()
    finally:
        wandb.teardown()


def main() -> None:
    """Run the process that `RelayProcess` starts."""
    serve(int(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
