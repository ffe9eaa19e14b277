"""Hand out the points of a sweep, each to one worker, and keep what came of them."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jade.errors import ConfigError
from jade.launch.sweep_storage import SweepStorage
from jade.launch.sweep_worker import PREFIX, Attendance, Worker
from jade.sweep import Point, point_key

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

# What a trial of the study says: which point, who works at it, what came of it.
KEY, VALUES, ATTEMPT, INDEX = "key", "values", "attempt", "index"
REPETITIONS, WORKER, RESULT = "repetitions", "worker", "result"
FACTS, STOPS, REMOVED = "jade:facts", "jade:stops", "jade:removed"
MINIMIZE, MAXIMIZE = "minimize", "maximize"


@dataclass(frozen=True)
class Claim:
    """A point that this worker, and nobody else, works at.

    Attributes:
        trial_id: Of the trial in the storage.
        number: Of the trial in the study.
        repetitions: How many runs it has.
        attempt: 1, or more if earlier trials of the point have failed.
        was_left: Whether another worker has begun it.
    """

    trial_id: int
    number: int
    key: str
    values: Mapping[str, Any]
    repetitions: int = 1
    attempt: int = 1
    was_left: bool = False


@dataclass(frozen=True)
class TrialView:
    """How one point stands.

    Attributes:
        state: ``waiting``, ``running``, ``left``, ``complete``, ``pruned`` or ``fail``; ``removed``
            if the sweep file has the point no longer.
        worker: The record of the process that works at it.
        result: What the worker has said at the end: runs, reason.
    """

    number: int
    key: str
    values: Mapping[str, Any]
    state: str
    value: float | None
    worker: Mapping[str, Any] | None
    result: Mapping[str, Any]
    repetitions: int = 1


# Draws the next point of a search among those that are known; None if there is none.
Draw = Callable[["SweepStudy", "list[FrozenTrial]"], Claim | None]


class SweepStudy:
    """The trials of one sweep; every change of hands happens while nobody else may claim.

    Args:
        place: Where the study is.
        name: Of the sweep.
        goal: ``minimize`` or ``maximize``.
        worker: Who asks.
    """

    def __init__(self, place: SweepStorage, name: str, goal: str, worker: Worker) -> None:
        self.name = name
        self.goal = goal
        self.worker = worker
        self._place = place
        self._storage: Any = place.storage
        self._attendance = Attendance()
        self.study_id = self._find() if self._exists() else -1

    @property
    def storage(self) -> Any:
        """What Optuna works with."""
        return self._storage

    @property
    def exists(self) -> bool:
        return self.study_id >= 0

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self._place.speaking(), self._place.held():
            yield

    def _exists(self) -> bool:
        with self._place.speaking():
            return any(study.study_name == self.name for study in self._storage.get_all_studies())

    def _find(self) -> int:
        with self._place.speaking():
            return int(self._storage.get_study_id_from_name(self.name))

    # Opening

    def create(self, facts: Mapping[str, Any]) -> None:
        """Make the study unless it exists; one of another sweep is refused.

        Args:
            facts: What must be the same for trials to be comparable.
        """
        from optuna.study import StudyDirection

        with self._alone():
            if not self._exists():
                maximizes = self.goal == MAXIMIZE
                direction = StudyDirection.MAXIMIZE if maximizes else StudyDirection.MINIMIZE
                self.study_id = self._storage.create_new_study([direction], self.name)
                self._storage.set_study_user_attr(self.study_id, FACTS, dict(facts))
                return
            self.study_id = self._find()
        known = self.attributes().get(FACTS)
        if not isinstance(known, Mapping):
            raise ConfigError(
                f"The storage {self._place.name} has a study {self.name!r} that is no sweep of "
                "JADE. Give the sweep another name, or another --storage."
            )
        changed = [key for key in facts if known.get(key) != _plain(facts[key])]
        if changed and self._is_unused() and "goal" not in changed:
            self.set_attribute(FACTS, dict(facts))
        elif changed:
            shown = "; ".join(f"{k} was {known.get(k)!r} and is {facts[k]!r}" for k in changed)
            raise ConfigError(
                f"The storage {self._place.name} has another sweep {self.name!r}: {shown}. "
                "Results of both could not be compared. Give this one another --name."
            )

    def _is_unused(self) -> bool:
        """Tell whether nothing has come out yet that others would be compared with."""
        with self._place.speaking():
            return not any(t.state.name in ("COMPLETE", "PRUNED") for t in self._trials())

    def attributes(self) -> Mapping[str, Any]:
        """Return what is known of the study as a whole."""
        with self._place.speaking():
            return self._attributes()

    def _attributes(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._storage.get_study_user_attrs(self.study_id)
        return found

    def _removed(self, attributes: Mapping[str, Any]) -> set[str]:
        return set(attributes.get(REMOVED) or ())

    def set_attribute(self, key: str, value: Any) -> None:
        """Tell all workers something."""
        with self._alone():
            self._storage.set_study_user_attr(self.study_id, key, value)

    # Points

    def add_points(self, points: Iterable[Point], repetitions: int = 1) -> int:
        """Add those points of a grid that are not known yet; return how many these are.

        A point that is to be repeated more often than before waits again: runs that it has already
        are not run again. What is known and not among the points is run no more.
        """
        num_new = 0
        with self._alone():
            known = {key: trial.user_attrs for key, trial in self._newest().items()}
            removed = set(known)
            for point in points:
                key = point_key(point.values)
                removed.discard(key)
                if key in known and known[key].get(REPETITIONS, 1) >= repetitions:
                    continue
                attributes = {
                    KEY: key,
                    VALUES: dict(point.values),
                    REPETITIONS: repetitions,
                    ATTEMPT: 1,
                }
                known[key] = attributes
                num_new += 1
                self._create("WAITING", attributes)
            if removed != self._removed(self._attributes()):
                self._storage.set_study_user_attr(self.study_id, REMOVED, sorted(removed))
        return num_new

    def retry_failed(self) -> int:
        """Let points wait again whose last trial has failed; return how many these are."""
        with self._alone():
            removed = self._removed(self._attributes())
            newest = self._newest().items()
            failed = [t for key, t in newest if t.state.name == "FAIL" and key not in removed]
            for trial in sorted(failed, key=lambda trial: trial.number):
                known = trial.user_attrs
                kept = {k: known[k] for k in (KEY, VALUES, INDEX, REPETITIONS) if k in known}
                self._create("WAITING", {**kept, ATTEMPT: int(known.get(ATTEMPT, 1)) + 1})
        return len(failed)

    def claim(self, draw: Draw | None = None) -> Claim | None:
        """Take a point that waits, or was left by a worker that is gone, or a new one."""
        with self._place.speaking(), self._place.claiming():
            trials = self._trials()
            records = self._attributes()
            removed = self._removed(records)
            for trial in trials:
                key = trial.user_attrs.get(KEY)
                if key is None:
                    self._drop(trial)
                elif key in removed:
                    continue
                elif trial.state.name == "WAITING":
                    return self._take(trial, was_left=False)
                elif trial.state.name == "RUNNING" and not self._is_worked_at(trial, records):
                    return self._take(trial, was_left=True)
            return draw(self, trials) if draw is not None else None

    def adopt(self, key: str, value: float, result: Mapping[str, Any]) -> bool:
        """Let a point that waits be done by what others have done; False if it waits no more."""
        with self._alone():
            trial = self._newest().get(key)
            if trial is None or trial.state.name != "WAITING":
                return False
            claim = self._take(trial, was_left=False)
            return self._finish(claim, "COMPLETE", value, result)

    def drop_nameless(self) -> None:
        """Give up trials of which nobody says which point they are.

        Optuna makes a trial before it says what is in it; a worker that is killed in between leaves
        it so. Only while nobody else may claim.
        """
        for trial in self._trials():
            if KEY not in trial.user_attrs:
                self._drop(trial)

    def _drop(self, trial: "FrozenTrial") -> None:
        from optuna.trial import TrialState

        # One that has ended has come out as another one of its point did.
        if trial.state == TrialState.RUNNING:
            self._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)

    def create_running(self, attributes: Mapping[str, Any]) -> Claim:
        """Make a new trial that is ours; only for who draws points, while nobody else may claim."""
        trial_id = self._create("RUNNING", {**attributes, WORKER: self.worker.name})
        trial = self._storage.get_trial(trial_id)
        return _to_claim(trial, was_left=False)

    def _take(self, trial: "FrozenTrial", *, was_left: bool) -> Claim:
        from optuna.trial import TrialState

        trial_id = trial._trial_id
        if not was_left:
            self._storage.set_trial_state_values(trial_id, TrialState.RUNNING)
        self._storage.set_trial_user_attr(trial_id, WORKER, self.worker.name)
        return _to_claim(trial, was_left=was_left)

    def _is_worked_at(self, trial: "FrozenTrial", records: Mapping[str, Any]) -> bool:
        name = trial.user_attrs.get(WORKER)
        # One without a worker was left on purpose, or its worker was killed in the act.
        return bool(name) and self._is_there(str(name), records)

    def _is_there(self, name: str, records: Mapping[str, Any]) -> bool:
        if name == self.worker.name:
            return True
        record = records.get(PREFIX + name)
        if record and self.worker.has_replaced(name, record):
            return False
        return self._attendance.is_alive(name, record)

    # Ends

    def release(self, claim: Claim) -> None:
        """Leave a point for others, or for later."""
        with self._alone():
            if self._is_ours(claim):
                self._storage.set_trial_user_attr(claim.trial_id, WORKER, None)

    def finish(
        self, claim: Claim, state: str, value: float | None, result: Mapping[str, Any]
    ) -> bool:
        """Put on record what came of a point; False if it is not ours any more.

        Args:
            claim: The point.
            state: ``COMPLETE``, ``PRUNED`` or ``FAIL``.
            value: The objective, if there is one.
            result: All else.
        """
        with self._alone():
            return self._finish(claim, state, value, result)

    def _finish(
        self, claim: Claim, state: str, value: float | None, result: Mapping[str, Any]
    ) -> bool:
        from optuna.trial import TrialState

        if not self._is_ours(claim):
            return False
        self._storage.set_trial_user_attr(claim.trial_id, RESULT, dict(result))
        values = None if value is None else [value]
        self._storage.set_trial_state_values(claim.trial_id, TrialState[state], values)
        return True

    def _is_ours(self, claim: Claim) -> bool:
        trial = self._storage.get_trial(claim.trial_id)
        worker: str | None = trial.user_attrs.get(WORKER)
        return bool(trial.state.name == "RUNNING") and worker == self.worker.name

    def report(self, claim: Claim, step: int, value: float) -> list[float]:
        """Put on record how good a trial is at a step; return how good all are there."""
        with self._alone():
            if self._is_ours(claim):
                self._storage.set_trial_intermediate_value(claim.trial_id, step, value)
            trials = self._trials()
        return [t.intermediate_values[step] for t in trials if step in t.intermediate_values]

    # Workers

    def hurry(self) -> None:
        """Wait for others only for a moment from now on: somebody wants to leave."""
        self._place.hurry()

    def beat(self, *, has_ended: bool = False) -> None:
        """Say that this worker is alive, or that it goes."""
        record = self.worker.record(has_ended=has_ended)
        with self._alone():
            self._storage.set_study_user_attr(self.study_id, PREFIX + self.worker.name, record)

    def workers(self) -> dict[str, Mapping[str, Any]]:
        """Return the workers that are at work, with what is known of them."""
        records = self.attributes()
        return {
            key.removeprefix(PREFIX): record
            for key, record in records.items()
            if key.startswith(PREFIX)
            and self._is_there(key.removeprefix(PREFIX), records)
            # This process may only want to look.
            and record
        }

    # Views

    def views(self) -> list[TrialView]:
        """Return how each point stands: its newest trial, in the order of the points."""
        with self._place.speaking():
            newest = self._newest()
            records = self._attributes()
        removed = self._removed(records)
        return [self._view(trial, records, removed) for trial in newest.values()]

    def best_value(self) -> float | None:
        """Return the best value that a point of the sweep has come to; None if there is none."""
        values = [view.value for view in self.views() if view.value is not None]
        choose = max if self.goal == MAXIMIZE else min
        return choose(values) if values else None

    def _view(
        self, trial: "FrozenTrial", records: Mapping[str, Any], removed: set[str]
    ) -> TrialView:
        known, state = trial.user_attrs, trial.state.name.lower()
        if known[KEY] in removed:
            state = "removed"
        elif state == "running" and not self._is_worked_at(trial, records):
            state = "left"
        worker = known.get(WORKER)
        return TrialView(
            number=trial.number,
            key=str(known.get(KEY)),
            values=known.get(VALUES) or {},
            state=state,
            value=trial.value if state == "complete" else None,
            worker=records.get(PREFIX + worker) if worker else None,
            result=known.get(RESULT) or {},
            repetitions=int(known.get(REPETITIONS, 1)),
        )

    def _newest(self) -> "dict[str, FrozenTrial]":
        """Return the last trial of each point, in the order of the points."""
        newest: dict[str, FrozenTrial] = {}
        for trial in self._trials():
            if KEY in trial.user_attrs:
                newest[trial.user_attrs[KEY]] = trial
        return newest

    def _trials(self) -> "list[FrozenTrial]":
        found: list[FrozenTrial] = self._storage.get_all_trials(self.study_id, deepcopy=False)
        return found

    def _create(self, state: str, attributes: Mapping[str, Any]) -> int:
        from optuna.trial import TrialState, create_trial

        template = create_trial(state=TrialState[state], user_attrs=dict(attributes))
        return int(self._storage.create_new_trial(self.study_id, template))


def _to_claim(trial: "FrozenTrial", *, was_left: bool) -> Claim:
    known = trial.user_attrs
    return Claim(
        trial_id=trial._trial_id,
        number=trial.number,
        key=known[KEY],
        values=known[VALUES],
        repetitions=int(known.get(REPETITIONS, 1)),
        attempt=int(known.get(ATTEMPT, 1)),
        was_left=was_left,
    )


def _plain(value: Any) -> Any:
    """Return what a storage makes of a value: tuples become lists."""
    return json.loads(json.dumps(value))
