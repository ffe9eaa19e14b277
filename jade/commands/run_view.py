"""What commands that show runs share: the console, colours, bars and numbers."""

import contextlib
import io
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from jade.progress.status import one_line
from jade.run_dir import FAILED, FINISHED, INTERRUPTED, PREEMPTED, RUNNING, STOPPED
from jade.runs import CRASHED, RunSummary

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

STYLES = {
    RUNNING: "cyan",
    FINISHED: "green",
    FAILED: "red",
    CRASHED: "bold red",
    PREEMPTED: "yellow",
    STOPPED: "yellow",
    INTERRUPTED: "yellow",
}
# A pipe has no width: nothing in it should be cut.
ENDLESS = 10_000
NEVER = "-"
GAP = "  "


def make_console(width: int | None = None) -> "Console":
    """Make the console that shows runs; what is not a terminal gets plain text, never cut."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal cannot show is no reason to show nothing.
        sys.stdout.reconfigure(errors="replace")
    if not sys.stdout.isatty():
        width = ENDLESS
    return Console(width=width, markup=False, emoji=False, highlight=False)


def print_lines(console: "Console", lines: "Iterable[Text]", *, cut: bool) -> None:
    """Print lines; a terminal may cut them at its width, anything else gets all of them."""
    from rich.text import Text

    if console.width == ENDLESS:
        for line in lines:
            print(line.plain.rstrip())
    else:
        overflow: Literal["crop", "ellipsis"] = "crop" if is_ascii_only(console) else "ellipsis"
        text = Text("\n").join(lines)
        console.print(text, soft_wrap=not cut, no_wrap=cut, overflow=overflow if cut else None)


def is_ascii_only(console: "Console") -> bool:
    """Tell whether a console shows no Braille, dashes and the like."""
    with contextlib.suppress(UnicodeError, LookupError):
        "⠿━─│…·".encode(console.encoding)
        return False
    return True


def render_status(status: str) -> "Text":
    """Render a status in its colour."""
    from rich.text import Text

    return Text(status, style=STYLES.get(status, ""))


def render_progress(run: RunSummary, width: int, *, ascii_only: bool) -> "Text":
    """Render how far a run is, as a bar and in percent."""
    from rich.text import Text

    if run.fraction is None or not math.isfinite(run.fraction):
        return Text(NEVER)
    share = min(max(run.fraction, 0.0), 1.0)
    # Rounded down: a full bar means that training is done. 0.29 * 100 is 28.999...
    num_full, percent = int(share * width + 1e-9), int(share * 100 + 1e-9)
    full, empty = ("#", "-") if ascii_only else ("━", "─")
    bar = ((full * num_full, STYLES.get(run.status, "")), (empty * (width - num_full), "dim"))
    return Text.assemble(*bar, f"{' ' if width else ''}{percent:3d}%")


def render_number(value: float) -> str:
    """Render a value of a metric."""
    return f"{value:.5g}"


def render_text(text: str | None) -> "Text":
    """Render what somebody wrote, on one line and without steering the terminal."""
    from rich.text import Text

    return Text(one_line(text or ""))


def columns_width(columns: "Mapping[str, Sequence[Text]]") -> int:
    """Return how wide a table of these columns is."""
    return sum(_column_width(name, cells) + len(GAP) for name, cells in columns.items())


def _column_width(name: str, cells: "Sequence[Text]") -> int:
    return max(len(name), *(cell.cell_len for cell in cells))


def align_columns(columns: "Mapping[str, Sequence[Text]]") -> "Iterator[Text]":
    """Yield the header and the rows; a table of rich takes seconds for a thousand of them."""
    from rich.text import Text

    widths = [_column_width(name, cells) for name, cells in columns.items()]
    header = [Text(name, style="bold") for name in columns]
    for row in (header, *zip(*columns.values(), strict=True)):
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            line.append_text(cell).append(" " * (width - cell.cell_len) + GAP)
        line.rstrip()
        yield line
