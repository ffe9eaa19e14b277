"""Hold together what one run owns while it lasts, and put on record how it ended."""

import logging
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from traceback import format_exception
from typing import Any

import torch

from jade.assemble import Assembled, assemble, count_parameters
from jade.concealment import conceal, find_expanded
from jade.errors import ConfigError, JadeError
from jade.export import export_run
from jade.finished_run import FinishedRun
from jade.left_run import Left
from jade.lock import RunLock
from jade.loggers.base import LoggerGroup, RunInfo
from jade.loop import Ending, TrainingLoop
from jade.metrics_table import MetricsTable
from jade.plan import Plan, make_plan
from jade.progress import Snapshot
from jade.provenance import Provenance
from jade.publisher import Publisher
from jade.record import Record, RunLog
from jade.resolve import Resolved
from jade.run_dir import FAILED, FINISHED, INTERRUPTED, PREEMPTED, RUNNING, STOPPED, RunDir
from jade.seeding import isolated_rng
from jade.signals import EXIT_INTERRUPTED, SIGNAL, STOP_FILE, WISH, SignalWatch, is_in_sweep
from jade.trainer import Trainer

logger = logging.getLogger(__name__)

# Marks a line of the log that is part of the result, too: who prints that need not print both.
IS_RESULT = {"is_result": True}


