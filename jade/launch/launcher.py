"""Start programs in processes of their own, forked from a warm server, and hear of their ends."""

import contextlib
import dataclasses
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jade.alarm import Alarm
from jade.errors import JadeError
from jade.launch.channel import Channel
from jade.launch.program import LOST, Program

# What a training needs, whatever it trains.
WARM_MODULES = (
    "torch",
    "jade.cli",
    "jade.run",
    "jade.commands.train",
    "jade.loggers.csv_logger",
    "rich.console",
    "rich.table",
    # What torch imports by itself when something is saved or loaded, or first computed.
    "torch.utils.serialization.config",
    "torch.profiler._cupti_monitor",
)
# What it needs besides if it logs to W&B; every fork pays for what it does not use.
WANDB_MODULES = (
    "jade.loggers.wandb_logger",
    "wandb",
    "wandb.apis.public",
    "wandb.sdk.launch.inputs.internal",
    "requests",
)
# How long the files of a user may take to be imported before we go on without that.
PATIENCE_S = 120.0
# How many servers in a row may end before they are ready, and what is shown of what they said.
MAX_STILLBORN, LOG_LINES = 1, 12


class Launcher:
    """Programs, each in a process of its own; they are asked to stop when this process ends.

    Args:
        log_path: Where the server writes what imports print.
        modules: What is imported before the first program starts.
        inherited: Open files that each program has, too.
        environ: What the server has in its environment besides ours: what only counts when a
            process begins, such as the settings of the allocator.
    """

    def __init__(
        self,
        log_path: Path,
        modules: Sequence[str],
        inherited: Sequence[int] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = {**os.environ, **(environ or {})}
        self._log_path = log_path
        self._modules = modules
        self._num_stillborn = 0
        self._inherited = inherited
        self._on_end: Callable[[str, int], None] = lambda *_: None
        self._on_note: Callable[[str], None] = lambda _: None
        self._lock = threading.RLock()
        self._servers: dict[str, _Server] = {}
        self._waiting: dict[str, tuple[Program, int]] = {}
        # What was sent to programs that wait: if their server goes, so does that.
        self._signals: dict[str, list[int]] = {}
        self._is_closed = self._has_prepared = False
        self._former: list[_Server] = []
        # A server that ends at once is heard of after this.
        with self._lock:
            self._current = self._start_server()

    def listen(self, on_end: Callable[[str, int], None], on_note: Callable[[str], None]) -> None:
        """Say who hears of programs; both are called in threads of their own.

        Args:
            on_end: Called with the key and the exit code of a program that has ended, or minus the
                number of the signal that ended it, or LOST if nobody knows.
            on_note: Called with what somebody should know.
        """
        self._on_end, self._on_note = on_end, on_note

    @property
    def is_warm(self) -> bool:
        """Whether programs of this Python are forked, instead of started anew."""
        return bool(self._modules)

    def start(self, key: str, program: Program, output: int) -> None:
        """Start a program; its output goes to an open file, of which a copy is taken.

        Raises:
            JadeError: The process that starts programs ends before it can.
        """
        with self._lock:
            if self._is_broken:
                raise JadeError(
                    f"The process that starts programs ends at once; {self._log_path} ends with:\n"
                    f"{self._read_log()}"
                )
            self._waiting[key] = (program, os.dup(output))
            self._send(key)

    def prepare(self, program: Program) -> None:
        """Import what a training imports, once, before the next program starts."""
        with self._lock:
            if self._has_prepared or program.kind is None or not self._modules:
                return
            self._has_prepared = True
            self._current.prepare(program)

    def signal(self, key: str, number: int) -> None:
        """Send a signal to a program, if it is still there."""
        with self._lock:
            if key in self._waiting:
                self._signals.setdefault(key, []).append(int(number))
            self._send_signal(key, number)

    def close(self) -> None:
        """Let the server go; programs that still run are asked to stop."""
        with self._lock:
            servers = [] if self._is_closed else [*self._former, self._current]
            self._is_closed = True
        for server in servers:
            server.close()

    def _start_server(self) -> "_Server":
        return _Server(self._log_path, self._modules, self._inherited, self._environ, self._hear)

    def _send(self, key: str) -> None:
        program, output = self._waiting[key]
        self._servers[key] = self._current
        fields = {f.name: getattr(program, f.name) for f in dataclasses.fields(program)}
        self._current.send({"do": "start", "key": key, **fields}, [output])
        for number in self._signals.get(key, ()):
            self._send_signal(key, number)

    def _send_signal(self, key: str, number: int) -> None:
        server = self._servers.get(key)
        if server is not None:
            server.send({"do": "signal", "key": key, "number": int(number)})

    def _hear(self, server: "_Server", message: dict[str, Any]) -> None:
        """Take what a server reports, in its thread."""
        what, key = message["is"], message.get("key", "")
        ended: list[tuple[str, int]] = []
        with self._lock:
            if what == "ready":
                self._num_stillborn = 0
                server.is_ready = True
            elif what == "started":
                os.close(self._waiting.pop(key)[1])
                self._signals.pop(key, None)
            elif what == "ended":
                self._servers.pop(key, None)
                ended.append((key, message["code"]))
            elif what == "prepared":
                self._take_preparation(server, message)
            elif what == "gone":
                ended += self._bury(server)
            elif what == "refused":
                self._send(key)
        for key, code in ended:
            self._on_end(key, code)

    def _take_preparation(self, server: "_Server", message: dict[str, Any]) -> None:
        if not message["clean"]:
            self._replace(server, "the files of this project start threads or a GPU when imported")
        elif message["problem"]:
            self._on_note(f"Each trial imports your files itself: {message['problem']}")

    def _replace(self, server: "_Server", reason: str) -> None:
        """Go on with another server, which imports nothing of the user."""
        if server is self._current and not self._is_closed:
            self._on_note(f"Each trial imports your files itself: {reason}.")
            server.hang_up()
            self._former.append(server)
            self._current = self._start_server()

    def _bury(self, server: "_Server") -> list[tuple[str, int]]:
        """Start again what had not been started, and give up what had."""
        lost = [key for key, its in self._servers.items() if its is server]
        self._num_stillborn += not server.is_ready
        if self._is_closed or self._is_broken:
            return [(self._forget(key), LOST) for key in lost]
        if self._num_stillborn:
            # What it was importing may have ended it.
            self._modules = ()
        if server is self._current:
            self._replace(server, "the process that had imported them is gone")
        again = [key for key in lost if key in self._waiting]
        for key in again:
            self._send(key)
        return [(self._forget(key), LOST) for key in lost if key not in again]

    @property
    def _is_broken(self) -> bool:
        return self._num_stillborn > MAX_STILLBORN

    def _read_log(self) -> str:
        with contextlib.suppress(OSError):
            lines = self._log_path.read_text(errors="replace").splitlines()
            return "\n".join(f"    {line}" for line in lines[-LOG_LINES:])
        return ""

    def _forget(self, key: str) -> str:
        self._servers.pop(key, None)
        self._signals.pop(key, None)
        _, output = self._waiting.pop(key, (None, None))
        if output is not None:
            os.close(output)
        return key


class _Server:
    """The other side of a warm server, and a thread that listens to it."""

    def __init__(
        self,
        log_path: Path,
        modules: Sequence[str],
        inherited: Sequence[int],
        environ: Mapping[str, str],
        hear: "Callable[[_Server, dict[str, Any]], None]",
    ) -> None:
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._hear = hear
        self.is_ready = False
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jade.launch.warm_server", str(theirs.fileno()), *modules],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno(), *inherited],
                # Ctrl-C is for whoever has started it.
                start_new_session=True,
            )
        theirs.close()
        self._alarm = Alarm(self._process.kill)
        self._listener = threading.Thread(target=self._listen, name="jade-launcher", daemon=True)
        self._listener.start()

    def send(self, message: dict[str, Any], files: Sequence[int] = ()) -> None:
        """Send a request; if nobody is there, the listener says so."""
        with contextlib.suppress(OSError):
            self._channel.send(message, files)

    def prepare(self, program: Program) -> None:
        """Ask for an import of the user's files, which must not take for ever."""
        self._alarm.set(time.monotonic() + PATIENCE_S)
        arguments, environ = list(program.arguments), dict(program.environ)
        self.send({"do": "prepare", "arguments": arguments, "environ": environ})

    def hang_up(self) -> None:
        """Say that nothing more will come."""
        with contextlib.suppress(OSError):
            self._channel.connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Hang up, and wait until the server is gone."""
        self.hang_up()
        self._process.wait()
        self._alarm.cancel()
        self._listener.join()
        self._channel.close()

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                for message, _ in self._channel.receive():
                    if message["is"] == "prepared":
                        self._alarm.set(None)
                    self._hear(self, message)
        self._hear(self, {"is": "gone"})
