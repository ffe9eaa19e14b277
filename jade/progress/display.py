"""Show a status: a line rewritten in place, or a few plain lines."""

import functools
import itertools
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jade.progress.console import is_terminal, print_text, write_line
from jade.progress.status import Status, render_bar, render_plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

FIRST_PLAIN_LINE_S = 5.0
PLAIN_GAPS_S = (10.0, 20.0, 30.0)
LAST_PLAIN_GAP_S = 60.0
PLAIN_PERIOD_S = 1.0
LONGEST_PAUSE_S = 2.0
BAR_PERIOD_S = 0.4


class Display:
    """Where the status of a run is shown; this one shows nothing."""

    period_s = LONGEST_PAUSE_S

    def update(self, status: Status) -> None:
        """Show the status, if it is time to."""

    def note(self, text: str) -> None:
        """Show a line of text that stays."""

    def finish(self, status: Status | None) -> None:
        """Show the last status, if there is one, and let go of the terminal."""


class PlainDisplay(Display):
    """Write a line now and then, ever less often, and one at the end."""

    period_s = PLAIN_PERIOD_S

    def __init__(self, console: "Console | None" = None) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._gaps: Iterator[float] = itertools.chain(
            PLAIN_GAPS_S, itertools.repeat(LAST_PLAIN_GAP_S)
        )
        self._due_s = FIRST_PLAIN_LINE_S

    def update(self, status: Status) -> None:
        if status.elapsed_s >= self._due_s:
            self._due_s = status.elapsed_s + next(self._gaps)
            self.note(render_plain(status))

    def note(self, text: str) -> None:
        with self._lock:
            write_line(self._console, text)

    def finish(self, status: Status | None) -> None:
        if status is not None:
            self.note(render_plain(status))


class BarDisplay(Display):
    """Rewrite one line of a terminal, or one output of a notebook."""

    period_s = BAR_PERIOD_S

    def __init__(self, console: "Console", status: Status) -> None:
        from rich.live import Live

        self._console = console
        owns_streams = console.is_jupyter or (
            console.file in (sys.stdout, sys.stderr) and is_terminal(console.file)
        )
        self._live = Live(
            BarLine(status),
            console=console,
            auto_refresh=False,
            # Standard output that goes to a file or a pipe stays out of the terminal.
            redirect_stdout=owns_streams and (console.is_jupyter or is_terminal(sys.stdout)),
            redirect_stderr=owns_streams,
        )
        _restore_streams_in_forks()
        self._live.start(refresh=True)
        # A process that gets killed cannot give a hidden cursor back.
        console.show_cursor()

    def update(self, status: Status) -> None:
        self._live.update(BarLine(status), refresh=True)

    def note(self, text: str) -> None:
        print_text(self._console, text)

    def finish(self, status: Status | None) -> None:
        try:
            if status is not None:
                self._live.update(BarLine(status), refresh=self._console.is_jupyter)
        finally:
            self._live.stop()


class BarLine:
    """Let rich render a status; made of ready segments, which costs half of what its Text does."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def __rich_console__(
        self, console: "Console", options: "ConsoleOptions"
    ) -> "Iterator[Segment]":
        from rich.segment import Segment

        # A line of the full width would wrap on some terminals.
        pieces = render_bar(self._status, options.max_width - 1, ascii_only=options.ascii_only)
        for text, style in pieces:
            yield Segment(text, console.get_style(style) if style else None)


@functools.cache
def _restore_streams_in_forks() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_restore_streams)


def _restore_streams() -> None:
    """Undo the redirection in a forked process (a data worker).

    The fork may have copied the console's lock while the thread, which the copy lacks, held it.
    """
    sys.stdout = getattr(sys.stdout, "rich_proxied_file", sys.stdout)
    sys.stderr = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