class Session:
    """What one run owns while it lasts; its directory is made once everything could be built.

    Args:
        resolved: The configuration.
        seed: Of the run.
        place: The directory for new runs, or the run that is continued.
        loggers: Where metrics go.
        log: What is said on the way.
    """

    def __init__(
        self,
        resolved: Resolved,
        seed: int,
        place: Path | Left,
        loggers: LoggerGroup,
        log: RunLog,
    ) -> None:
        self._resolved = resolved
        self._seed = seed
        self._place = place
        self._loggers = loggers
        self._log = log
        self._record: Record | None = None
        self._lock: RunLock | None = None
        self._loop: TrainingLoop | None = None
        self._trainer: Trainer | None = None
        self._dataset_sizes: dict[str, int | None] = {}
        self._has_begun = False
        self._publisher: Publisher | None = None

    @property
    def title(self) -> str:
        """What the progress line calls the run."""
        return self._resolved.settings.run_name or self._resolved.model.target.__name__

    def build(self, device: torch.device) -> tuple[Plan, Assembled]:
        """Build everything that training needs."""
        assembled = assemble(self._resolved, device, self._seed)
        plan = make_plan(
            assembled.trainer,
            assembled.evaluations,
            self._resolved.settings,
            self._resolved.evaluate_every,
            self._seed,
        )
        self._trainer = assembled.trainer
        self._dataset_sizes = assembled.datasets.sizes()
        return plan, assembled

    def open(self, origin: Provenance) -> None:
        """Create the run directory, or enter that of a run that is continued; start the loggers."""
        settings, left = self._resolved.settings, self._left
        files = {k: self._resolved.values[k] for k in ("model_conf", "data_conf", "eval_conf")}
        # What loggers and the record do must not be seen in the random numbers of training.
        with isolated_rng():
            record = self._record = self._open_record()
            self._log.write_to(record.directory.log)
            record.describe(self._resolved, origin, self._dataset_sizes)
            self._loggers.start(
                RunInfo(
                    run_id=record.directory.run_id,
                    directory=record.directory.root,
                    config={**{k: v for k, v in files.items() if v}, **self._resolved.frozen},
                    name=settings.run_name,
                    group=settings.group,
                    tags=settings.tags,
                    notes=settings.notes,
                    job_type=settings.job_type,
                    resumed_at=None if left is None else left.iteration,
                )
            )
            self._publisher = Publisher(self._loggers, record.directory, settings.upload)
            self._put_on_record("code", lambda _: self._published.publish_description())

    @property
    def _left(self) -> Left | None:
        return self._place if isinstance(self._place, Left) else None

    def _open_record(self) -> Record:
        constant = {
            "name": self._resolved.settings.run_name,
            "model": self._resolved.model.target.__name__,
        }
        if isinstance(self._place, Left):
            return Record.reopen(self._place.directory, constant)
        run_id = self._resolved.configuration.environ.get("WANDB_RUN_ID")
        directory = RunDir.create(self._place, run_id)
        self._lock = RunLock(directory.root).acquire()
        return Record(directory, constant)

    def describe(self, assembled: Assembled) -> None:
        """Log what is about to be trained."""
        logger.info("run directory: %s", self._opened.directory.root)
        logger.info("device %s, seed %d", assembled.device, self._seed)
        for name, kind, trainable, fixed in count_parameters(assembled.trainer):
            logger.info(
                "network %s (%s): %d trainable parameters, %d fixed", name, kind, trainable, fixed
            )

    def make_loop(self, plan: Plan, origin: Provenance, *, shields_rng: bool) -> TrainingLoop:
        """Make the loop that trains into this run's directory, and open that."""
        left = self._left
        if left is None:
            self.open(origin)
            self._has_begun = True
        directory = self._opened.directory if left is None else left.directory
        loop = TrainingLoop(plan, directory, self._loggers, shields_rng=shields_rng)
        self._loop = loop
        if left is not None:
            # First of all: what does not fit must leave the run as it is.
            if left.state is not None:
                loop.resume(left.state, goes_beyond=left.goes_beyond)
            self.open(origin)
            logger.info("resumed from %s, iteration %d", left.source or "nothing", left.iteration)
            # What was loaded need not stay in memory as long as training takes.
            self._place = Left(left.directory)
            self._has_begun = True
        return loop

    def show_progress(self, loop: TrainingLoop) -> None:
        """Write down how far training is, for whoever looks at the run from outside."""
        snapshot = loop.snapshot()
        self._opened.write_status(
            RUNNING, phase=snapshot.phase, **_progress(snapshot), **loop.standing()
        )

    def finish(self, assembled: Assembled, ending: Ending, watch: SignalWatch) -> FinishedRun:
        """Write down how the run ended, and close everything."""
        status, exit_code, reason = FINISHED, 0, ending.reason
        if ending.was_stopped:
            status, exit_code, cause = self._classify(watch)
            reason = reason.replace(SIGNAL, cause)
        if status == PREEMPTED or (status == INTERRUPTED and self._is_in_sweep):
            # So W&B hands out again what a sweep still lacks.
            self._loggers.mark_preempting()
        summary = _summarize(assembled, ending, {"status": status, "reason": reason})
        summary.update(_extremes(self._opened.directory, ending.evaluations))
        logger.info("%s: %s", status, reason, extra=IS_RESULT)
        self._put_on_record("summary", lambda record: record.write_summary(summary))
        self._loggers.summarize(summary)
        if status == FINISHED and self._resolved.settings.artifact:
            self._upload_model()
        done = {"fraction": 1.0} if status == FINISHED else {}
        standing = {"best": ending.best, "latest": ending.metrics}
        self._close(status, reason, exit_code, **standing, **done)
        return FinishedRun(
            directory=self._opened.directory.root,
            status=status,
            reason=reason,
            exit_code=exit_code,
            config=self._resolved.frozen,
            trainer=assembled.trainer,
            metrics=ending.metrics,
            evaluations=ending.evaluations,
            best=ending.best,
            dataset_sizes=assembled.datasets.sizes(),
        )

    @property
    def _is_in_sweep(self) -> bool:
        return is_in_sweep(self._resolved.configuration.environ)

    def _classify(self, watch: SignalWatch) -> tuple[str, int, str]:
        """Say what a stop from outside means: status, exit code, and who wanted it."""
        if watch.is_wish:
            return STOPPED, 0, WISH
        if watch.exit_code == EXIT_INTERRUPTED:
            return INTERRUPTED, EXIT_INTERRUPTED, watch.cause
        if watch.received == signal.SIGTERM and self._loggers.is_stop_wanted():
            # So an agent ends a trial whose sweep has seen enough of it.
            return STOPPED, 0, f"{WISH} ({watch.received.name})"
        if watch.received == signal.SIGTERM and _is_enough():
            return STOPPED, 0, "the sweep, which has seen enough of it"
        return PREEMPTED, watch.exit_code, watch.cause

    def _upload_model(self) -> None:
        directory = self._opened.directory
        if not self._loggers.keeps_files:
            logger.warning("artifact: W&B is not online, so it gets no model.")
            return
        path = directory.staging / "model.jade"
        export_run(directory, path)
        self._loggers.upload_model(
            path, f"{self._resolved.model.target.__name__}-{directory.run_id}"
        )

    def fail(self, error: BaseException, origin: Provenance) -> None:
        """Put a failure on record; what the user can correct before a start leaves no trace."""
        if isinstance(error, ConfigError) and not self._has_begun:
            self._undo()
            # git may still be asked: nothing of this run goes on behind the caller's back.
            origin.result()
            return
        if self._record is None:
            if not isinstance(error, Exception) or self._left is not None:
                # A run that could not be continued stays as it was left.
                return
            try:
                self.open(origin)
            except (JadeError, OSError) as problem:
                logger.error("The failure is not on record: %s", problem)
        is_interrupt = isinstance(error, KeyboardInterrupt)
        exit_code = error.exit_code if isinstance(error, JadeError) else 1
        status, exit_code = (INTERRUPTED, EXIT_INTERRUPTED) if is_interrupt else (FAILED, exit_code)
        self._log.write_failure(error)
        self._show_failure(error)
        self._close(status, f"{type(error).__name__}: {error}", exit_code)

    def _show_failure(self, error: BaseException) -> None:
        """Show elsewhere why the run failed: who has started it sees that when all is closed."""
        if self._record is not None:
            lines = [str(error)] if isinstance(error, JadeError) else format_exception(error)
            text = "".join(lines).rstrip()
            self._loggers.show_text(conceal(f"{text}\n", find_expanded(self._record.directory)))

    def release(self) -> None:
        """Let others have the run directory."""
        if self._lock is not None:
            self._lock.release()

    def _undo(self) -> None:
        self._loggers.finish(ConfigError.exit_code)
        if self._record is not None and self._left is None:
            self.release()
            self._record.remove()

    def _close(self, status: str, reason: str, exit_code: int, **standing: Any) -> None:
        """Write the status, then finish the loggers, which may take longer than we are given."""
        counters: Mapping[str, Any] = {}
        if self._loop is not None:
            counters = _progress(self._loop.snapshot())
        elif self._trainer is not None:
            counters = _counters(self._trainer)
        details = {"reason": reason, "exit_code": exit_code, **counters, **standing}
        if self._publisher is not None:
            self._put_on_record(
                "copy",
                lambda record: self._published.publish_end(record.make_status(status, **details)),
            )
        self._put_on_record("status", lambda record: record.write_status(status, **details))
        self._loggers.finish(exit_code)
        if self._publisher is not None:
            self._put_on_record("copy", lambda _: self._published.clean_up())

    def _put_on_record(self, what: str, write: Callable[[Record], None]) -> None:
        """Write something; at the end of a run a full disk changes nothing any more."""
        try:
            if self._record is not None:
                write(self._record)
        except OSError as error:
            logger.error("The %s of the run is not on record: %s", what, error)

    @property
    def _published(self) -> Publisher:
        if self._publisher is None:
            raise AssertionError("the run has no directory yet")
        return self._publisher

    @property
    def _opened(self) -> Record:
        if self._record is None:
            raise AssertionError("the run has no directory yet")
        return self._record


