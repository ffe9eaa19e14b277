"""The training loop: steps, and now and then what is due."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from jade import checkpoint, media
from jade.batch import move
from jade.components import size_of
from jade.errors import CheckpointError, ComponentError, NonFiniteLossError, TrainingError, suggest
from jade.eval import Evaluation, read_outcome
from jade.loggers.base import Logger, LoggerGroup
from jade.progress import Snapshot
from jade.run_dir import RunDir
from jade.schedule import (
    EPOCHS,
    ITERATIONS,
    SECONDS,
    Amount,
    Schedule,
    in_iterations,
    parse_amount,
)
from jade.seeding import derive, isolated_rng, rng_state
from jade.settings import Settings
from jade.stopping import Best, Threshold, parse_threshold
from jade.trainer import Trainer

logger = logging.getLogger(__name__)


@dataclass
class Timetable:
    """What happens how often, in the units of the run."""

    log: Schedule
    evaluations: dict[str, Schedule]
    checkpoint: Schedule | None
    backup: Schedule | None
    limits: list[Amount]

    def schedules(self) -> Iterator[Schedule]:
        yield self.log
        yield from self.evaluations.values()
        yield from (item for item in (self.checkpoint, self.backup) if item is not None)


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


@dataclass
class Ending:
    """How training ended."""

    reason: str
    metrics: dict[str, float] = field(default_factory=dict)
    best: dict[str, Any] | None = None
    was_stopped: bool = False


class TrainingLoop:
    """Carries a trainer from its first step to its last.

    Between two steps one number is compared: ``next_due`` is the iteration at which something
    else has to happen. Signals, alarms and ``end_training`` set it to zero.
    """

    def __init__(
        self,
        trainer: Trainer,
        evaluations: Mapping[str, Evaluation],
        settings: Settings,
        *,
        seed: int,
        evaluate_every: Mapping[str, Any],
    ) -> None:
        self.trainer = trainer
        self.evaluations = dict(evaluations)
        self.next_due: float = 0
        self.phase = "starting"
        self.stop_requested = False
        self.on_checkpoint: Callable[[], None] = lambda: None
        self._loggers: Logger = LoggerGroup([])
        self._directory = RunDir(Path())
        self._settings = settings
        self._seed = seed
        self._clock = trainer._clock
        self._losses = trainer._losses
        self._latest: dict[str, float] = {}
        self._evaluated_at: dict[str, int] = {}
        self._started = time.monotonic()
        self._alarm: threading.Timer | None = None
        self._iterations_per_epoch = size_of(trainer.train_loader)
        self._timetable = make_timetable(settings, evaluate_every, self._iterations_per_epoch)
        self._threshold: Threshold | None = (
            parse_threshold(settings.stop_when) if settings.stop_when else None
        )
        self._best: Best | None = (
            Best(settings.best_metric, settings.best_mode, settings.min_delta)
            if settings.best_metric
            else None
        )
        self._epoch_start: dict[str, Any] = {}
        self._batch_in_epoch_base = 0
        self._reason: str | None = None
        trainer._wake = self.wake
        self._check()

    def _check(self) -> None:
        """Refuse what could only fail later."""
        if self._iterations_per_epoch == 0 and any(a.number > 0 for a in self._timetable.limits):
            dataset = getattr(self.trainer.train_loader, "dataset", None)
            size = f" (its dataset has {size_of(dataset)} samples)" if dataset is not None else ""
            raise ComponentError(
                f"The train_loader has no batches{size}: there is nothing to train."
            )
        for amount in (*self._timetable.limits, *(s.every for s in self._timetable.schedules())):
            self._clock.read(amount.unit)

    def wake(self) -> None:
        """Make the loop look at everything after the step it is in; safe from any thread."""
        self.next_due = 0

    def request_stop(self) -> None:
        """Stop after the step in hand, as a signal asks for."""
        self.stop_requested = True
        self.wake()

    # The course of training

    def run(self, directory: RunDir, loggers: Logger) -> Ending:
        """Train until a limit, a stop condition or a request; evaluate; write the last state."""
        self._directory, self._loggers = directory, loggers
        self._started = time.monotonic() - self._clock.seconds
        try:
            if self._settings.evaluate_first:
                self._log(self._evaluate(self.evaluations))
            self.phase = "training"
            self.trainer.on_start()
            self._find_reason({})
            self._plan()
            while self._reason is None:
                self._train_epoch()
        except NonFiniteLossError as error:
            self._keep_last_good_state(error)
            raise
        finally:
            self._cancel_alarm()
        return self._end()

    def _train_epoch(self) -> None:
        """Do the steps of one epoch; everything else waits until ``next_due``."""
        clock = self._clock
        train_step = self.trainer.train_step
        hook = self._overridden("on_iteration_end")
        device = self.trainer.get_device()
        is_on_cpu = device.type == "cpu"
        self._epoch_start = {"rng": rng_state(), "iteration": clock.iterations}
        iteration = clock.iterations
        for data in self.trainer.train_loader:
            train_step(data if is_on_cpu else move(data, device, non_blocking=True))
            iteration += 1
            clock.iterations = iteration
            if hook is not None:
                hook()
            if iteration >= self.next_due:
                self._do_what_is_due()
                if self._reason is not None:
                    return
        if iteration == self._epoch_start["iteration"]:
            raise TrainingError("The train_loader gave no batch in this epoch.")
        clock.epochs += 1
        self.trainer.on_epoch_end()
        self._do_what_is_due()

    def _overridden(self, hook: str) -> Callable[[], None] | None:
        """Return a hook only if the user wrote one: an empty call costs time, too."""
        is_own = getattr(type(self.trainer), hook) is not getattr(Trainer, hook)
        return getattr(self.trainer, hook) if is_own else None

    def _do_what_is_due(self) -> None:
        clock = self._clock
        clock.seconds = time.monotonic() - self._started
        metrics: dict[str, float] = {}
        if self._timetable.log.is_due(clock):
            metrics.update(self._losses.take())
            self._timetable.log.advance(clock)
        due = [n for n, schedule in self._timetable.evaluations.items() if schedule.is_due(clock)]
        if due:
            metrics = self._join(metrics, self._evaluate(due))
            for name in due:
                self._timetable.evaluations[name].advance(clock)
        self._log(metrics)
        self._find_reason(metrics)
        self._write_due_checkpoints()
        self._plan()

    def _plan(self) -> None:
        """Find the next iteration at which something is due, and set an alarm for clock times."""
        next_due = math.inf
        seconds = []
        pending = [(s.every.unit, s.next_at) for s in self._timetable.schedules()]
        pending += [(limit.unit, limit.number) for limit in self._timetable.limits]
        for unit, at in pending:
            if unit == ITERATIONS:
                next_due = min(next_due, at)
            elif unit == SECONDS:
                seconds.append(at)
            elif unit != EPOCHS:
                # A counter of the trainer can change in any step.
                next_due = min(next_due, self._clock.iterations + 1)
        self.next_due = next_due
        self._set_alarm(min(seconds, default=None))
        if self.stop_requested or self.trainer._end_reason is not None:
            # A request that came in while this was worked out must not be lost.
            self.wake()

    def _set_alarm(self, at: float | None) -> None:
        self._cancel_alarm()
        if at is not None and self._reason is None:
            delay = max(0.0, at - (time.monotonic() - self._started))
            self._alarm = threading.Timer(min(delay, threading.TIMEOUT_MAX), self.wake)
            self._alarm.daemon = True
            self._alarm.start()

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    # Reasons to stop

    def _find_reason(self, metrics: Mapping[str, float]) -> None:
        """Set the reason to stop, the most telling one first, or leave it None."""
        if self._reason is None:
            self._reason = self._condition(metrics) or self._limit()
        if self._reason is None and self.stop_requested:
            self._reason = "stopped by a signal"

    def _condition(self, metrics: Mapping[str, float]) -> str | None:
        if self.trainer._end_reason is not None:
            return self.trainer._end_reason
        if self._threshold is not None and self._threshold.is_met(metrics):
            return f"converged: {self._threshold}"
        patience = self._settings.patience
        if self._best is not None and patience is not None:
            stale = self._best.num_without_improvement
            if stale >= patience:
                return f"no improvement of {self._best.metric} in {stale} evaluations"
        return None

    def _limit(self) -> str | None:
        for limit in self._timetable.limits:
            if self._clock.read(limit.unit) >= limit.number:
                return f"{limit} done"
        return None

    def _end(self) -> Ending:
        """Flush, evaluate what was not evaluated at this step, and write the last checkpoint."""
        self.trainer.on_end()
        final = self._losses.take()
        if not self.stop_requested:
            now = self._clock.iterations
            left = [n for n in self.evaluations if self._evaluated_at.get(n) != now]
            final = self._join(final, self._evaluate(left))
        self._log(final)
        self._save(self._directory.last_checkpoint)
        self._check_metrics_were_logged()
        if self._reason is None:
            raise AssertionError("training ended without a reason")
        return Ending(
            self._reason,
            dict(self._latest),
            None if self._best is None else self._best.state_dict(),
            self.stop_requested,
        )

    def _check_metrics_were_logged(self) -> None:
        """A metric that decides something and never came was probably misspelt."""
        if self.stop_requested or self._settings.dry_run:
            return
        for key, metric in (
            ("stop_when", self._threshold.metric if self._threshold else None),
            ("best_metric", self._settings.best_metric),
        ):
            if metric is not None and metric not in self._latest:
                raise TrainingError(
                    f"{key}: {metric!r} was never logged.{suggest(metric, self._latest)}"
                )

    # Evaluations and logging

    def _evaluate(self, names: Sequence[str] | Mapping[str, Any]) -> dict[str, float]:
        """Run evaluations, write what they show, and return their numbers."""
        metrics: dict[str, float] = {}
        if not names:
            return metrics
        iteration = self._clock.iterations
        with self._evaluation_mode():
            for name in names:
                self.phase = f"evaluating {name}"
                with isolated_rng(derive(self._seed, name, iteration)):
                    outcome = read_outcome(name, self.evaluations[name].evaluate())
                metrics = self._join(metrics, outcome.metrics)
                for label, item in outcome.media.items():
                    self._show(label, item, iteration)
                self._evaluated_at[name] = iteration
        self.phase = "training"
        if self._best is not None and self._best.update(metrics, iteration):
            self._latest.update(metrics)
            self._save(self._directory.best_checkpoint)
        return metrics

    @contextmanager
    def _evaluation_mode(self) -> Iterator[None]:
        """Switch to eval mode without gradients; put back the mode that each module was in."""
        modes = [(module, module.training) for module in self.trainer.modules()]
        self.trainer.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            for module, mode in modes:
                module.training = mode

    def _show(self, label: str, item: media.Media, iteration: int) -> None:
        try:
            path = media.write(item, self._directory.evaluation(label, iteration))
        except OSError as error:
            logger.warning("What %s shows cannot be written: %s", label, error)
            return
        self._loggers.log_media(label, item, path, iteration)

    def _join(self, metrics: dict[str, float], more: Mapping[str, float]) -> dict[str, float]:
        for name in more:
            if name in metrics:
                raise TrainingError(
                    f"Two things are logged under the name {name!r}: rename the loss item or the "
                    "evaluation."
                )
        return {**metrics, **more}

    def _log(self, metrics: Mapping[str, float]) -> None:
        if metrics:
            self._latest.update(metrics)
            row = {"epoch": self._clock.epochs, **metrics}
            self._loggers.log(row, self._clock.iterations)

    # Checkpoints

    def _write_due_checkpoints(self) -> None:
        periodic, backup = self._timetable.checkpoint, self._timetable.backup
        if periodic is not None and periodic.is_due(self._clock):
            periodic.advance(self._clock)
            self._save(self._directory.checkpoint(self._clock.iterations))
            checkpoint.prune(self._directory, self._settings.keep_last)
        if backup is not None and backup.is_due(self._clock):
            backup.advance(self._clock)
            self._save(self._directory.last_checkpoint)

    def _save(self, path: Any) -> None:
        """Write a checkpoint; a disk that is full is reported, and training goes on."""
        phase, self.phase = self.phase, "writing checkpoint"
        try:
            checkpoint.save(self.state_dict(), path)
            self.on_checkpoint()
        except CheckpointError as error:
            if error.__cause__ is None:
                raise
            logger.error("%s The previous checkpoint stays.", error)
        finally:
            self.phase = phase

    def state_dict(self) -> dict[str, Any]:
        """Return everything that continuing from this step needs."""
        clock = self._clock
        clock.seconds = time.monotonic() - self._started
        in_epoch = clock.iterations - self._epoch_start.get("iteration", clock.iterations)
        loader_state = getattr(self.trainer.train_loader, "state_dict", None)
        return {
            "trainer": self.trainer.full_state(),
            "clock": {
                "iterations": clock.iterations,
                "epochs": clock.epochs,
                "seconds": clock.seconds,
            },
            "schedules": {
                "log": self._timetable.log.next_at,
                "evaluations": {n: s.next_at for n, s in self._timetable.evaluations.items()},
            },
            "loader": {
                "batches": in_epoch,
                "rng_at_epoch_start": self._epoch_start.get("rng"),
                "own": loader_state() if callable(loader_state) else None,
            },
            "evaluations": {
                name: evaluation.state_dict()
                for name, evaluation in self.evaluations.items()
                if hasattr(evaluation, "state_dict")
            },
            "evaluated_at": dict(self._evaluated_at),
            "best": None if self._best is None else self._best.state_dict(),
            "latest": dict(self._latest),
            "rng": rng_state(),
            "seed": self._seed,
        }

    def _keep_last_good_state(self, error: NonFiniteLossError) -> None:
        """Write the state before the bad step, unless that step has already spoilt it."""
        iteration = self._clock.iterations
        spoilt = [n for n, p in self.trainer.named_parameters() if not bool(p.isfinite().all())]
        if spoilt:
            kept = f"the parameter {spoilt[0]} is not finite any more, last.pt was left as it is"
        else:
            self._save(self._directory.last_checkpoint)
            kept = "last.pt holds the state before that step"
        error.args = (f"{error.args[0]} (in the step after iteration {iteration}; {kept}.)",)

    # What others read

    def snapshot(self) -> Snapshot:
        """Say how far training has come; called by the thread that draws the progress line."""
        clock = self._clock
        losses = self._losses.peek() or {
            name: value
            for name, value in dict(self._latest).items()
            if name.partition("/")[0] not in self.evaluations
        }
        return Snapshot(
            iteration=clock.iterations,
            epoch=clock.epochs,
            fraction=self._fraction(),
            losses=losses,
            phase=self.phase,
            total_epochs=self._settings.epochs,
        )

    def _fraction(self) -> float | None:
        clock, per_epoch = self._clock, self._iterations_per_epoch
        fractions = []
        for limit in self._timetable.limits:
            if limit.number == 0:
                return 1.0
            done: float | None = None
            if limit.unit == SECONDS:
                done = time.monotonic() - self._started
            elif limit.unit == EPOCHS and per_epoch:
                done = clock.iterations / per_epoch
            elif limit.unit != EPOCHS or per_epoch is None:
                done = clock.read(limit.unit)
            if done is not None:
                fractions.append(done / limit.number)
        return min(1.0, max(fractions)) if fractions else None
