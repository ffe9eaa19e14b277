"""Choose where a progress line goes, and write to it safely."""

import builtins
import contextlib
import importlib.util
import logging
import os
import sys
from typing import IO, TYPE_CHECKING, Any

from jade.errors import ConfigError, suggest

if TYPE_CHECKING:
    from rich.console import Console

MODES = ("off", "plain", "bar")
MODE_VARIABLE = "JADE_PROGRESS"
# rich answers a closed pipe with SystemExit, which must not end a training either.
DISPLAY_FAILURES = (Exception, SystemExit)


def open_console(mode: str | None = None) -> "Console | None":
    """Return the console on standard error that a bar is drawn on; None where there is no bar.

    rich is imported only for a bar.

    Args:
        mode: One of ``MODES``; by default ``JADE_PROGRESS``, else what standard error is.

    Raises:
        ConfigError: The mode is unknown.
    """
    forced = forced_mode(mode)
    in_ipython = hasattr(builtins, "get_ipython")
    if forced != "bar" and (forced or not (in_ipython or is_terminal(sys.stderr))):
        return None
    console = make_console(force_terminal=forced == "bar" and not in_ipython, stderr=True)
    return console if can_draw(console) else None


def make_console(*, force_terminal: bool, **options: Any) -> "Console":
    """Make a console that shows text as it is, and survives a closed pipe."""
    from rich.console import Console

    class QuietConsole(Console):
        def on_broken_pipe(self) -> None:
            # The original also points standard output to nowhere and exits.
            self.quiet = True

    # Text is shown as it is: a printed "[/x]" is no markup, a long line is the terminal's to wrap.
    forced = True if force_terminal else None
    plain: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
    return QuietConsole(force_terminal=forced, force_interactive=forced, **plain, **options)


def forced_mode(mode: str | None) -> str | None:
    """Return the mode that the argument or the environment asks for, None if neither does."""
    chosen = mode if mode is not None else os.environ.get(MODE_VARIABLE, "").strip().lower()
    if chosen and chosen not in MODES:
        source = "Progress mode" if mode is not None else f"Environment variable {MODE_VARIABLE}"
        raise ConfigError(f"{source}: no mode {chosen!r}.{suggest(chosen, MODES)}")
    return chosen or None


def is_terminal(stream: IO[str] | None) -> bool:
    """Tell whether a stream shows what is written to a person at once."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return stream is not None and stream.isatty()
    return False


def can_draw(console: "Console") -> bool:
    """Tell whether a console can rewrite a line."""
    if console.is_jupyter:
        # Without widgets rich only warns, at each refresh.
        return importlib.util.find_spec("ipywidgets") is not None
    return console.is_terminal and console.is_interactive and not console.is_dumb_terminal


def print_text(console: "Console", text: str) -> None:
    """Print text as it is, above what the console rewrites."""
    console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)


def write_line(console: "Console | None", text: str) -> None:
    """Write a plain line to the stream of a console, or to standard error."""
    stream = console.file if console is not None else sys.stderr
    if stream is not None:
        # One call, so that lines of several processes in one file stay whole.
        stream.write(f"{text}\n")
        stream.flush()


class ConsoleHandler(logging.Handler):
    """Write log records above the bar of ``console``, or as plain lines when it shows none.

    Args:
        console: That of the progress line; None stands for what standard error is at the time,
            which is right for a progress line that opened its own console.
    """

    def __init__(self, console: "Console | None" = None, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._console = console
        self._pid = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a console that is gone is no reason to raise."""
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        with contextlib.suppress(*DISPLAY_FAILURES):
            # In a forked process the console's lock may be held by a thread that is not there.
            if self._console is None or os.getpid() != self._pid or not can_draw(self._console):
                write_line(self._console, text)
            else:
                print_text(self._console, text)
