"""One process that trains and that something happens to."""

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from jade.errors import JadeError

TIMEOUT_S = 120.0
POLL_S = 0.0005


class Attempt:
    """A process that is forked from this one, which has imported everything it needs.

    Forking is only safe while this process has no threads: nothing here may start one.

    Args:
        act: What the process does; it returns the exit code, or becomes another program.
        log: The file for what it prints.
        environ: Variables that it has besides ours.
    """

    def __init__(self, act: Callable[[], int], log: Path, environ: Mapping[str, str]) -> None:
        self.log = log
        self.started = time.monotonic()
        self.exit_code: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(_run(act, log, environ))
        # The process does the same: whoever comes first, the group is there when it is signalled.
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)

    @property
    def age(self) -> float:
        """The seconds since it was started."""
        return time.monotonic() - self.started

    def poll(self) -> int | None:
        """Return the exit code, negative if a signal was the end of it; None if it runs."""
        if self.exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code

    def wait(self) -> int:
        """Wait for the end; a process that does not come to it is killed."""
        self.wait_until(lambda: False)
        if self.exit_code is None:
            self.send(signal.SIGABRT)
            self.wait_until(lambda: False)
        return -signal.SIGABRT if self.exit_code is None else self.exit_code

    def wait_until(self, is_time: Callable[[], bool]) -> bool:
        """Wait for something to happen; tell whether it did before the process ended."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.poll() is None and time.monotonic() < deadline:
            if is_time():
                return True
            time.sleep(POLL_S)
        return False

    def wait_seconds(self, seconds: float) -> bool:
        """Wait until the process is so old; tell whether it still runs."""
        return self.wait_until(lambda: self.age >= seconds)

    def watches(self, number: signal.Signals) -> bool:
        """Tell whether the process has a handler for a signal by now."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return False
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
        return bool(caught >> (number - 1) & 1)

    def send(self, number: signal.Signals, *, to_group: bool = False) -> None:
        """Send a signal to the process, or to its workers, too; it has not been waited for."""
        if to_group:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)

    def count(self, text: str) -> int:
        """Return how often it has printed a text."""
        return self.log.read_text(errors="replace").count(text) if self.log.exists() else 0

    def tail(self) -> str:
        """Return the last line of what it printed."""
        lines = self.log.read_text(errors="replace").split("\n") if self.log.exists() else []
        return next((line for line in reversed(lines) if line.strip()), "it printed nothing")


def _run(act: Callable[[], int], log: Path, environ: Mapping[str, str]) -> int:
    """Do what the new process is there for, and return its exit code."""
    try:
        os.setpgrp()
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.environ.update(environ)
        return act()
    except JadeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_code
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
