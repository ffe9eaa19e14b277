"""Show what a run has logged as a table: one row per step, one column per metric."""

import csv
import html
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jade.errors import ComponentError, ConfigError, suggest

STEP = "iteration"
SHOWN_ROWS = 10


class MetricsTable:
    """The rows of ``metrics.csv``; a metric that was not logged at a step is None there."""

    def __init__(self, columns: Sequence[str], rows: Sequence[dict[str, float | None]]) -> None:
        self.columns = list(columns)
        self.rows = list(rows)

    @classmethod
    def load(cls, path: Path) -> "MetricsTable":
        """Load a file; a row that is not whole or no number is left out, and no file is no row."""
        if not path.is_file():
            return cls([STEP], [])
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            # A row that is cut has no end of line, and may end within a number.
            lines = [line for line in file if line.endswith("\n")]
        header, *rows = csv.reader(lines) if lines else [[STEP]]
        return cls(header, [row for cells in rows if (row := _parse_row(header, cells))])

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, float | None]]:
        return iter(self.rows)

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def __getitem__(self, column: str) -> list[float | None]:
        """Return a column as a list, as long as the table."""
        if column not in self.columns:
            raise ConfigError(f"No metric {column!r} was logged.{suggest(column, self.columns)}")
        return [row[column] for row in self.rows]

    @property
    def last(self) -> dict[str, float]:
        """The last value of each metric."""
        latest: dict[str, float] = {}
        for row in self.rows:
            latest.update({name: value for name, value in row.items() if value is not None})
        return latest

    def to_pandas(self) -> Any:
        """Return the table as a DataFrame; pandas has to be installed."""
        try:
            import pandas as pd  # type: ignore[import-untyped, unused-ignore]
        except ModuleNotFoundError as error:
            raise ComponentError(
                "to_pandas() needs the package pandas: pip install pandas."
            ) from error
        return pd.DataFrame(self.rows, columns=self.columns)

    def __repr__(self) -> str:
        shown = [self.columns, *([_render(row[c]) for c in self.columns] for row in self._newest())]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in shown
        ]
        return "\n".join([*lines, f"[{self._size()}]"])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{_render(row[c])}</td>" for c in self.columns) + "</tr>"
            for row in self._newest()
        )
        return f"<table><tr>{head}</tr>{body}</table><p>{self._size()}</p>"

    def _newest(self) -> list[dict[str, float | None]]:
        return self.rows[-SHOWN_ROWS:]

    def _size(self) -> str:
        left_out = len(self.rows) > SHOWN_ROWS
        return f"{len(self.rows)} rows" + (f", the last {SHOWN_ROWS} shown" if left_out else "")


def _parse_row(header: list[str], cells: list[str]) -> dict[str, float | None] | None:
    try:
        # Strict: too few or too many cells are a ValueError, as is a cell without a number.
        return dict(zip(header, map(_number, cells), strict=True))
    except ValueError:
        return None


def _number(text: str) -> float | None:
    if not text:
        return None
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _render(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) or not math.isfinite(value) else f"{value:.6g}"
