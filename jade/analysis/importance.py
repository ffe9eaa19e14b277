"""Which parameters decide on the result, as Optuna's evaluators estimate it from the runs."""

import json
import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from jade.analysis.labels import shorten_keys
from jade.analysis.measure import Measure
from jade.analysis.run_facts import RunFacts

FEWEST_RUNS = 10
# Forests over more runs take seconds, and tell the same.
MOST_RUNS = 300
LOG_FROM = 30
NUM_TREES = 32


@dataclass(frozen=True)
class Importance:
    """Shares of parameters, the largest first, with a note on how they came about, or why not."""

    note: str
    shares: Sequence[tuple[str, float]] = ()


def estimate_importance(
    runs: Sequence[RunFacts], parameters: Sequence[str], measure: Measure | None
) -> Importance:
    """Estimate how much of the differences in a result each parameter explains."""
    if measure is None:
        return Importance("Not estimated: no run has logged anything.")
    counted = [
        run
        for run in runs
        if run.ended_well and (value := measure.of(run)) is not None and math.isfinite(value)
    ]
    axes = {key: axis for key in parameters if (axis := _Axis.of(counted, key)) is not None}
    if len(counted) < FEWEST_RUNS:
        return Importance(
            f"Not estimated: {len(counted)} runs have ended well with {measure.label}, "
            f"at least {FEWEST_RUNS} are needed."
        )
    if len(axes) < 2:
        return Importance("Not estimated: fewer than two parameters differ between these runs.")
    chosen = counted[:: max(1, math.ceil(len(counted) / MOST_RUNS))]
    try:
        method, shares = _ask_optuna(chosen, axes, measure)
    except ModuleNotFoundError as error:
        return Importance(
            f"Not estimated: the package {error.name} is not installed (pip install {error.name})."
        )
    except (ValueError, RuntimeError) as error:
        return Importance(f"Not estimated: {error}")
    labels = shorten_keys(list(parameters))
    named = sorted(((labels[key], share) for key, share in shares.items()), key=lambda s: -s[1])
    return Importance(
        f"Share of the differences in {measure.label} that each parameter explains, estimated by "
        f"Optuna ({method}) from {len(chosen)} runs. Correlated parameters share their part.",
        named,
    )


@dataclass(frozen=True)
class _Axis:
    """The values of a parameter: a range of numbers, or a choice."""

    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    choices: tuple[str, ...] = ()

    @classmethod
    def of(cls, runs: Sequence[RunFacts], key: str) -> "_Axis | None":
        """Return the axis of a parameter; None if it does not differ."""
        values = [run.config.get(key) for run in runs]
        numbers = [float(value) for value in values if _is_number(value)]
        if numbers and len(numbers) == len(values):
            low, high = min(numbers), max(numbers)
            return cls(low, high, _is_logarithmic(numbers)) if high > low else None
        choices = tuple(dict.fromkeys(map(_as_choice, values)))
        return cls(choices=choices) if len(choices) > 1 else None

    def place(self, value: Any) -> Any:
        return _as_choice(value) if self.choices else float(value)


def _is_logarithmic(numbers: Sequence[float]) -> bool:
    """Tell whether numbers over a wide range lie more evenly on a logarithmic scale."""
    low, high, middle = min(numbers), max(numbers), statistics.median_high(numbers)
    if low <= 0 or high / low < LOG_FROM:
        return False
    plain = (middle - low) / (high - low)
    logarithmic = math.log(middle / low) / math.log(high / low)
    return abs(logarithmic - 0.5) < abs(plain - 0.5)


def _is_number(value: Any) -> TypeGuard[float]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _as_choice(value: Any) -> str:
    return json.dumps(value, default=str)


def _ask_optuna(
    runs: Sequence[RunFacts], axes: dict[str, _Axis], measure: Measure
) -> tuple[str, dict[str, float]]:
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, Any] = {
        key: CategoricalDistribution(axis.choices)
        if axis.choices
        else FloatDistribution(axis.low, axis.high, log=axis.is_log)
        for key, axis in axes.items()
    }
    study = optuna.create_study(direction="maximize" if measure.mode == "max" else "minimize")
    study.add_trials(
        [
            optuna.trial.create_trial(
                params={key: axis.place(run.config.get(key)) for key, axis in axes.items()},
                distributions=distributions,
                value=measure.of(run),
            )
            for run in runs
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method, evaluator = _make_evaluator(optuna)
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return method, {key: float(share) for key, share in shares.items()}


def _make_evaluator(optuna: Any) -> tuple[str, Any]:
    """Return fANOVA, which needs scikit-learn, or else the one that needs nothing."""
    try:
        import sklearn  # noqa: F401

        return "fANOVA", optuna.importance.FanovaImportanceEvaluator(n_trees=NUM_TREES, seed=0)
    except ImportError:
        return "PED-ANOVA", optuna.importance.PedAnovaImportanceEvaluator()
