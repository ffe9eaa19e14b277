"""What a run has logged, as its directory keeps it: to be logged again where it is missing."""

from collections.abc import Collection
from pathlib import Path

from jade.loggers.base import Logger
from jade.metrics_table import STEP, MetricsTable
from jade.run_dir import RunDir
from jade.saved_media import SavedMedia, list_media


class SavedLog:
    """The rows of metrics and the media of a run.

    Args:
        directory: Of the run.
    """

    def __init__(self, directory: Path) -> None:
        run = RunDir(directory)
        rows = MetricsTable.load(run.metrics).records()
        self._rows = {int(row.pop(STEP)): row for row in rows if STEP in row}
        self._media = list_media(run)

    @property
    def steps(self) -> list[int]:
        """The steps at which something was logged, in order."""
        return sorted({*self._rows, *(item.step for item in self._media)})

    def replay(self, destination: Logger, steps: Collection[int]) -> int:
        """Log again what was logged at these steps, and return how many media there were."""
        by_step: dict[int, list[SavedMedia]] = {step: [] for step in sorted(steps)}
        for item in self._media:
            by_step.get(item.step, []).append(item)
        for step, media in by_step.items():
            for item in media:
                destination.log_media(item.name, item.load(), item.path, step)
            if step in self._rows:
                destination.log(self._rows[step], step)
        return sum(map(len, by_step.values()))
