"""Log to a destination that lives in a process of its own, so that training never waits for it."""

import contextlib
import io
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.concealment import conceal, find_expanded
from jade.errors import ConfigError
from jade.loggers import wandb_account as account
from jade.loggers.base import Logger, RunInfo
from jade.loggers.console import Console
from jade.provenance import mask_secrets
from jade.run_dir import RunDir
from jade.signals import EXIT_INTERRUPTED, EXIT_PREEMPTED

if TYPE_CHECKING:
    from jade.media import Media

# What is logged in the meantime is handed over together.
PAUSE_S = 0.5
START_TIMEOUT_S = 180.0
# Longer than wandb itself takes to give up.
FINISH_TIMEOUT_S = 360.0
# Whoever has stopped the run wants its place, and may end it for good before long.
HURRIED_TIMEOUT_S = 20.0
HURRIED = (EXIT_PREEMPTED, EXIT_INTERRUPTED)
ASK_TIMEOUT_S = 10.0
# What the other process does after its last word takes a moment, and longer on a busy machine.
LEAVE_TIMEOUT_S = 10.0
# After this time it is said what the run is waiting for.
PATIENCE_S = 3.0
# What the other process says.
STARTED, REFUSED, FAILED, STOP, ANSWER, SAID, FINISHED = (
    "started",
    "refused",
    "failed",
    "stop",
    "answer",
    "said",
    "finished",
)

# The packages that the other process has, and whose values it can read.
READABLE = ("builtins", "collections", "copyreg", "datetime", "jade", "numpy", "pathlib")
# What the other process is to do: the name of a method, and its arguments.
Call = tuple[str, tuple[Any, ...]]

_LOG = logging.getLogger(__name__)


