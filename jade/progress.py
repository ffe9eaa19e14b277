"""Draw one progress line per run, by a thread that reads a snapshot of the training loop.

On a terminal and in a notebook the line is rewritten in place; anywhere else (log files, SLURM) a
few plain lines are written. Progress goes to standard error and leaves standard output to results.
While the bar is up, what is printed goes above it; so does what ``ProgressLine.note`` and loggers
with a ``ConsoleHandler`` write (an ordinary handler keeps the stream of before, and garbles it).
"""

import builtins
import contextlib
import functools
import importlib.util
import itertools
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from jade.errors import ConfigError, suggest

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

MODES = ("off", "plain", "bar")
MODE_VARIABLE = "JADE_PROGRESS"
TRAINING = "training"

BAR_PERIOD_S = 0.4
PLAIN_PERIOD_S = 1.0
# What drawing may take of one core: after a costly refresh the thread pauses for longer.
MAX_CPU_SHARE = 0.003
LONGEST_PAUSE_S = 2.0
JOIN_TIMEOUT_S = 2.0

RATE_WINDOW_S = 10.0
RATE_WINDOW_ITERATIONS = 10
FIRST_PLAIN_LINE_S = 5.0
PLAIN_GAPS_S = (10.0, 20.0, 30.0)
LAST_PLAIN_GAP_S = 60.0
PLAIN_WIDTH = 160

# rich answers a closed pipe with SystemExit, which must not end a training either.
DISPLAY_FAILURES = (Exception, SystemExit)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """What the training loop says of itself at one moment.

    Attributes:
        fraction: The share of the training amount that is done; None for endless training.
        losses: The latest value of each loss item.
        phase: "training", or what the loop does instead, such as "writing checkpoint".
    """

    iteration: int
    epoch: int
    fraction: float | None
    losses: Mapping[str, float]
    phase: str
    total_epochs: int | None = None


@dataclass(frozen=True)
class Status:
    """All that a progress line shows; ``snapshot`` is None until the loop could be read once."""

    title: str
    elapsed_s: float
    snapshot: Snapshot | None = None
    rate: float | None = None
    left_s: float | None = None


class Pace:
    """Measure how fast training goes, from the snapshots taken of it and their times."""

    def __init__(self) -> None:
        self._last: tuple[float, Snapshot] | None = None
        self._window: deque[tuple[float, int]] = deque()
        self._pending_s = 0.0
        self._num_advances = 0
        self._anchor: tuple[float, float] | None = None

    def add(self, time_s: float, snapshot: Snapshot) -> None:
        """Take in the snapshot that was read at ``time_s``."""
        last, self._last = self._last, (time_s, snapshot)
        if last is None:
            return
        # An interval counts as what it began as: over many intervals the two errors, at the
        # beginning and at the end of an evaluation, cancel.
        if last[1].phase == TRAINING:
            self._pending_s += time_s - last[0]
        num_iterations = snapshot.iteration - last[1].iteration
        if num_iterations > 0:
            self._advance(num_iterations)

    @property
    def rate(self) -> float | None:
        """Iterations per second of training, lately; None until it is known."""
        duration_s = sum(entry[0] for entry in self._window)
        num_iterations = sum(entry[1] for entry in self._window)
        return num_iterations / duration_s if duration_s > 0 else None

    @property
    def left_s(self) -> float | None:
        """Seconds until the training amount is done, evaluations included; None if unknown."""
        if self._last is None or self._anchor is None:
            return None
        time_s, snapshot = self._last
        anchor_s, anchor_fraction = self._anchor
        if snapshot.fraction is None or snapshot.fraction <= anchor_fraction:
            return None
        per_fraction_s = (time_s - anchor_s) / (snapshot.fraction - anchor_fraction)
        return max(0.0, 1.0 - snapshot.fraction) * per_fraction_s

    def _advance(self, num_iterations: int) -> None:
        self._num_advances += 1
        if self._num_advances == 1:
            self._set_anchor()
        elif self._num_advances == 2:
            # The first interval holds the warm-up, or the jump to where a checkpoint left off.
            self._window.clear()
        self._window.append((self._pending_s, num_iterations))
        self._pending_s = 0.0
        while self._is_longer_than_needed():
            self._window.popleft()

    def _is_longer_than_needed(self) -> bool:
        rest = list(itertools.islice(self._window, 1, None))
        return (
            sum(entry[0] for entry in rest) >= RATE_WINDOW_S
            and sum(entry[1] for entry in rest) >= RATE_WINDOW_ITERATIONS
        )

    def _set_anchor(self) -> None:
        if self._last is not None and self._last[1].fraction is not None:
            self._anchor = (self._last[0], self._last[1].fraction)


