"""Put together all that decides a training, and refuse what could only fail later."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jade.components import size_of
from jade.errors import ComponentError
from jade.eval import Evaluation
from jade.journal import OWN_NAMES
from jade.settings import Settings
from jade.stopping import StopRules
from jade.timetable import Timetable, make_timetable
from jade.trainer import Trainer


@dataclass(frozen=True)
class Plan:
    """All that decides a training, checked before anything of it is written down."""

    trainer: Trainer
    evaluations: Mapping[str, Evaluation]
    settings: Settings
    timetable: Timetable
    rules: StopRules
    seed: int


def make_plan(
    trainer: Trainer,
    evaluations: Mapping[str, Evaluation],
    settings: Settings,
    evaluate_every: Mapping[str, Any],
    seed: int,
) -> Plan:
    """Put together what a training needs, and refuse what could only fail later."""
    iterations_per_epoch = size_of(trainer.train_loader)
    timetable = make_timetable(settings, evaluate_every, iterations_per_epoch)
    if iterations_per_epoch == 0 and any(amount.number > 0 for amount in timetable.limits):
        dataset = getattr(trainer.train_loader, "dataset", None)
        size = f" (its dataset has {size_of(dataset)} samples)" if dataset is not None else ""
        raise ComponentError(f"The train_loader has no batches{size}: there is nothing to train.")
    for name in OWN_NAMES:
        if name in evaluations:
            raise ComponentError(f"eval.{name}: the loop itself logs {name!r}; use another name.")
    for evaluation in evaluations.values():
        evaluation.check_stored_attributes()
    timetable.check(trainer._clock)
    for unit in timetable.custom_units():
        # What decides how long training goes on has to go on with it.
        trainer.add_attribute_to_store(unit)
    return Plan(trainer, evaluations, settings, timetable, StopRules(settings), seed)
