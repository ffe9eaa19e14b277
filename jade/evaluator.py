"""Take a measurement of a trainer without leaving a trace in its training."""

import copy
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from jade import media
from jade.errors import ConfigError, TrainingError
from jade.eval import Evaluation, read_outcome
from jade.loggers.base import Logger
from jade.loss_window import LossWindow
from jade.run_dir import RunDir
from jade.seeding import derive, isolated_rng
from jade.trainer import Trainer

logger = logging.getLogger(__name__)


class CutShort(BaseException):
    """Raised in an evaluation by a signal handler; no ``except Exception`` of a user holds it."""


class Evaluator:
    """Runs evaluations, each with random numbers of its own, and shows what they return."""

    def __init__(
        self,
        trainer: Trainer,
        evaluations: Mapping[str, Evaluation],
        directory: RunDir,
        loggers: Logger,
        seed: int,
    ) -> None:
        self.evaluations = evaluations
        self.evaluated_at: dict[str, int] = {}
        # What kind of thing an evaluation has shown last, if it has measured no number then.
        self.without_numbers: dict[str, str | None] = {}
        self._trainer = trainer
        self._directory = directory
        self._loggers = loggers
        self._seed = seed
        self._is_measuring = False
        # The evaluation that was ended while other weights than those of training were in place.
        self.has_left_weights_changed: str | None = None

    def measure(self, name: str) -> dict[str, float] | None:
        """Run one evaluation, write what it shows, and return its numbers; None if it was cut."""
        iteration = self._trainer.iterations
        evaluation = self.evaluations[name]
        before = copy.deepcopy((evaluation.full_state(), self._trainer.dataset_states()))
        weights = self._trainer.weight_versions()
        with isolated_rng(derive(self._seed, name, iteration)), self._trainer.isolated_generators():
            try:
                with self._evaluation_mode():
                    result = self._evaluate(evaluation)
                outcome = read_outcome(name, result)
                for label, item in outcome.media.items():
                    self._show(label, item, iteration)
            except BaseException as error:
                # It is measured again when training goes on: not half of it may be remembered.
                evaluation.load_full_state(before[0])
                self._trainer.load_dataset_states(before[1])
                if self._trainer.weight_versions() != weights:
                    self.has_left_weights_changed = name
                if isinstance(error, CutShort):
                    return None
                raise
        self.evaluated_at[name] = iteration
        self.without_numbers.pop(name, None)
        if not outcome.metrics:
            kinds = [item.kind for item in outcome.media.values()]
            self.without_numbers[name] = kinds[0] if kinds else None
        return outcome.metrics

    def _evaluate(self, evaluation: Evaluation) -> Any:
        """Let an evaluation measure; a signal may end that at any moment."""
        try:
            self._is_measuring = True
            return evaluation.evaluate()
        finally:
            self._is_measuring = False

    def cut_short(self) -> None:
        """End the evaluation that is under way, if this is called by a signal handler.

        What it has measured is lost, and measured again when training goes on.
        """
        if self._is_measuring and threading.current_thread() is threading.main_thread():
            self._is_measuring = False
            raise CutShort

    def state_dict(self) -> dict[str, Any]:
        """Return when each evaluation was run last, and what it keeps itself."""
        return {
            "evaluated_at": dict(self.evaluated_at),
            "states": {name: item.full_state() for name, item in self.evaluations.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state_dict`` was taken; evaluations may have come or gone."""
        self.evaluated_at = dict(state["evaluated_at"])
        for name, evaluation in self.evaluations.items():
            if name in state["states"]:
                evaluation.load_full_state(state["states"][name])

    def left_at(self, iteration: int) -> list[str]:
        """Name the evaluations that have not been run at an iteration."""
        return [name for name in self.evaluations if self.evaluated_at.get(name) != iteration]

    @contextmanager
    def _evaluation_mode(self) -> Iterator[None]:
        """Switch to eval mode, without gradients and loss items; put back each module's mode."""
        trainer = self._trainer
        loose = [part for module in trainer.loose_modules() for part in module.modules()]
        modes = [(module, module.training) for module in (*trainer.modules(), *loose)]
        # An evaluation may well call what train_step calls: its loss items are not training's.
        losses, trainer._losses = trainer._losses, LossWindow(stop_on_nan=False)
        # Not eval(): what somebody's version of it does besides could not be undone here.
        for module, _ in modes:
            module.training = False
        try:
            with torch.no_grad():
                yield
        finally:
            trainer._losses = losses
            for module, mode in modes:
                module.training = mode

    def _show(self, label: str, item: media.Media, iteration: int) -> None:
        try:
            path = media.write(item, self._directory.evaluation(label, iteration))
        except ConfigError as error:
            raise TrainingError(f"What the evaluation {label!r} returned: {error}") from error
        except OSError as error:
            logger.warning("What %s shows cannot be written: %s", label, error)
            return
        self._loggers.log_media(label, item, path, iteration)
