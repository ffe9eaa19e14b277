"""Tell which runs of a sweep are so much worse than others that they need not go on."""

from jade.launch.sweep_runs import SweepRun
from jade.launch.sweep_study import MAXIMIZE, SweepStudy
from jade.metrics_table import MetricsTable
from jade.sweep import Sweep


class Pruning:
    """Hyperband, as W&B does it: at each bracket, only the best part of the runs goes on.

    What counts is how often the metric was logged, and its best value until then.

    Args:
        sweep: A sweep with ``early_terminate`` and a metric.
    """

    def __init__(self, sweep: Sweep) -> None:
        if sweep.early_stop is None or sweep.metric is None:
            raise AssertionError("the sweep stops nothing early")
        self._brackets = sweep.early_stop.brackets()
        self._share = 1.0 / sweep.early_stop.eta
        self._metric = sweep.metric.name
        self._sign = -1.0 if sweep.metric.goal == MAXIMIZE else 1.0
        self._sizes: dict[str, int] = {}
        self._passed: dict[str, int] = {}

    def is_hopeless(self, run: SweepRun, study: SweepStudy) -> bool:
        """Tell whether a run should end, as far as it has come since it was looked at last."""
        left = self._brackets[self._passed.get(run.run_id, 0) :]
        try:
            size = run.directory.metrics.stat().st_size
        except OSError:
            return False
        if not left or self._sizes.get(run.run_id) == size:
            return False
        logged = self._read(run)
        for bracket in left:
            if len(logged) < bracket:
                break
            best = min(self._sign * value for value in logged[:bracket])
            others = study.report(run.point.claim, bracket, self._sign * best)
            # Not before: if the storage was away, the bracket is looked at again.
            self._passed[run.run_id] = self._passed.get(run.run_id, 0) + 1
            if best > quantile([self._sign * value for value in others], self._share):
                return True
        self._sizes[run.run_id] = size
        return False

    def _read(self, run: SweepRun) -> list[float]:
        try:
            table = MetricsTable.load(run.directory.metrics)
        except OSError:
            return []
        if self._metric not in table:
            return []
        return [value for value in table[self._metric] if value is not None and value == value]


def quantile(values: list[float], share: float) -> float:
    """Return the value below which a share of the values is, between two of them if need be."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
