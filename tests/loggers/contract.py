"""What every logger promises, as tests to inherit: write ``make`` and ``read``, and they run."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from jade.loggers import Logger, RunInfo
from jade.media import Media, write

MEDIA = (
    Media("image", np.full((8, 8), 0.5), caption="gray"),
    Media("images", np.zeros((3, 1, 4, 4))),
    Media("histogram", [1.0, 2.0, 2.0]),
    Media("table", {"columns": ["name", "n"], "rows": [["a|b", 1], [None, 2.5]]}),
    Media("text", "a < b\nc"),
    Media("audio", np.zeros((2, 80)), sample_rate=8000),
)


def run_in(directory: Path, **details) -> RunInfo:
    config = {"model": {"params": {"beta": 0.1, "path": "$DATA"}}, "seed": 3}
    return RunInfo("run1", directory, config, **details)


def read_csv(directory: Path) -> dict[int, dict[str, float]]:
    """Return the metrics of ``metrics.csv``, by step and name."""
    with (directory / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return {
            int(row.pop("iteration")): {name: float(cell) for name, cell in row.items() if cell}
            for row in csv.DictReader(file)
        }


class LoggerContract:
    """Inherit under a name that starts with Test."""

    def make(self) -> Logger:
        """Return a new logger."""
        raise NotImplementedError

    def read(self, directory: Path) -> dict[int, dict[str, float]]:
        """Return the metrics that stand in the run directory, by step and name."""
        raise NotImplementedError

    def started(self, directory: Path) -> Logger:
        logger = self.make()
        logger.start(run_in(directory))
        return logger

    def assert_read(self, directory: Path, expected: dict[int, dict[str, float]]) -> None:
        found = self.read(directory)
        assert found.keys() == expected.keys()
        for step, metrics in expected.items():
            assert found[step] == pytest.approx(metrics, rel=1e-6, nan_ok=True)

    def test_log_of_several_steps_can_be_read_back(self, tmp_path):
        logger = self.started(tmp_path)
        logger.log({"loss": 0.1, "count": 3}, step=1)
        logger.log({"loss": 1 / 3, "count": 4}, step=1000)
        logger.finish(0)
        self.assert_read(
            tmp_path, {1: {"loss": 0.1, "count": 3}, 1000: {"loss": 1 / 3, "count": 4}}
        )

    def test_log_twice_at_a_step_joins_the_metrics(self, tmp_path):
        logger = self.started(tmp_path)
        logger.log({"loss": 0.5}, step=2)
        logger.log({"accuracy": 0.25}, step=2)
        logger.log({"loss": 0.125}, step=3)
        logger.finish(0)
        self.assert_read(tmp_path, {2: {"loss": 0.5, "accuracy": 0.25}, 3: {"loss": 0.125}})

    def test_log_of_nan_and_infinity_keeps_them(self, tmp_path):
        logger = self.started(tmp_path)
        values = {"a": math.nan, "b": math.inf, "c": -math.inf}
        logger.log(values, step=0)
        logger.finish(0)
        self.assert_read(tmp_path, {0: values})

    def test_log_of_unusual_names_keeps_them(self, tmp_path):
        logger = self.started(tmp_path)
        values = {"val/loss": 1.0, "gr\u00f6\u00dfe": 2.0, "a b, c": 3.0, "x.y": 4.0}
        logger.log(values, step=5)
        logger.finish(0)
        self.assert_read(tmp_path, {5: values})

    @pytest.mark.parametrize("media", MEDIA, ids=[media.kind for media in MEDIA])
    def test_log_media_of_each_kind_leaves_the_metrics_alone(self, tmp_path, media):
        logger = self.started(tmp_path)
        logger.log({"loss": 0.5}, step=1)
        logger.log_media("val/\u00fc b", media, write(media, tmp_path / "media" / "file"), step=1)
        logger.log({"loss": 0.25}, step=2)
        logger.finish(0)
        self.assert_read(tmp_path, {1: {"loss": 0.5}, 2: {"loss": 0.25}})

    def test_log_keeps_no_hold_of_the_mapping(self, tmp_path):
        logger = self.started(tmp_path)
        metrics = {"loss": 0.5}
        logger.log(metrics, step=1)
        metrics["loss"] = 7.0
        logger.log({"other": 1.0}, step=1)
        logger.finish(0)
        assert metrics == {"loss": 7.0}
        self.assert_read(tmp_path, {1: {"loss": 0.5, "other": 1.0}})

    def test_summarize_and_mark_preempting_are_accepted(self, tmp_path):
        logger = self.started(tmp_path)
        logger.log({"loss": 0.5}, step=1)
        logger.summarize({"best/loss": 0.5, "reason": "done", "epochs": 2})
        logger.mark_preempting()
        logger.finish(75)
        self.assert_read(tmp_path, {1: {"loss": 0.5}})

    def test_finish_twice_does_no_harm(self, tmp_path):
        logger = self.started(tmp_path)
        logger.log({"loss": 0.5}, step=1)
        logger.finish(0)
        logger.finish(1)
        self.assert_read(tmp_path, {1: {"loss": 0.5}})

    def test_run_without_any_log_reads_as_empty(self, tmp_path):
        self.started(tmp_path).finish(1)
        self.assert_read(tmp_path, {})
