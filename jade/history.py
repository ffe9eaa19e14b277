"""Read the metrics that a run has logged, also while it is logging them."""

import csv
import io
from pathlib import Path

ITERATION = "iteration"


def load_history(path: Path) -> list[dict[str, float]]:
    """Load a table of metrics: one mapping per logged step, without what was not logged there.

    A row that is being written, or was never finished, is left out; no file means no rows.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    whole = text[: text.rfind("\n") + 1]
    header, *rows = [*csv.reader(io.StringIO(whole, newline=""))] or [[]]
    return [row for cells in rows if (row := _parse_row(header, cells))]


def _parse_row(header: list[str], cells: list[str]) -> dict[str, float] | None:
    try:
        # Strict: too few or too many cells are a ValueError, as is a cell without a number.
        return {name: float(cell) for name, cell in zip(header, cells, strict=True) if cell}
    except ValueError:
        return None
