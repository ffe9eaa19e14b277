"""Gather what a test measures, and write it down: by batch, by metric, and as a whole."""

import csv
import io
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.run_dir import RunTestDir
from jade.whole_file import write_whole

ROW_HEAD = ("repetition", "seed", "evaluation", "episode", "samples")
AGGREGATES = ("mean", "min", "max", "std", "count")


@dataclass(frozen=True)
class Aggregate:
    """The values of one metric over the repetitions of a test."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        total = math.fsum(self.values) if all(map(math.isfinite, self.values)) else sum(self.values)
        return total / len(self.values)

    @property
    def std(self) -> float | None:
        """Standard deviation of a sample; a single value has none."""
        if len(self.values) < 2:
            return None
        if not all(map(math.isfinite, self.values)):
            return math.nan
        return statistics.stdev(self.values)

    def to_dict(self) -> dict[str, float | None]:
        """Return all that is said of the values."""
        return {
            "mean": self.mean,
            "min": min(self.values),
            "max": max(self.values),
            "std": self.std,
            "count": len(self.values),
        }


@dataclass
class Results:
    """What the repetitions of one test have measured so far."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=dict)

    def add_batch(
        self, head: tuple[int, int, str, int | None, int | None], metrics: Mapping[str, float]
    ) -> None:
        """Add the row of a batch, or of an evaluation that says nothing of its batches."""
        self.rows.append({**dict(zip(ROW_HEAD, head, strict=True)), **metrics})

    def add(self, metrics: Mapping[str, float]) -> None:
        """Add what an evaluation has measured as a whole."""
        for name, value in metrics.items():
            self.metrics.setdefault(name, []).append(value)

    def aggregate(self) -> dict[str, Aggregate]:
        """Return the values of each metric."""
        return {name: Aggregate(tuple(values)) for name, values in self.metrics.items()}

    def write(self, directory: RunTestDir) -> None:
        """Write both tables, each whole or not at all."""
        names = dict.fromkeys(k for row in self.rows for k in row if k not in ROW_HEAD)
        _write_table(directory.statistics, (*ROW_HEAD, *names), self.rows)
        rows = [{"metric": name, **item.to_dict()} for name, item in self.aggregate().items()]
        _write_table(directory.aggregated, ("metric", *AGGREGATES), rows)


def write_json(path: Path, values: Any) -> None:
    """Write how a test has ended, or several."""
    text = json.dumps(_finite(values), indent=1, allow_nan=False) + "\n"
    write_whole(path, text.encode())


def _write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def _finite(value: Any) -> Any:
    """Write NaN and infinity as text: JSON has no numbers for them."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