def _is_enough() -> bool:
    """Tell whether a local sweep wants an end, and not room: then it has written a file."""
    path = os.environ.get(STOP_FILE)
    return bool(path) and Path(str(path)).is_file()


def _progress(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "iterations": snapshot.iteration,
        "epochs": snapshot.epoch,
        "fraction": snapshot.fraction,
        "total_epochs": snapshot.total_epochs,
    }


def _extremes(directory: RunDir, names: Iterable[str]) -> dict[str, float]:
    """Return the smallest and the largest value that each evaluation had in the whole run."""
    table = MetricsTable.load(directory.metrics)
    found = {}
    for name in names:
        values = [v for v in table[name] if v is not None and v == v] if name in table else []
        if values:
            found[f"min/{name}"], found[f"max/{name}"] = min(values), max(values)
    return found


def _counters(trainer: Trainer) -> dict[str, int]:
    return {"iterations": trainer.iterations, "epochs": trainer.epochs}


def _summarize(assembled: Assembled, ending: Ending, outcome: Mapping[str, str]) -> dict[str, Any]:
    """Say what there is to say of a run, in one level: so W&B shows it as columns of its table.

    Metrics stand under their own names, with their last values. The rest has a prefix.
    """
    facts: dict[str, Any] = {**outcome, **_counters(assembled.trainer), "seconds": ending.seconds}
    networks = count_parameters(assembled.trainer)
    best = ending.best or {}
    return {
        **ending.metrics,
        **({f"best/{best['metric']}": best["value"]} if best else {}),
        **({"best/iteration": best["iteration"]} if best else {}),
        **{f"run/{key}": value for key, value in facts.items()},
        **{f"samples/{name}": size for name, size in assembled.datasets.sizes().items()},
        "parameters/trainable": sum(row[2] for row in networks),
        "parameters/fixed": sum(row[3] for row in networks),
    }
