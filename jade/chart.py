"""Draw a curve in a terminal, with dots that are smaller than letters."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Point = tuple[float, float]
Dot = tuple[int, int]

BRAILLE = 0x2800
# The bit of each dot of a Braille letter, by row from above and column.
BRAILLE_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
# What stands for no dot, the upper, the lower, and both, where there is no Braille.
ASCII_LETTERS = " '.:"
LABEL_WIDTH = 10


@dataclass(frozen=True)
class Grid:
    """How many dots a letter is wide and high, and the bit of each."""

    bits: Sequence[Sequence[int]]

    @property
    def width(self) -> int:
        return len(self.bits[0])

    @property
    def height(self) -> int:
        return len(self.bits)


BRAILLE_GRID, ASCII_GRID = Grid(BRAILLE_BITS), Grid(((1,), (2,)))


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A curve through points, with labels for the ends of both axes.

    Points whose value is not finite make a gap.

    Args:
        points: Pairs of position and value, by position.
        width: Letters in a line, the labels included.
        height: Lines, the axis below not included.
        ascii_only: Whether the terminal shows nothing but ASCII.
    """

    points: Sequence[Point] = field(repr=False)
    width: int = 72
    height: int = 6
    ascii_only: bool = False

    def render(self) -> list[str]:
        """Render the chart as lines of text."""
        finite = [point for point in self.points if math.isfinite(point[1])]
        if not finite:
            return ["(no finite value)"]
        lowest, highest = min(y for _, y in finite), max(y for _, y in finite)
        first, last = finite[0][0], finite[-1][0]
        corner, bar, dash = ("+", "|", "-") if self.ascii_only else ("└", "│", "─")
        labels = {0: _number(highest), self.height - 1: _number(lowest)}
        curve = self._draw((first, last), (lowest, highest))
        lines = [
            f"{labels.get(row, ''):>{LABEL_WIDTH}} {bar}{line}".rstrip()
            for row, line in enumerate(curve)
        ]
        room = self._columns - len(_number(first)) - len(_number(last))
        below = f"{_number(first)}{' ' * max(room, 1)}{_number(last)}"
        margin = " " * (LABEL_WIDTH + 1)
        return [*lines, f"{margin}{corner}{dash * self._columns}", f"{margin} {below}"]

    @property
    def _columns(self) -> int:
        """The letters of the curve itself."""
        return max(self.width - LABEL_WIDTH - 2, 8)

    def _draw(self, x_range: tuple[float, float], y_range: tuple[float, float]) -> list[str]:
        grid = ASCII_GRID if self.ascii_only else BRAILLE_GRID
        cells = [[0] * self._columns for _ in range(self.height)]
        right, bottom = self._columns * grid.width - 1, self.height * grid.height - 1
        dots = (
            (_place(x, *x_range, right), bottom - _place(y, *y_range, bottom))
            if math.isfinite(y)
            else None
            for x, y in self.points
        )
        for x, y in _connect(dots):
            column, row = x // grid.width, y // grid.height
            cells[row][column] |= grid.bits[y % grid.height][x % grid.width]
        letter = ASCII_LETTERS.__getitem__ if self.ascii_only else _braille
        return ["".join(map(letter, row)) for row in cells]


def _place(value: float, low: float, high: float, size: int) -> int:
    """Return the dot of a value between two others; without any range, that in the middle."""
    # Halved, because the difference of two large numbers may be infinite.
    span = high / 2 - low / 2
    if span <= 0:
        return size // 2
    return min(max(round((value / 2 - low / 2) / span * size), 0), size)


def _connect(dots: Iterable[Dot | None]) -> Iterator[Dot]:
    """Yield the dots and those on the lines between them; None interrupts the line."""
    previous: Dot | None = None
    for dot in dots:
        if dot is not None and dot != previous:
            yield from _line(previous or dot, dot)
        previous = dot


def _line(start: Dot, end: Dot) -> Iterator[Dot]:
    (x0, y0), (x1, y1) = start, end
    num_steps = max(abs(x1 - x0), abs(y1 - y0), 1)
    for step in range(num_steps + 1):
        share = step / num_steps
        yield round(x0 + (x1 - x0) * share), round(y0 + (y1 - y0) * share)


def _braille(bits: int) -> str:
    return chr(BRAILLE + bits) if bits else " "


def _number(value: float) -> str:
    is_count = float(value).is_integer() and abs(value) < 1e9
    return f"{value:.0f}" if is_count else f"{value:.4g}"
