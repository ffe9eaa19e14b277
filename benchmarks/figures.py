"""One measured number, what was promised for it, and the table of all."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A median; without a value if it could not be measured, without a target if none is set."""

    subject: str
    name: str
    value: float | None = None
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    quartiles: tuple[float, float] | None = None
    num_samples: int = 0
    note: str = ""

    @classmethod
    def from_samples(
        cls,
        subject: str,
        name: str,
        samples: Sequence[float],
        **rest: object,
    ) -> "Figure":
        """Make the figure of the median of samples."""
        low, middle, high = (
            statistics.quantiles(samples, n=4, method="inclusive")
            if len(samples) > 1
            else samples * 3
        )
        return cls(
            subject,
            name,
            middle,
            quartiles=(low, high),
            num_samples=len(samples),
            **rest,  # type: ignore[arg-type]
        )

    @property
    def is_met(self) -> bool | None:
        """Tell whether the target is met; None if there is none, or no value."""
        if self.value is None:
            return None
        if self.at_most is not None:
            return self.value <= self.at_most
        if self.at_least is not None:
            return self.value >= self.at_least
        return None

    def cells(self) -> list[str]:
        """Return what stands in a row of the table."""
        target = ""
        if self.at_most is not None:
            target = f"at most {_render(self.at_most, self.unit)}"
        if self.at_least is not None:
            target = f"at least {_render(self.at_least, self.unit)}"
        spread = ""
        if self.quartiles is not None:
            low, high = (_render(value, self.unit) for value in self.quartiles)
            spread = f"{low} - {high}"
        value = "-" if self.value is None else _render(self.value, self.unit)
        met = {None: "", True: "yes", False: "NO"}[self.is_met]
        return [self.subject, self.name, value, spread, target, met, self.note]


HEADER = ["subject", "what", "median", "quartiles", "target", "met", "note"]


def _render(value: float, unit: str) -> str:
    if unit == "x":
        return f"{value:.3f}x" if value < 2 else f"{value:.1f}x"
    return f"{value:.3f} {unit}" if unit == "s" else f"{value:,.1f} {unit}".rstrip()


def print_table(figures: Sequence[Figure]) -> None:
    """Print all figures, with rich if it is there."""
    rows = [figure.cells() for figure in figures]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
        for row in (HEADER, *rows):
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(*HEADER)
    for row in rows:
        style = {"NO": "red", "yes": "green"}.get(row[5])
        table.add_row(*row, style=style)
    console = Console()
    console.print(table) if console.is_terminal else Console(width=180).print(table)
