"""Draw the points of a search: at random, or by what earlier ones have shown."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jade.errors import ConfigError
from jade.launch.sweep_study import INDEX, KEY, REPETITIONS, VALUES, WORKER, Claim, SweepStudy
from jade.sweep import Point, Sweep, point_key
from jade.sweep.distributions import Categorical, Constant, IntUniform, LogUniform, Uniform
from jade.sweep.local_points import axes_of, make_point
from jade.sweep.parameters import Parameter

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

# After so many points that are known already there are no others.
PATIENCE = 200
BAYES_PATIENCE = 20


@dataclass(frozen=True)
class RandomSearch:
    """Draws each point from the seed of the sweep and its own number."""

    sweep: Sweep
    cap: int | None

    def __call__(self, study: SweepStudy, trials: "list[FrozenTrial]") -> Claim | None:
        """Draw the next point that is not known yet."""
        known = {trial.user_attrs[KEY] for trial in trials if KEY in trial.user_attrs}
        if self.cap is not None and len(known) >= self.cap:
            return None
        first = 1 + max((trial.user_attrs.get(INDEX, -1) for trial in trials), default=-1)
        for index in range(first, first + PATIENCE):
            point = self.sweep.draw(index)
            key = point_key(point.values)
            if key not in known:
                return study.create_running(
                    {
                        KEY: key,
                        VALUES: dict(point.values),
                        INDEX: index,
                        REPETITIONS: self.sweep.local.repetitions,
                    }
                )
        return None


class BayesSearch:
    """Draws points where earlier ones were good: Optuna's tree-structured Parzen estimator.

    Args:
        sweep: What is searched.
        cap: How many points there are at most.
    """

    def __init__(self, sweep: Sweep, cap: int | None) -> None:
        self._sweep = sweep
        self._cap = cap
        self._axes = [_Axis(keys, chosen) for keys, chosen in _group(sweep)]

    def __call__(self, study: SweepStudy, trials: "list[FrozenTrial]") -> Claim | None:
        """Ask for a point; one that is known already counts again at once."""
        known = {t.user_attrs[KEY]: t for t in trials if KEY in t.user_attrs}
        if self._cap is not None and len(known) >= self._cap:
            return None
        first = 1 + max((trial.user_attrs.get(INDEX, -1) for trial in trials), default=-1)
        if first < len(self._sweep.local.cases):
            return RandomSearch(self._sweep, self._cap)(study, trials)
        for index in range(first, first + BAYES_PATIENCE):
            claim = self._ask(study, known, index)
            if claim is not None:
                return claim
        return None

    def _ask(
        self, study: SweepStudy, known: "Mapping[str, FrozenTrial]", index: int
    ) -> Claim | None:
        trial_id, number, params = self._suggest(study, index)
        point = self._point(params)
        key = point_key(point.values)
        storage = study.storage
        storage.set_trial_user_attr(trial_id, INDEX, index)
        if key in known:
            _repeat(storage, trial_id, known[key])
            return None
        repetitions = self._sweep.local.repetitions
        # The key comes last: a trial that has one has everything.
        attributes = {
            WORKER: study.worker.name,
            VALUES: dict(point.values),
            REPETITIONS: repetitions,
            KEY: key,
        }
        for name, value in attributes.items():
            storage.set_trial_user_attr(trial_id, name, value)
        return Claim(trial_id, number, key, dict(point.values), repetitions)

    def _suggest(self, study: SweepStudy, index: int) -> tuple[int, int, Mapping[str, Any]]:
        import optuna

        text = f"{self._sweep.local.seed}/{index}"
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        found = optuna.load_study(study_name=study.name, storage=study.storage, sampler=sampler)
        space = {axis.name: axis.distribution() for axis in self._axes if not axis.is_constant}
        try:
            trial = found.ask(space)
        except ValueError as error:
            study.drop_nameless()
            raise ConfigError(
                f"The values of the sweep have changed, and a search cannot go on with others: "
                f"{error} Give the sweep another --name."
            ) from error
        return trial._trial_id, trial.number, trial.params

    def _point(self, params: Mapping[str, Any]) -> Point:
        values: dict[str, Any] = {}
        for axis in self._axes:
            values.update(axis.values(params))
        sweep = self._sweep
        return make_point(sweep.parameters, sweep.local, values, sweep.local_origin)


class _Axis:
    """A parameter, or a group of them, as a distribution of Optuna.

    Args:
        keys: What changes together.
        chosen: The parameter, or the values that go together.
    """

    def __init__(self, keys: tuple[str, ...], chosen: Parameter | Sequence[Sequence[Any]]) -> None:
        self._keys = keys
        self._chosen = chosen
        self._lists = self._find_lists()
        self.name = ",".join(keys)

    @property
    def is_constant(self) -> bool:
        is_parameter = isinstance(self._chosen, Parameter)
        return is_parameter and isinstance(self._chosen.distribution, Constant)  # type: ignore[union-attr]

    def _find_lists(self) -> dict[str, Sequence[Any]] | None:
        """Return the values of a list by the text that Optuna knows them by."""
        if not isinstance(self._chosen, Parameter):
            return {json.dumps(items, default=str): items for items in self._chosen}
        found = self._chosen.distribution
        if isinstance(found, Categorical) and found.probabilities is None:
            return {json.dumps(value, default=str): [value] for value in found.grid() or ()}
        return None

    def distribution(self) -> "BaseDistribution":
        from optuna.distributions import (
            CategoricalDistribution,
            FloatDistribution,
            IntDistribution,
        )

        if self._lists is not None:
            return CategoricalDistribution(list(self._lists))
        found = self._chosen.distribution  # type: ignore[union-attr]
        if isinstance(found, IntUniform):
            return IntDistribution(found.low, found.high)
        if isinstance(found, (Uniform, LogUniform)) and found.q is None:
            return FloatDistribution(found.low, found.high, log=isinstance(found, LogUniform))
        # Optuna has none like it: a share of it is searched instead.
        return FloatDistribution(0.0, 1.0)

    def values(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if self._lists is not None:
            return dict(zip(self._keys, self._lists[params[self.name]], strict=True))
        found = self._chosen.distribution  # type: ignore[union-attr]
        if isinstance(found, Constant):
            return {self.name: found.value}
        value = params[self.name]
        is_range = isinstance(found, (Uniform, LogUniform)) and found.q is None
        is_itself = is_range or isinstance(found, IntUniform)
        return {self.name: value if is_itself else found.quantile(value)}


def _group(sweep: Sweep) -> list[tuple[tuple[str, ...], Any]]:
    zipped = {key for group in sweep.local.zip for key in group}
    groups: list[tuple[tuple[str, ...], Any]] = [
        *axes_of([p for p in sweep.parameters if p.key in zipped], sweep.local)
    ]
    return [*groups, *(((p.key,), p) for p in sweep.parameters if p.key not in zipped)]


def _repeat(storage: Any, trial_id: int, other: "FrozenTrial") -> None:
    """Let a trial come out as an earlier one of the same point did."""
    from optuna.trial import TrialState

    if other.state == TrialState.COMPLETE:
        storage.set_trial_state_values(trial_id, TrialState.COMPLETE, other.values)
    else:
        # Not known yet, or not worth another try.
        storage.set_trial_state_values(trial_id, TrialState.FAIL)
