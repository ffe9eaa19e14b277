"""Count how trials have ended, and say it in one line each."""

import math
from collections import Counter
from collections.abc import Iterator

from jade.launch.trial import FAILED, FINISHED, IMPOSSIBLE, Trial
from jade.timespan import render_duration

ORDER = ("finished", "stopped", "preempted", "interrupted", "failed", "impossible")
MINUTE_S = 60.0


class Tally:
    """What has become of the trials so far.

    Args:
        metric: The one that the sweep is about.
        goal: ``minimize`` or ``maximize``.
    """

    def __init__(self, metric: str | None, goal: str) -> None:
        self._metric = metric
        self._sign = -1.0 if goal == "maximize" else 1.0
        self._outcomes: Counter[str] = Counter()
        self._best: tuple[float, str, str] | None = None

    def add(self, trial: Trial) -> Iterator[str]:
        """Count a trial that has ended, and yield what there is to say of it."""
        self._outcomes[trial.outcome] += 1
        result = trial.result(self._metric)
        shown = ""
        if result is not None:
            name, value = result
            shown = f"  {name}={value:.6g}"
            is_candidate = trial.outcome == FINISHED and name == self._metric
            if is_candidate and not math.isnan(value):
                rank = self._sign * value
                if self._best is None or rank < self._best[0]:
                    self._best = (rank, f"{name}={value:.6g}", trial.run_id)
        outcome = f"{trial.outcome} ({trial.cause})" if trial.code else trial.outcome
        yield (
            f"{trial.run_id}  {trial.describe_values()}  "
            f"{_render(trial.duration_s)}{shown}  {outcome}"
        )
        if trial.is_failure:
            yield from (f"    {line}" for line in trial.tail())
            yield f"    (all of its output: {trial.console})"

    def summary(self, seconds: float) -> str:
        """Say in one line what came of all trials."""
        total = sum(self._outcomes.values())
        parts = [f"{self._outcomes[name]} {name}" for name in ORDER if self._outcomes[name]]
        best = f"; best {self._best[1]} ({self._best[2]})" if self._best else ""
        what = f": {', '.join(parts)}" if parts else ""
        noun = "trial" if total == 1 else "trials"
        return f"{total} {noun} in {_render(seconds)}{what}{best}"

    @property
    def has_only_failures(self) -> bool:
        """Whether trials have failed, and none has come to anything else."""
        failed = self._outcomes[FAILED] + self._outcomes[IMPOSSIBLE]
        return 0 < failed == sum(self._outcomes.values())


def _render(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < MINUTE_S else render_duration(seconds)
