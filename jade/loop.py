"""The training loop: steps, and now and then what is due."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jade.alarm import Alarm
from jade.batch import move
from jade.errors import MisfitError, NonFiniteLossError, TrainingError, suggest
from jade.evaluator import Evaluator
from jade.gradients import Gradients
from jade.journal import Journal
from jade.keeper import Keeper
from jade.loggers.base import Logger
from jade.plan import Plan
from jade.position import Position
from jade.progress import TRAINING, Snapshot
from jade.publisher import Publisher
from jade.run_dir import RunDir
from jade.schedule import Clock
from jade.seeding import rng_state, set_rng_state
from jade.signals import SIGNAL
from jade.trace import open_trace
from jade.trainer import Trainer

STOPPED = f"stopped by {SIGNAL}"

logger = logging.getLogger(__name__)


@dataclass
class Ending:
    """How training ended."""

    reason: str
    metrics: dict[str, float] = field(default_factory=dict)
    evaluations: dict[str, float] = field(default_factory=dict)
    best: dict[str, Any] | None = None
    seconds: float = 0.0
    was_stopped: bool = False


class TrainingLoop:
    """Carries a trainer from its first step to its last.

    Between two steps one number is compared: ``next_due`` is the iteration at which something
    else has to happen. Signals, alarms and ``end_training`` set it to zero.
    """

    def __init__(
        self, plan: Plan, directory: RunDir, loggers: Logger, *, shields_rng: bool = False
    ) -> None:
        trainer, settings = plan.trainer, plan.settings
        self.next_due: float = 0
        self.phase = "starting"
        self.stop_requested = False
        # Whether nothing is left to do but to write down what there is.
        self.is_leaving = False
        self._trainer = trainer
        self._settings = settings
        self._timetable = plan.timetable
        self._rules = plan.rules
        self._seed = plan.seed
        self._clock = trainer._clock
        self._losses = trainer._losses
        self._started = time.monotonic()
        self._position = Position(trainer._clock, trainer.train_loader, plan.seed)
        self._reason: str | None = None
        self._has_logged_losses = False
        self._missed: set[str] = set()
        self._is_limit_reached = False
        self._has_started = False
        self._has_ended = False
        self._is_resumed = False
        self._failed_hook: str | None = None
        self._alarm = Alarm(self.wake)
        self._trace = open_trace(trainer, plan.evaluations)
        self._gradients = Gradients(trainer.trained_tensors)
        self._journal = Journal(loggers, plan.evaluations, shields_rng=shields_rng)
        self._evaluator = Evaluator(trainer, plan.evaluations, directory, loggers, plan.seed)
        self._keeper = Keeper(
            trainer,
            directory,
            self.state_dict,
            self.wake,
            keep_last=settings.keep_last,
            refuses_nan=settings.stop_on_nan,
        )
        publisher = Publisher(loggers, directory, settings.upload)
        self._keeper.on_written = publisher.publish_checkpoint

    def wake(self) -> None:
        """Make the loop look at everything after the step it is in; safe from any thread."""
        self.next_due = 0

    def request_stop(self) -> None:
        """Stop after the step in hand, as a signal asks for; an evaluation is cut short."""
        self.stop_requested = True
        self.wake()
        self._evaluator.cut_short()

    # The course of training

    def run(self) -> Ending:
        """Train until a limit, a stop condition or a request; evaluate; write the last state."""
        self._started = time.monotonic() - self._clock.seconds
        self._trainer._wake = self.wake
        try:
            self._begin()
            while self._reason is None:
                self._train_epoch()
            return self._end()
        except NonFiniteLossError as error:
            self._keeper.keep_last_good(error)
            raise
        finally:
            self._alarm.cancel()
            self._trainer._wake = _do_nothing
            self._position.close()
            self._keeper.close()

    def resume(self, state: Mapping[str, Any], *, goes_beyond: bool = False) -> None:
        """Continue from a state that ``state_dict`` returned, instead of starting.

        Args:
            state: The state.
            goes_beyond: Whether to train on although there was a reason to end.
        """
        self._trainer._wake = self.wake
        if state["has_started"]:
            # First: what it makes may have state, and what it changes has been changed already.
            self._start()
        self._load(state)
        if not goes_beyond:
            self._reason = state["reason"]
        elif self._rules.best is not None:
            # Who wants more of it has patience again.
            self._rules.best.num_without_improvement = 0
        self._trainer.on_resume()
        self._is_resumed = True

    def _begin(self) -> None:
        clock = self._clock
        if self._trace is not None:
            self._trace.start()
        if clock.iterations == 0 and not self._has_started and self._settings.evaluate_first:
            self._record(self._evaluator.left_at(0))
            self._check_metrics()
        self.phase = TRAINING
        if not self._has_started and not self._is_stopping:
            self._start()
        if self._is_resumed:
            self._make_up_for_hook()
            # A signal may have cut short what was due then.
            self._record(self._timetable.due_evaluations(clock))
        self._look_for_reason({})
        # A run that was at its end may go on: then its end comes once more.
        self._has_ended = self._has_ended and self._reason is not None
        self._gradients.look(clock.iterations)
        self._plan_ahead()

    def _make_up_for_hook(self) -> None:
        """Call the hook that failed when the state was stored, and do what was due after it."""
        name, self._failed_hook = self._failed_hook, None
        if name is not None:
            self._call(getattr(self._trainer, name), name)
            self._do_what_is_due()

    def _start(self) -> None:
        self._trainer.on_start()
        self._has_started = True

    @property
    def _is_stopping(self) -> bool:
        """Whether nothing but the end of training may come now."""
        return self.stop_requested and self._reason in (None, STOPPED)

    def _check_metrics(self) -> None:
        """Say as soon as it is known what would be an error at the end."""
        for setting, metric in self._rules.metrics().items():
            name = metric.partition("/")[0]
            is_awaited = name in self._evaluator.evaluated_at or (
                self._has_logged_losses and name not in self._evaluator.evaluations
            )
            if not is_awaited or metric in self._journal.latest:
                continue
            known = suggest(metric, self._journal.latest)
            if any(key.partition("/")[0] == name for key in self._journal.latest):
                raise TrainingError(f"{setting}: {name!r} does not log {metric!r}.{known}")
            if name in self._evaluator.without_numbers:
                self._require_numbers(setting, name)
            if metric not in self._missed:
                self._missed.add(metric)
                logger.warning("%s: %r was not logged so far.%s", setting, metric, known)

    def _require_numbers(self, setting: str, name: str) -> None:
        """Refuse to train for a metric that is none; before training there may be nothing yet."""
        shown = self._evaluator.without_numbers[name]
        if shown is not None:
            raise TrainingError(
                f"{setting}: {name!r} logs no number, but what it shows ({shown})."
                f"{suggest(name, self._journal.latest_evaluations)}"
            )
        if self._evaluator.evaluated_at[name] > 0:
            raise TrainingError(
                f"{setting}: {name!r} has returned nothing. As long as there is nothing to "
                "measure, return float('nan')."
            )

    def _train_epoch(self) -> None:
        """Do the steps of one epoch; everything else waits until ``next_due``."""
        clock, loader = self._clock, self._trainer.train_loader
        train_step = self._find_step()
        hook = self._overridden_hook()
        device = self._trainer.get_device()
        is_on_cpu = device.type == "cpu"
        batches = self._position.start_epoch(loader)
        iteration = clock.iterations
        # What is due at the last step of an epoch is done after it, when the epoch is counted.
        last = self._position.last_iteration
        for data in batches:
            train_step(data if is_on_cpu else move(data, device, non_blocking=True))
            iteration += 1
            clock.iterations = iteration
            if hook is not None:
                self._call(hook, "on_iteration_end")
            if iteration >= self.next_due and iteration != last:
                self._do_what_is_due()
                if self._reason is not None:
                    return
        if self._position.num_batches == 0:
            raise TrainingError("The train_loader gave no batch in this epoch.")
        clock.epochs += 1
        self._position.end_epoch()
        self._call(self._trainer.on_epoch_end, "on_epoch_end")
        self._do_what_is_due()

    def _find_step(self) -> Callable[[Any], None]:
        """Return the user's step itself, unless somebody wants to compare trainings."""
        train_step = self._trainer.train_step
        return train_step if self._trace is None else self._trace.watch(train_step)

    def _overridden_hook(self) -> Callable[[], None] | None:
        """Return on_iteration_end only if the user wrote one: an empty call costs time, too."""
        hook = self._trainer.on_iteration_end
        is_empty = getattr(hook, "__func__", None) is Trainer.on_iteration_end
        return None if is_empty else hook

    def _do_what_is_due(self) -> None:
        self._read_time()
        self._keeper.check()
        self._gradients.look(self._clock.iterations)
        self._call(self._record_what_is_due)
        self._plan_ahead()

    def _record_what_is_due(self) -> None:
        is_due = self._timetable.log.is_due(self._clock)
        self._record(self._timetable.due_evaluations(self._clock), with_losses=is_due)
        if self._reason is None:
            # At its end, training first writes down what it has come to.
            self._check_metrics()
        self._write_due_checkpoints()

    def _plan_ahead(self) -> None:
        """Find the next iteration at which something is due, and set an alarm for clock times."""
        next_due = self._timetable.next_iteration(self._clock)
        self.next_due = min(next_due, self._gradients.next_look())
        second = self._timetable.next_second()
        self._alarm.set(None if second is None else self._started + second)
        if self.stop_requested or self._trainer._end_reason is not None:
            # A request that came in while this was worked out must not be lost.
            self.wake()

    def _end(self) -> Ending:
        """Flush, evaluate what was not evaluated at this step, and write the last checkpoint."""
        if self._reason == STOPPED:
            # It goes on later, from here: nothing is rounded off.
            self.is_leaving = True
            with self._busy("writing checkpoint"):
                self._keeper.save_stopped()
            return self._make_ending(was_stopped=True)
        self._call(self._round_off)
        if self._trace is not None:
            self._trace.end()
        self.is_leaving = True
        with self._busy("writing checkpoint"):
            self._keeper.save_final()
        if self._evaluator.left_at(self._clock.iterations):
            self._reason = f"{STOPPED} before the last evaluations"
            return self._make_ending(was_stopped=True)
        self._journal.check_logged(self._rules.metrics())
        return self._make_ending()

    def _round_off(self) -> None:
        if not self._has_ended:
            self._trainer.on_end()
            self._has_ended = True
        self._record(self._evaluator.left_at(self._clock.iterations), with_losses=True)

    def _make_ending(self, *, was_stopped: bool = False) -> Ending:
        return Ending(
            str(self._reason),
            dict(self._journal.latest),
            dict(self._journal.latest_evaluations),
            None if self._rules.best is None else self._rules.best.summary(),
            self._clock.seconds,
            was_stopped,
        )

    # What is done between steps

    def _read_time(self) -> None:
        self._clock.seconds = time.monotonic() - self._started

    def _call(self, action: Callable[[], None], hook: str | None = None) -> None:
        """Write the state before anything but a step makes training fail: no step is lost."""
        try:
            action()
        except NonFiniteLossError:
            raise
        except Exception:
            self._failed_hook = hook
            self._keeper.save_in_need()
            raise

    @contextmanager
    def _busy(self, phase: str) -> Iterator[None]:
        previous, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = previous

    def _record(self, names: Sequence[str], *, with_losses: bool = False) -> None:
        """Run evaluations, log what they measured, keep the best state, and draw conclusions."""
        if not names and not with_losses:
            self._look_for_reason({})
            return
        measured: list[dict[str, float]] = []
        try:
            self._measure(names, measured)
        except Exception:
            # What was measured before this one is not lost with it.
            self._conclude(measured, with_losses=with_losses)
            raise
        self._conclude(measured, with_losses=with_losses)

    def _measure(self, names: Sequence[str], measured: list[dict[str, float]]) -> None:
        for name in names:
            if self.stop_requested:
                # Those that are left stay due, and come first when training goes on.
                return
            try:
                with self._busy(f"evaluating {name}"):
                    numbers = self._evaluator.measure(name)
            finally:
                culprit = self._evaluator.has_left_weights_changed
                if culprit is not None:
                    self._keeper.distrust(f"The evaluation {culprit} has left its weights behind")
            if numbers is None:
                return
            measured.append(numbers)
            self._read_time()
            self._timetable.evaluations[name].advance(self._clock)

    def _conclude(self, measured: Sequence[Mapping[str, float]], *, with_losses: bool) -> None:
        losses: Mapping[str, float] = {}
        if with_losses:
            losses = self._losses.take()
            self._timetable.log.advance(self._clock)
        metrics = self._journal.log(losses, measured, self._clock)
        self._has_logged_losses = self._has_logged_losses or bool(losses)
        best = self._rules.best
        is_best = best is not None and best.update(metrics, self._clock.iterations)
        # Before anything is stored: a run that is at its end must know it when it is continued.
        self._look_for_reason(metrics)
        if is_best:
            with self._busy("writing checkpoint"):
                self._keeper.save_best()

    def _look_for_reason(self, metrics: Mapping[str, float]) -> None:
        """Set the reason to stop, the most telling one first, or leave it None."""
        if self._reason is None or self._is_limit_reached:
            condition = self._trainer._end_reason or self._rules.find_reason(metrics)
            if condition is not None:
                self._reason, self._is_limit_reached = condition, False
        if self._reason is None:
            limit = self._timetable.reached_limit(self._clock)
            if limit is not None:
                self._reason, self._is_limit_reached = f"{limit} done", True
            elif self.stop_requested:
                self._reason = STOPPED

    def _write_due_checkpoints(self) -> None:
        clock, timetable = self._clock, self._timetable
        for schedule, save in (
            (timetable.checkpoint, self._keeper.save_periodic),
            (timetable.backup, self._keeper.save_last),
        ):
            if schedule is not None and schedule.is_due(clock):
                schedule.advance(clock)
                with self._busy("writing checkpoint"):
                    save()

    # What others read

    def state_dict(self) -> dict[str, Any]:
        """Return everything that continuing from this step needs."""
        self._read_time()
        clock, best = self._clock, self._rules.best
        return {
            "trainer": self._trainer.full_state(),
            "gradients": self._gradients.state_dict(clock.iterations),
            "has_started": self._has_started,
            "has_ended": self._has_ended,
            "failed_hook": self._failed_hook,
            # A limit is looked at anew, and a signal is gone.
            "reason": None if self._is_limit_reached or self._is_stopping else self._reason,
            "clock": {
                "iterations": clock.iterations,
                "epochs": clock.epochs,
                "seconds": clock.seconds,
            },
            "schedules": self._timetable.state_dict(),
            "loader": self._position.state_dict(self._trainer.train_loader),
            "datasets": self._trainer.dataset_states(),
            "evaluations": self._evaluator.state_dict(),
            "best": None if best is None else best.state_dict(),
            "journal": self._journal.state_dict(),
            "rng": rng_state(),
            "seed": self._seed,
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        """Be where ``state_dict`` was taken."""
        trainer, clock = self._trainer, self._clock
        kind, own = state["trainer"]["class"], type(trainer).__name__
        if kind != own:
            raise MisfitError(f"The run was trained by {kind}, not by {own}.")
        trainer.load_full_state(state["trainer"])
        # Older checkpoints have none.
        self._gradients.load_state_dict(state.get("gradients", {}))
        clock.iterations, clock.epochs = state["clock"]["iterations"], state["clock"]["epochs"]
        clock.seconds = state["clock"]["seconds"]
        self._has_started, self._has_ended = state["has_started"], state["has_ended"]
        self._failed_hook = state["failed_hook"]
        self._timetable.load_state_dict(state["schedules"], clock)
        trainer.load_dataset_states(state["datasets"])
        self._position.load_state_dict(state["loader"], trainer.train_loader)
        self._evaluator.load_state_dict(state["evaluations"])
        if self._rules.best is not None and state["best"] is not None:
            self._rules.best.load_state_dict(state["best"])
        self._journal.load_state_dict(state["journal"])
        self._has_logged_losses = clock.iterations > 0
        set_rng_state(state["rng"])

    def standing(self) -> dict[str, Any]:
        """Say what has come out so far; called by the thread that keeps the status."""
        best = self._rules.best
        return {
            "best": None if best is None else best.summary(),
            "latest": dict(self._journal.latest),
        }

    def give_up(self) -> Ending:
        """End where the last checkpoint is: something else has ended the step in hand."""
        self._reason = STOPPED
        return self._make_ending(was_stopped=True)

    def snapshot(self) -> Snapshot:
        """Say how far training has come; called by the thread that draws the progress line."""
        clock = self._clock
        measured = self._journal.latest_evaluations
        now = Clock(clock.iterations, clock.epochs, time.monotonic() - self._started, clock.counter)
        return Snapshot(
            iteration=clock.iterations,
            epoch=clock.epochs,
            fraction=self._timetable.fraction_done(now, self._position.iterations_per_epoch),
            losses=self._losses.peek()
            or {k: v for k, v in dict(self._journal.latest).items() if k not in measured},
            phase=self.phase,
            total_epochs=self._settings.epochs,
        )


def _do_nothing() -> None:
    """Stand for the loop when there is none."""
