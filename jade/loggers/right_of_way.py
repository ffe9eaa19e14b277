"""Let training have the processors first, as long as it trains and there are too few of them."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

# As 110 to 1024: with less, W&B might hear nothing for minutes from a machine that is overloaded.
LEAST, USUAL = 10, 0
# Linux lets users change a session ten times a second, all of them together.
ATTEMPTS, PAUSE_S = 10, 0.1


class RightOfWay:
    """Gives it to training, and takes it back when training waits for us.

    A niceness alone does not: Linux shares processors among sessions first, and both this process
    and that of wandb have one of their own. And it can not be taken back.
    """

    def __init__(self) -> None:
        self._is_given = self._is_over = False
        self._lock = threading.Lock()

    def give(self) -> None:
        """Let this process, and those that it has started, give way to all others."""
        self._change(is_given=not self._is_over)

    def take_back(self) -> None:
        """Be as important as any other process again, for good."""
        self._is_over = True
        self._change(is_given=False)

    def _change(self, *, is_given: bool) -> None:
        if is_given is not self._is_given:
            self._is_given = is_given
            # Others may have changed their sessions just now, and nobody is to wait for them.
            threading.Thread(target=self._apply, name="jade-right-of-way", daemon=True).start()

    def _apply(self) -> None:
        with self._lock:
            if self._is_given and not self._is_over:
                _set_all("SCHED_BATCH", LEAST)
            else:
                _set_all("SCHED_OTHER", USUAL)


def _set_all(policy: str, niceness: int) -> None:
    for pid in (os.getpid(), *_children()):
        _set_policy(pid, policy)
        _set_session(pid, niceness)


def _set_policy(pid: int, policy: str) -> None:
    """Set how the threads of a process are scheduled; a batch interrupts no other process."""
    for thread in _threads(pid):
        # Systems without such policies have no such names.
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setscheduler(int(thread.name), getattr(os, policy), os.sched_param(0))


def _set_session(pid: int, niceness: int) -> None:
    path = Path(f"/proc/{pid}/autogroup")
    for _ in range(ATTEMPTS):
        try:
            # One that it shares with others is not ours.
            if os.getsid(pid) in (pid, os.getpid()):
                path.write_text(str(niceness))
            return
        except BlockingIOError:
            time.sleep(PAUSE_S)
        except OSError:
            # A system without it, or a process that has ended.
            return


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _children() -> Iterator[int]:
    for thread in _threads(os.getpid()):
        with contextlib.suppress(OSError):
            yield from map(int, (thread / "children").read_text().split())
