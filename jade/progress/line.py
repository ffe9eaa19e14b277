"""Draw the progress line of a run by a thread of its own."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jade.progress.console import (
    DISPLAY_FAILURES,
    can_draw,
    forced_mode,
    make_console,
    open_console,
)
from jade.progress.display import LONGEST_PAUSE_S, BarDisplay, Display, PlainDisplay
from jade.progress.pace import Pace
from jade.progress.status import Snapshot, Status

if TYPE_CHECKING:
    from rich.console import Console

# What drawing may take of one core: after a costly refresh the thread pauses for longer.
MAX_CPU_SHARE = 0.003
JOIN_TIMEOUT_S = 2.0

logger = logging.getLogger(__name__)


class ProgressLine:
    """Show how a run is doing while the ``with`` block lasts, without the training loop's help.

    A thread calls ``read`` a few times a second. Neither a ``read`` that raises nor a terminal
    that is gone ever disturbs the run: then the line shows what is known, or nothing any more.

    Args:
        read: Returns the state of the loop; called from the thread, so it must be cheap and must
            not change anything.
        title: What the line begins with.
        console: Where to draw; by default ``open_console(mode)``.
        enabled: False shows nothing at all.
        mode: One of ``MODES``; by default ``JADE_PROGRESS``, else what the console is.
        clock: Seconds, from any origin.

    Raises:
        ConfigError: The mode is unknown.
    """

    def __init__(
        self,
        read: Callable[[], Snapshot],
        *,
        title: str,
        console: "Console | None" = None,
        enabled: bool = True,
        mode: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._title = title
        self._console = console
        self._mode = forced_mode(mode) if enabled else "off"
        self._clock = clock
        self._display: Display = Display()
        self._pace = Pace()
        self._snapshot: Snapshot | None = None
        self._has_read_failed = False
        self._started_s = clock()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "ProgressLine":
        self._started_s = self._clock()
        self._attempt(self._open_display)
        if type(self._display) is not Display:
            self._thread = threading.Thread(target=self._run, name="jade-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish()

    def note(self, text: str) -> None:
        """Show a line of text above the bar, or between the plain lines."""
        self._attempt(self._display.note, text)

    def refresh(self) -> None:
        """Read the loop once and show it; the thread does this by itself."""
        self._attempt(self._display.update, self._take_status())

    def finish(self) -> None:
        """Show the last state and end the thread; a second call does nothing."""
        self._done.set()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join(JOIN_TIMEOUT_S)
        # Still alive, it hangs on a stopped terminal, where we would hang too.
        if not thread.is_alive():
            display, self._display = self._display, Display()
            self._attempt(display.finish, self._take_status())

    def _run(self) -> None:
        pause_s = self._display.period_s
        last_cost_s = 0.0
        while not self._done.wait(pause_s):
            before_s = time.thread_time()
            self.refresh()
            cost_s = time.thread_time() - before_s
            # One costly refresh is an accident (something was loaded), two are the machine.
            usual_s = min(cost_s, last_cost_s)
            last_cost_s = cost_s
            pause_s = max(self._display.period_s, min(usual_s / MAX_CPU_SHARE, LONGEST_PAUSE_S))

    def _open_display(self) -> None:
        if self._mode == "off":
            return
        status = self._take_status()
        self._display = PlainDisplay(self._console)
        console = self._bar_console()
        if console is None:
            return
        try:
            self._display = BarDisplay(console, status)
        except DISPLAY_FAILURES:
            logger.debug("The bar cannot be drawn; plain lines follow.", exc_info=True)

    def _bar_console(self) -> "Console | None":
        """Return the console to draw a bar on, None for plain lines."""
        console = self._console
        if console is None or self._mode == "plain":
            return open_console(self._mode)
        if self._mode == "bar" and not can_draw(console):
            console = make_console(force_terminal=True, file=console.file, width=console.width)
        return console if can_draw(console) else None

    def _take_status(self) -> Status:
        now_s = self._clock()
        try:
            snapshot = self._read()
            # A copy, because the loop may change its losses while the line is rendered.
            self._snapshot = replace(snapshot, losses=dict(snapshot.losses))
            self._pace.add(now_s, self._snapshot)
        except Exception:
            # The loop may not be there yet, or be just changing what is read.
            if not self._has_read_failed:
                logger.debug("The state of the training loop cannot be read.", exc_info=True)
            self._has_read_failed = True
        elapsed_s = now_s - self._started_s
        return Status(self._title, elapsed_s, self._snapshot, self._pace.rate, self._pace.left_s)

    def _attempt(self, action: Callable[..., None], *arguments: Any) -> None:
        try:
            action(*arguments)
        except DISPLAY_FAILURES:
            display, self._display = self._display, Display()
            with contextlib.suppress(*DISPLAY_FAILURES):
                display.finish(None)
            logger.debug("The progress line cannot be shown any more.", exc_info=True)
