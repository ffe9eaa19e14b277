"""What a run does how often, and how much of it there is to do."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jade.schedule import (
    EPOCHS,
    ITERATIONS,
    SECONDS,
    Amount,
    Clock,
    Schedule,
    in_iterations,
    parse_amount,
)
from jade.settings import Settings


@dataclass
class Timetable:
    """The schedules of a run, and the amounts after which it ends."""

    log: Schedule
    evaluations: dict[str, Schedule]
    checkpoint: Schedule | None
    backup: Schedule | None
    limits: list[Amount]

    def schedules(self) -> Iterator[Schedule]:
        """Yield all schedules."""
        yield self.log
        yield from self.evaluations.values()
        yield from (item for item in (self.checkpoint, self.backup) if item is not None)

    def check(self, clock: Clock) -> None:
        """Raise if a unit is neither known nor a counter of the trainer."""
        for amount in (*self.limits, *(schedule.every for schedule in self.schedules())):
            clock.read(amount.unit)

    def custom_units(self) -> set[str]:
        """Name the counters of the trainer that decide something."""
        return {unit for unit, _ in self._pending() if unit not in (ITERATIONS, EPOCHS, SECONDS)}

    def due_evaluations(self, clock: Clock) -> list[str]:
        """Name the evaluations whose time has come."""
        return [name for name, schedule in self.evaluations.items() if schedule.is_due(clock)]

    def reached_limit(self, clock: Clock) -> Amount | None:
        """Return the amount after which training ends, once it is done."""
        done = (limit for limit in self.limits if clock.read(limit.unit) >= limit.number)
        return next(done, None)

    def next_iteration(self, clock: Clock) -> float:
        """Return the iteration at which something is due next, as far as iterations decide."""
        next_due = math.inf
        for unit, at in self._pending():
            if unit == ITERATIONS:
                next_due = min(next_due, at)
            elif unit not in (SECONDS, EPOCHS):
                # A counter of the trainer can change in any step.
                next_due = min(next_due, clock.iterations + 1)
        return next_due

    def next_second(self) -> float | None:
        """Return the second of training at which something is due next."""
        return min((at for unit, at in self._pending() if unit == SECONDS), default=None)

    def _pending(self) -> list[tuple[str, float]]:
        due = [(schedule.every.unit, schedule.next_at) for schedule in self.schedules()]
        return due + [(limit.unit, limit.number) for limit in self.limits]

    def fraction_done(self, clock: Clock, iterations_per_epoch: int | None) -> float | None:
        """Return the share of the training that is done, by the limit that is nearest."""
        fractions = []
        for limit in self.limits:
            done = clock.read(limit.unit)
            if limit.unit == EPOCHS and iterations_per_epoch:
                done = clock.iterations / iterations_per_epoch
            fractions.append(done / limit.number if limit.number else 1.0)
        return min(1.0, max(fractions)) if fractions else None

    def state_dict(self) -> dict[str, Any]:
        """Return when each schedule is due next."""
        return {
            "log": self.log.state_dict(),
            "evaluations": {name: item.state_dict() for name, item in self.evaluations.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any], clock: Clock) -> None:
        """Go on with schedules where they stood; those that are new or other begin from now."""
        for schedule in self.schedules():
            schedule.advance(clock)
        self.log.load_state_dict(state["log"])
        for name, schedule in self.evaluations.items():
            if name in state["evaluations"]:
                schedule.load_state_dict(state["evaluations"][name])


def make_timetable(
    settings: Settings, evaluate_every: Mapping[str, Any], iterations_per_epoch: int | None
) -> Timetable:
    """Read all amounts of the settings."""

    def amount(value: Any, key: str) -> Amount:
        parsed = parse_amount(value, key, zero=key in ("epochs", "train_for"))
        return in_iterations(parsed, iterations_per_epoch, key)

    def schedule(value: Any, key: str) -> Schedule | None:
        return None if value is None else Schedule(amount(value, key))

    limits = [
        amount(value, key)
        for key, value in (("epochs", settings.epochs), ("train_for", settings.train_for))
        if value is not None
    ]
    return Timetable(
        log=Schedule(amount(settings.log_loss_every, "log_loss_every")),
        evaluations={
            name: Schedule(amount(every, f"eval.{name}.evaluate_every"))
            for name, every in evaluate_every.items()
        },
        checkpoint=schedule(settings.checkpoint_every, "checkpoint_every"),
        backup=schedule(settings.backup_every, "backup_every"),
        limits=[Amount(1, ITERATIONS)] if settings.dry_run else limits,
    )