def render_plain(status: Status, width: int = PLAIN_WIDTH) -> str:
    """Render the status as one line of text for a log file, at most ``width`` long."""
    head = f"{_one_line(status.title)}: {', '.join(_facts(status))}"
    losses = _fit_losses(status, width - len(head), separator=", ", ellipsis="...")
    return _cut(head + losses, width, "...")


def render_bar(status: Status, width: int, *, ascii_only: bool = False) -> list[tuple[str, str]]:
    """Render the status as pieces of one line (text and style) that together fit ``width``.

    The losses give way first, then the end of the other facts.
    """
    ellipsis = "..." if ascii_only else "…"
    title = _cut(_one_line(status.title), max(width // 4, 8), ellipsis)
    facts = "  ".join(_facts(status))
    pieces = [(title, "bold"), *_bar(status, width // 8, ascii_only=ascii_only)]
    room = width - sum(len(text) for text, _ in pieces) - 1
    facts = _cut(facts, max(room, 0), ellipsis)
    losses = _fit_losses(status, room - len(facts), separator="  ", ellipsis=ellipsis)
    return [*pieces, (f" {facts}", ""), (losses, "cyan")]


def _bar(status: Status, width: int, *, ascii_only: bool) -> list[tuple[str, str]]:
    if status.snapshot is None or status.snapshot.fraction is None or width < 5:
        return []
    width = min(width, 20)
    num_full = _floor_share(status.snapshot.fraction, width)
    full, empty = ("#", "-") if ascii_only else ("━", "─")
    return [(f" {full * num_full}", "green"), (empty * (width - num_full), "bright_black")]


def _floor_share(fraction: float, whole: int) -> int:
    """Return the part of ``whole``, rounded down: a full bar means that training is done."""
    # The smallest trifle more, because 0.29 * 100 is 28.999...
    return int(min(max(0.0, fraction), 1.0) * whole + 1e-9)


def _facts(status: Status) -> list[str]:
    """List what is worth knowing, the losses apart."""
    snapshot = status.snapshot
    if snapshot is None:
        return ["starting", _duration(status.elapsed_s)]
    facts = []
    if snapshot.fraction is not None:
        facts.append(f"{_floor_share(snapshot.fraction, 100)}%")
    total = "" if snapshot.total_epochs is None else f"/{snapshot.total_epochs}"
    facts += [f"epoch {snapshot.epoch}{total}", f"it {snapshot.iteration:,}"]
    if status.rate is not None:
        facts.append(_rate(status.rate))
    left = f" ({_duration(status.left_s)} left)" if status.left_s else ""
    facts.append(_duration(status.elapsed_s) + left)
    if snapshot.phase != TRAINING:
        facts.append(_one_line(snapshot.phase))
    return facts


def _fit_losses(status: Status, room: int, *, separator: str, ellipsis: str) -> str:
    """Render as many losses as fit, each with the separator before it, then the ellipsis."""
    losses = status.snapshot.losses if status.snapshot is not None else {}
    shown = ""
    for position, (name, value) in enumerate(losses.items(), start=1):
        item = f"{separator}{_one_line(name)} {_number(value)}"
        # Whoever is not the last must leave room to say that there are more.
        reserve = len(separator + ellipsis) if position < len(losses) else 0
        if len(shown + item) + reserve > room:
            return shown + separator + ellipsis if room >= len(shown + separator + ellipsis) else ""
        shown += item
    return shown


def _number(value: float) -> str:
    try:
        return f"{value:.4g}"
    except (TypeError, ValueError):
        return _one_line(str(value))


def _rate(rate: float) -> str:
    value, unit = (rate, "it/s") if rate >= 1 else (1 / rate, "s/it")
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _duration(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour}h"
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


def _one_line(text: str) -> str:
    """Replace what would break the line or steer the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _cut(text: str, width: int, ellipsis: str) -> str:
    if len(text) <= width:
        return text
    return (text[: max(width - len(ellipsis), 0)] + ellipsis)[:width]


def open_console(mode: str | None = None) -> "Console | None":
    """Return the console on standard error that a bar is drawn on; None where there is no bar.

    rich is imported only for a bar.

    Args:
        mode: One of ``MODES``; by default ``JADE_PROGRESS``, else what standard error is.

    Raises:
        ConfigError: The mode is unknown.
    """
    forced = _forced_mode(mode)
    in_ipython = hasattr(builtins, "get_ipython")
    if forced != "bar" and (forced or not (in_ipython or _is_terminal(sys.stderr))):
        return None
    console = _make_console(force_terminal=forced == "bar" and not in_ipython, stderr=True)
    return console if _can_draw(console) else None


def _make_console(*, force_terminal: bool, **options: Any) -> "Console":
    from rich.console import Console

    class QuietConsole(Console):
        def on_broken_pipe(self) -> None:
            # The original also points standard output to nowhere and exits.
            self.quiet = True

    # Text is shown as it is: a printed "[/x]" is no markup, a long line is the terminal's to wrap.
    forced = True if force_terminal else None
    plain: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
    return QuietConsole(force_terminal=forced, force_interactive=forced, **plain, **options)


def _forced_mode(mode: str | None) -> str | None:
    """Return the mode that the argument or the environment asks for, None if neither does."""
    chosen = mode if mode is not None else os.environ.get(MODE_VARIABLE, "").strip().lower()
    if chosen and chosen not in MODES:
        source = "Progress mode" if mode is not None else f"Environment variable {MODE_VARIABLE}"
        raise ConfigError(f"{source}: no mode {chosen!r}.{suggest(chosen, MODES)}")
    return chosen or None


def _is_terminal(stream: IO[str] | None) -> bool:
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return stream is not None and stream.isatty()
    return False


def _can_draw(console: "Console") -> bool:
    if console.is_jupyter:
        # Without widgets rich only warns, at each refresh.
        return importlib.util.find_spec("ipywidgets") is not None
    return console.is_terminal and console.is_interactive and not console.is_dumb_terminal


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
            _write_line(self._console, text)

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
            console.file in (sys.stdout, sys.stderr) and _is_terminal(console.file)
        )
        self._live = Live(
            BarLine(status),
            console=console,
            auto_refresh=False,
            # Standard output that goes to a file or a pipe stays out of the terminal.
            redirect_stdout=owns_streams and (console.is_jupyter or _is_terminal(sys.stdout)),
            redirect_stderr=owns_streams,
        )
        _restore_streams_in_forks()
        self._live.start(refresh=True)
        # A process that gets killed cannot give a hidden cursor back.
        console.show_cursor()

    def update(self, status: Status) -> None:
        self._live.update(BarLine(status), refresh=True)

    def note(self, text: str) -> None:
        _print_text(self._console, text)

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


def _print_text(console: "Console", text: str) -> None:
    console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)


def _write_line(console: "Console | None", text: str) -> None:
    stream = console.file if console is not None else sys.stderr
    if stream is not None:
        # One call, so that lines of several processes in one file stay whole.
        stream.write(f"{text}\n")
        stream.flush()


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
        self._mode = _forced_mode(mode) if enabled else "off"
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
        if self._mode == "bar" and not _can_draw(console):
            console = _make_console(force_terminal=True, file=console.file, width=console.width)
        return console if _can_draw(console) else None

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
            if self._console is None or os.getpid() != self._pid or not _can_draw(self._console):
                _write_line(self._console, text)
            else:
                _print_text(self._console, text)
