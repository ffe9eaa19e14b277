"""Take a measurement of a trainer without leaving a trace in its training."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
        self._trainer = trainer
        self._directory = directory
        self._loggers = loggers
        self._seed = seed

    def measure(self, name: str) -> dict[str, float]:
        """Run one evaluation, write what it shows, and return its numbers."""
        iteration = self._trainer.iterations
        with isolated_rng(derive(self._seed, name, iteration)):
            with self._evaluation_mode():
                result = self.evaluations[name].evaluate()
            outcome = read_outcome(name, result)
            for label, item in outcome.media.items():
                self._show(label, item, iteration)
        self.evaluated_at[name] = iteration
        return outcome.metrics

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
