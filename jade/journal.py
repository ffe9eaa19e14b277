"""Gather what is logged at a step: each name once, in one row."""

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from jade.errors import TrainingError, suggest
from jade.loggers.base import Logger
from jade.schedule import Clock
from jade.seeding import isolated_rng

# Columns that the journal itself writes.
OWN_NAMES = ("iteration", "epoch")


class Journal:
    """Hands the metrics of a step to the loggers, and remembers the latest value of each.

    Args:
        loggers: Where metrics go.
        evaluations: The names of the evaluations; loss items must have others.
        shields_rng: Whether to keep random numbers from loggers, which may be anybody's code.
    """

    def __init__(
        self, loggers: Logger, evaluations: Iterable[str], *, shields_rng: bool = False
    ) -> None:
        self.latest: dict[str, float] = {}
        self.latest_evaluations: dict[str, float] = {}
        self._loggers = loggers
        self._evaluations = frozenset(evaluations)
        self._shields_rng = shields_rng

    def log(
        self, losses: Mapping[str, float], measured: Sequence[Mapping[str, float]], clock: Clock
    ) -> dict[str, float]:
        """Log loss items and what evaluations measured as one row, and return that row."""
        evaluations: dict[str, float] = {}
        for numbers in measured:
            self._check_names(numbers, evaluations)
            evaluations.update(numbers)
        self._check_names(losses, {*self._evaluations, *self.latest_evaluations, *evaluations})
        metrics = {**losses, **evaluations}
        self.latest.update(metrics)
        self.latest_evaluations.update(evaluations)
        if metrics:
            shield = isolated_rng() if self._shields_rng else contextlib.nullcontext()
            with shield:
                self._loggers.log({"epoch": clock.epochs, **metrics}, clock.iterations)
        return metrics

    def _check_names(self, names: Iterable[str], taken: Collection[str]) -> None:
        for name in names:
            if name in taken:
                raise TrainingError(
                    f"Two things are logged under the name {name!r}: rename the loss item or the "
                    "evaluation."
                )
            if name in OWN_NAMES:
                raise TrainingError(f"Nothing can be logged as {name!r}: the loop logs that.")

    def state_dict(self) -> dict[str, Any]:
        """Return the latest values."""
        return {"latest": dict(self.latest), "evaluations": list(self.latest_evaluations)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Remember what ``state_dict`` returned."""
        self.latest = dict(state["latest"])
        self.latest_evaluations = {name: self.latest[name] for name in state["evaluations"]}

    def check_logged(self, metrics: Mapping[str, str]) -> None:
        """Raise if a metric that decides something never came: it was probably misspelt."""
        for setting, metric in metrics.items():
            if metric not in self.latest:
                raise TrainingError(
                    f"{setting}: {metric!r} was never logged.{suggest(metric, self.latest)}"
                )
