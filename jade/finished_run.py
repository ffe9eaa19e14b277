"""A run that has ended, as Python sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.metrics_table import MetricsTable
from jade.run_dir import RunDir
from jade.trainer import Trainer


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended, and all that it left behind.

    Attributes:
        metrics: The last value of each loss item and of each number that evaluations measured.
        evaluations: The latter alone.
        best: The metric that ``best_metric`` names, its best value, and the iteration of it.
    """

    directory: Path
    status: str
    reason: str
    exit_code: int
    config: Mapping[str, Any] = field(repr=False)
    trainer: Trainer = field(repr=False)
    metrics: Mapping[str, float] = field(default_factory=dict)
    evaluations: Mapping[str, float] = field(default_factory=dict)
    best: Mapping[str, Any] | None = None
    dataset_sizes: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        """The name of the run directory, which is the run's id on W&B, too."""
        return self.directory.name

    def history(self) -> list[dict[str, float]]:
        """Read ``metrics.csv``: one mapping per logged step, without what was not logged there."""
        table = MetricsTable.load(RunDir(self.directory).metrics)
        return [{k: value for k, value in row.items() if value is not None} for row in table]

    def pictures(self) -> list[Path]:
        """List the newest picture of each evaluation."""
        return RunDir(self.directory).pictures()