class RelayProcess:
    """The process of a relay, with pipes to and from it.

    It is started as early as possible: it imports wandb while this one imports torch. As long as
    it is told nothing, it does nothing, and ends when its pipe is closed.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self.outgoing = Connection(ours_out, readable=False)
        self.incoming = Connection(ours_in, writable=False)
        self._popen: subprocess.Popen[bytes] | None = None
        # By JADE itself: no code of the user has been imported yet.
        self.has_wandb = "wandb" in sys.modules
        self.is_fork = _is_warm()
        if self.is_fork:
            self.pid = _fork(theirs_in, theirs_out, (ours_in, ours_out), environ)
        else:
            self._popen = _spawn(theirs_in, theirs_out, environ)
            self.pid = self._popen.pid
        self._is_over = False
        # Whether it has a run: it then has something to bring to its end.
        self.is_in_use = False
        os.close(theirs_in)
        os.close(theirs_out)

    def close(self) -> None:
        """Let the process end by itself; what it has been given is not lost."""
        for connection in (self.outgoing, self.incoming):
            with contextlib.suppress(OSError):
                connection.close()

    def discard(self) -> None:
        """End the process if it was not needed; one that has a run ends by itself."""
        self.close()
        if self.is_in_use:
            return
        if not self._has_ended():
            os.kill(self.pid, signal.SIGKILL)
        self.wait(10.0)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process is gone; tell whether it is."""
        deadline = time.monotonic() + timeout_s
        while not self._has_ended():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def _has_ended(self) -> bool:
        if self._popen is not None:
            return self._popen.poll() is not None
        if not self._is_over:
            try:
                self._is_over = os.waitpid(self.pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                self._is_over = True
        return self._is_over


def _is_warm() -> bool:
    """Tell whether a fork of this process has wandb, and can do without other threads."""
    return "wandb" in sys.modules and threading.active_count() == 1 and hasattr(os, "fork")


def _spawn(incoming: int, outgoing: int, environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "jade.loggers.relay_process", str(incoming), str(outgoing)]
    # Of its own session: a Ctrl-C or a signal to the group is for training, which tells us.
    return subprocess.Popen(
        command,
        env={**environ, "PYTHONPATH": os.pathsep.join(_search_path(environ))},
        pass_fds=(incoming, outgoing),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _search_path(environ: Mapping[str, str]) -> list[str]:
    """Return where the other process finds this very JADE, wherever it was imported from."""
    own = str(Path(__file__).parents[2])
    return [own, *(p for p in environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != own)]


def _fork(incoming: int, outgoing: int, others: tuple[int, int], environ: Mapping[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        for descriptor in others:
            os.close(descriptor)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.environ.update(environ)
        from jade.loggers.relay_process import serve

        serve(incoming, outgoing)
        code = 0
    finally:
        os._exit(code)


class Relay(Logger):
    """Hands everything over to a `WandbLogger` in another process.

    ``log`` takes a microsecond or two: a thread sends what has come together every now and then.
    If the other process dies, training goes on, and `jade sync` uploads what is missing.

    Args:
        mode: As for `resolve_mode`.
        environ: The environment of the run.
        process: The other process, if it has been started already.
    """

    def __init__(
        self, mode: str, environ: Mapping[str, str], process: RelayProcess | None = None
    ) -> None:
        self.mode = account.resolve_mode(mode, environ)
        self._requested = mode
        self._environ = environ
        self._process = process
        self._messages: deque[Call] = deque()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._is_closing = False
        self._directory: Path | None = None
        self._variables: Mapping[str, str] = {}
        self._sender: threading.Thread | None = None
        self._receiver: threading.Thread | None = None
        self._answers: dict[str, Any] = {}
        self._heard = threading.Condition()
        self._is_gone = False
        self._report_stop: Callable[[], None] | None = None
        self._console = Console(self._send_console)

    # Called by training

    def start(self, run: RunInfo) -> None:
        self._directory = run.directory
        self._variables = find_expanded(RunDir(run.directory))
        process = self._process = self._process or RelayProcess(self._environ)
        process.is_in_use = True
        self._sender = threading.Thread(target=self._send, name="jade-relay", daemon=True)
        self._receiver = threading.Thread(target=self._receive, name="jade-relay-in", daemon=True)
        self._sender.start()
        self._receiver.start()
        argv = mask_secrets(sys.argv)
        self._post("start", self._requested, dict(self._environ), os.getpid(), argv, run)
        self._console.start()
        if self.mode == "offline":
            # Nothing can be refused, so there is nothing to wait for.
            return
        self._flush()
        heard = self._wait_for((STARTED, REFUSED, FAILED), START_TIMEOUT_S, "W&B is being asked")
        if heard == STARTED:
            self.mode = self._answers[STARTED]
            return
        self._console.stop()
        self._is_gone = True
        text = self._answers.get(heard or "", "its process does not answer")
        process.close()
        if heard == REFUSED:
            raise ConfigError(text)
        raise RuntimeError(text)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        if self._is_gone:
            return
        self._messages.append(("log", (dict(metrics), step)))
        if not self._wake.is_set():
            self._wake.set()

    def log_media(self, name: str, media: "Media", path: Path, step: int) -> None:
        from jade.media import portable

        self._post("log_media", name, portable(media), path.absolute(), step)

    def summarize(self, values: Mapping[str, Any]) -> None:
        self._post("summarize", dict(values))

    def mark_preempting(self) -> None:
        self._post("mark_preempting")
        self._flush()

    def show_text(self, text: str) -> None:
        self._send_console(text)

    @property
    def keeps_files(self) -> bool:
        return self.mode == "online" and not self._is_gone

    def upload(self, path: Path, name: str) -> None:
        self._post("upload", path.absolute(), name)

    def upload_model(self, path: Path, name: str) -> None:
        self._post("upload_model", path.absolute(), name)

    def on_stop_wish(self, callback: Callable[[], None]) -> None:
        self._report_stop = callback

    def is_stop_wanted(self) -> bool:
        if self._sender is None or self._is_gone or self.mode == "offline":
            return False
        self._answers.pop(ANSWER, None)
        self._post("is_stop_wanted")
        self._flush()
        return self._wait_for((ANSWER,), ASK_TIMEOUT_S) == ANSWER and bool(self._answers[ANSWER])

    def finish(self, exit_code: int) -> None:
        sender, self._sender = self._sender, None
        process = self._process
        if process is None:
            return
        self._console.stop()
        if sender is not None and not self._is_gone:
            self._post("finish", exit_code)
            self._is_closing = True
            self._flush()
            is_hurried = exit_code in HURRIED
            timeout_s = HURRIED_TIMEOUT_S if is_hurried else FINISH_TIMEOUT_S
            heard = self._wait_for((FINISHED,), timeout_s, "W&B is receiving the rest")
            sender.join(1.0)
            if is_hurried and heard is None and not self._is_gone:
                self._process = None
                self._leave(process)
                return
            if heard != FINISHED or self._answers[FINISHED]:
                self._warn_of_loss(str(self._answers.get(FINISHED) or "its process is gone"))
        self._process = None
        process.close()
        process.wait(LEAVE_TIMEOUT_S)

    def _leave(self, process: RelayProcess) -> None:
        """Let the other process go on alone: it has its own session, and its own patience."""
        self._is_gone = True
        process.close()
        _LOG.warning(
            "W&B has not got everything yet: a process of its own (%d) goes on trying. What is "
            "missing in the end is sent when the run goes on, or by `jade sync %s`.",
            process.pid,
            self._directory,
        )

    # Between the processes

    def _post(self, call: str, *arguments: Any) -> None:
        # Nobody would take it away any more.
        if not self._is_gone:
            self._messages.append((call, arguments))
            self._wake.set()

    def _flush(self) -> None:
        self._hurry.set()

    def _send_console(self, text: str) -> None:
        # A program prints what it likes, also what a variable stands for.
        self._post("console", conceal(text, self._variables))

    def _send(self) -> None:
        """Send what has come together, until there is nothing more to come."""
        while not self._is_gone:
            self._wake.wait()
            if not self._is_closing:
                self._hurry.wait(PAUSE_S)
            self._hurry.clear()
            self._wake.clear()
            batch = []
            with contextlib.suppress(IndexError):
                while True:
                    batch.append(self._messages.popleft())
            if not self._deliver(batch):
                return
            if batch and batch[-1][0] == "finish":
                return

    def _deliver(self, batch: list[Call]) -> bool:
        process = self._process
        try:
            contents = [_pack(batch)] if batch else []
        except Exception:
            contents = list(_pack_each(batch))
        try:
            for content in contents:
                if process is not None:
                    process.outgoing.send_bytes(content)
        except (OSError, ValueError) as error:
            self._note_end(str(error))
            return False
        return process is not None

    def _receive(self) -> None:
        process = self._process
        while process is not None:
            try:
                kind, value = process.incoming.recv()
            except (OSError, EOFError, ValueError, TypeError):
                # Of which the last is how a connection says that it was closed meanwhile.
                break
            if kind == SAID:
                level, text = value
                _LOG.log(level, "%s", text)
            elif kind == STOP and self._report_stop is not None:
                self._report_stop()
            elif kind in (REFUSED, FAILED) and self.mode == "offline":
                # Nobody waits for that answer.
                _LOG.warning("W&B is left out, it cannot start: %s", value)
            with self._heard:
                self._answers[kind] = value
                self._heard.notify_all()
        self._note_end("it has ended")

    def _note_end(self, why: str) -> None:
        with self._heard:
            was_gone, self._is_gone = self._is_gone, True
            self._heard.notify_all()
        # Let the sender see it.
        self._wake.set()
        self._hurry.set()
        if not was_gone and self._sender is not None:
            self._warn_of_loss(why)

    def _warn_of_loss(self, why: str) -> None:
        _LOG.warning(
            "W&B has not got everything (%s); training and its record are not affected. "
            "`jade sync %s` uploads what is missing.",
            why,
            self._directory,
        )

    def _wait_for(self, kinds: tuple[str, ...], timeout_s: float, text: str = "") -> str | None:
        """Wait for one of these answers, and return which one it was; None if none came."""
        deadline, said = time.monotonic() + timeout_s, time.monotonic() + PATIENCE_S
        with self._heard:
            while True:
                for kind in kinds:
                    if kind in self._answers:
                        return kind
                now = time.monotonic()
                if self._is_gone or now >= deadline:
                    return None
                if text and now >= said:
                    _LOG.info("%s ...", text)
                    said = deadline
                self._heard.wait(min(deadline, said) - now)


class _Pickler(pickle.Pickler):
    """Pickles what can be read by a process that has none of the user's modules."""

    def reducer_override(self, value: Any) -> Any:
        """Turn what is no plain value into one: an enumeration as a name, an object in a table."""
        owner = getattr(value, "__module__", None) or type(value).__module__
        if str(owner).partition(".")[0] in READABLE:
            return NotImplemented
        if isinstance(value, str):
            return str, (str.__str__(value),)
        for kind in (int, float):
            if isinstance(value, kind):
                return kind, (kind(value),)
        return str, (str(value),)


def _pack(calls: Sequence[Call]) -> bytes:
    # Not by the connection: its pickler, which knows sockets and locks, is slower.
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(calls)
    return buffer.getvalue()


def _pack_each(calls: Iterable[Call]) -> Iterator[bytes]:
    """Pickle calls one by one; those that cannot be pickled are lost."""
    for call in calls:
        try:
            yield _pack([call])
        except Exception as error:
            _LOG.warning("W&B: a call of %s is lost: %s", call[0], error)


def ignore_signals() -> None:
    """Leave to training what a signal means."""
    for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
