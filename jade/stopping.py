"""Decide by metrics when training ends and which state is the best, and say why."""

import contextlib
import logging
import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jade.errors import ConfigError
from jade.settings import Settings

logger = logging.getLogger(__name__)

TEST = re.compile(r"\s*(?P<metric>.+?)\s*(?P<operator><=|>=|<|>)\s*(?P<value>\S+)\s*")
OPERATORS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class Threshold:
    """Something like ``Accuracy >= 0.99``."""

    metric: str
    symbol: str
    value: float

    def __str__(self) -> str:
        return f"{self.metric} {self.symbol} {self.value:.15g}"

    def is_met(self, metrics: Mapping[str, float]) -> bool:
        """Tell whether the metric is there and passes the value."""
        return self.metric in metrics and bool(
            OPERATORS[self.symbol](metrics[self.metric], self.value)
        )


def parse_threshold(text: str) -> Threshold:
    """Parse a metric, a comparison and a number."""
    match = TEST.fullmatch(text)
    try:
        if match is None or math.isnan(float(match["value"])):
            raise ValueError(text)
        return Threshold(match["metric"], match["operator"], float(match["value"]))
    except ValueError as error:
        raise ConfigError(
            f"stop_when: {text!r} is not a test. Write a metric, <, <=, > or >=, and a number: "
            "'Accuracy >= 0.99'."
        ) from error


def decisive_metrics(settings: Settings) -> dict[str, str]:
    """Return the metrics that decide something, by the setting that names them."""
    named = {"best_metric": settings.best_metric} if settings.best_metric else {}
    # What is no test has been complained of, or will be.
    with contextlib.suppress(ConfigError):
        if settings.stop_when:
            named["stop_when"] = parse_threshold(settings.stop_when).metric
    return named


class Best:
    """The best value of a metric so far, and for how many evaluations nothing was better."""

    def __init__(self, metric: str, mode: str, min_delta: float = 0.0) -> None:
        self.metric = metric
        self.mode = mode
        self.value: float | None = None
        self.iteration: int | None = None
        self.num_without_improvement = 0
        self._sign = 1.0 if mode == "min" else -1.0
        self._min_delta = min_delta
        self._reference: float | None = None

    def update(self, metrics: Mapping[str, float], iteration: int) -> bool:
        """Take in new metrics; tell whether they hold a new best value. NaN is never the best."""
        value = metrics.get(self.metric)
        if value is None:
            return False
        self.num_without_improvement += 1
        if math.isnan(value):
            return False
        if self._reference is None or self._is_better(value, self._reference, self._min_delta):
            self._reference = value
            self.num_without_improvement = 0
        if self.value is not None and not self._is_better(value, self.value, 0.0):
            return False
        self.value, self.iteration = value, iteration
        return True

    def _is_better(self, value: float, other: float, delta: float) -> bool:
        return self._sign * (other - value) > delta

    def summary(self) -> dict[str, Any] | None:
        """Return the best value and where it was, if there is one."""
        if self.value is None:
            return None
        return {
            "metric": self.metric,
            "value": self.value,
            "iteration": self.iteration,
            "mode": self.mode,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next update needs."""
        return {
            "metric": self.metric,
            "mode": self.mode,
            "value": self.value,
            "iteration": self.iteration,
            "num_without_improvement": self.num_without_improvement,
            "reference": self._reference,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state_dict`` was taken; what was best by another metric means nothing."""
        if (state["metric"], state["mode"]) != (self.metric, self.mode):
            logger.warning(
                "The best %s (%s) is not looked for any more; %s (%s) begins anew.",
                state["metric"],
                state["mode"],
                self.metric,
                self.mode,
            )
            return
        self.value, self.iteration = state["value"], state["iteration"]
        self.num_without_improvement = state["num_without_improvement"]
        self._reference = state["reference"]


class StopRules:
    """What the settings say about ending by a metric: a threshold, and patience with the best."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.threshold = parse_threshold(settings.stop_when) if settings.stop_when else None
        self.best: Best | None = None
        if settings.best_metric:
            self.best = Best(settings.best_metric, settings.best_mode, settings.min_delta)
        if settings.patience is not None and settings.patience < 1:
            raise ConfigError(f"patience must be at least 1, got {settings.patience}.")
        self._patience = settings.patience

    def find_reason(self, metrics: Mapping[str, float]) -> str | None:
        """Return why training should end now that these metrics are there, or None."""
        if self.threshold is not None and self.threshold.is_met(metrics):
            return f"converged: {self.threshold}"
        if self.best is not None and self._patience is not None:
            stale = self.best.num_without_improvement
            if stale >= self._patience:
                return f"no improvement of {self.best.metric} in {stale} evaluations"
        return None

    def metrics(self) -> dict[str, str]:
        """Return the metrics that decide something, by the setting that names them."""
        return decisive_metrics(self._settings)
