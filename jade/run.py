"""Carry one run from its configuration to its last checkpoint."""

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from jade import torch_startup
from jade.assemble import Assembled, assemble, choose_device, count_parameters, make_loggers
from jade.check import find_problems
from jade.config import Configuration
from jade.envvars import exported
from jade.errors import ConfigError, JadeError, TrainingError
from jade.finished_run import FinishedRun
from jade.loggers.base import Logger, LoggerGroup, RunInfo
from jade.loop import Ending, TrainingLoop
from jade.plan import Plan, make_plan
from jade.progress import ProgressLine
from jade.provenance import Provenance
from jade.record import Record, RunLog
from jade.resolve import Resolved, resolve
from jade.run_dir import FAILED, FINISHED, INTERRUPTED, PREEMPTED, check_writable
from jade.seeding import (
    CUBLAS_VARIABLE,
    draw_seed,
    isolated_rng,
    seed_everything,
    set_deterministic,
)
from jade.signals import EXIT_INTERRUPTED, SignalWatch
from jade.trainer import Trainer

__all__ = ["FinishedRun", "execute"]

logger = logging.getLogger(__name__)


def execute(
    configuration: Configuration,
    *,
    command: Sequence[str] | None = None,
    loggers: Sequence[Logger] = (),
    show_progress: bool = True,
) -> FinishedRun:
    """Run a configuration to its end; whatever happens is on record before it is raised."""
    torch_startup.defer_dynamo()
    with exported(configuration.environ):
        resolved = resolve(configuration, look_further=find_problems)
        return _execute(resolved, command, loggers, show_progress=show_progress)


def _execute(
    resolved: Resolved,
    command: Sequence[str] | None,
    loggers: Sequence[Logger],
    *,
    show_progress: bool,
) -> FinishedRun:
    settings = resolved.settings
    with (
        RunLog(settings.log_level) as log,
        _experiments_root(resolved) as root,
        _determinism(enabled=settings.deterministic),
        SignalWatch() as watch,
    ):
        _report(resolved.configuration)
        device = choose_device(settings.device)
        destinations = LoggerGroup([*make_loggers(resolved), *loggers])
        check_writable(root)
        seed = _choose_seed(resolved)
        seed_everything(seed)
        origin = Provenance(sys.argv if command is None else command, seed).start()
        run = _Run(resolved, seed, root, destinations, log)
        try:
            plan, assembled = run.build(device)
            watch.hold_back()
            run.open(origin)
            run.describe(assembled)
            loop = run.make_loop(plan, shields_rng=bool(loggers or resolved.loggers))
            watch.pass_on_to(loop.request_stop)
            with ProgressLine(loop.snapshot, title=run.title, enabled=show_progress):
                ending = loop.run()
            return run.finish(assembled, ending, watch)
        except BaseException as error:
            run.fail(error, origin)
            if isinstance(error, SystemExit) and watch.received is None:
                raise TrainingError(f"Something called sys.exit({error.code!r}).") from error
            raise


class _Run:
    """What one run owns while it lasts; its directory is made once everything could be built."""

    def __init__(
        self, resolved: Resolved, seed: int, root: Path, loggers: LoggerGroup, log: RunLog
    ) -> None:
        self._resolved = resolved
        self._seed = seed
        self._root = root
        self._loggers = loggers
        self._log = log
        self._record: Record | None = None
        self._trainer: Trainer | None = None
        self._dataset_sizes: dict[str, int | None] = {}
        self._has_begun = False

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
        """Create the run directory and start the loggers."""
        settings = self._resolved.settings
        files = {k: self._resolved.values[k] for k in ("model_conf", "data_conf", "eval_conf")}
        # What loggers and the record do must not be seen in the random numbers of training.
        with isolated_rng():
            record = Record(self._root, self._resolved.configuration.environ.get("WANDB_RUN_ID"))
            self._record = record
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
                )
            )

    def describe(self, assembled: Assembled) -> None:
        """Log what is about to be trained."""
        logger.info("run directory: %s", self._opened.directory.root)
        logger.info("device %s, seed %d", assembled.device, self._seed)
        for name, kind, trainable, fixed in count_parameters(assembled.trainer):
            logger.info(
                "network %s (%s): %d trainable parameters, %d fixed", name, kind, trainable, fixed
            )

    def make_loop(self, plan: Plan, *, shields_rng: bool) -> TrainingLoop:
        """Make the loop that trains into this run's directory."""
        self._has_begun = True
        return TrainingLoop(plan, self._opened.directory, self._loggers, shields_rng=shields_rng)

    def finish(self, assembled: Assembled, ending: Ending, watch: SignalWatch) -> FinishedRun:
        """Write down how the run ended, and close everything."""
        status, exit_code, reason = FINISHED, 0, ending.reason
        if ending.was_stopped:
            exit_code = watch.exit_code
            status = INTERRUPTED if exit_code == EXIT_INTERRUPTED else PREEMPTED
            reason += f" ({watch.received.name})" if watch.received else ""
        if status == PREEMPTED:
            self._loggers.mark_preempting()
        summary = _summarize(assembled, ending, {"status": status, "reason": reason})
        logger.info("%s: %s", status, reason)
        self._put_on_record("summary", lambda record: record.write_summary(summary))
        self._loggers.summarize(summary)
        self._close(status, reason, exit_code)
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

    def fail(self, error: BaseException, origin: Provenance) -> None:
        """Put a failure on record; what the user can correct before a start leaves no trace."""
        if isinstance(error, ConfigError) and not self._has_begun:
            self._undo()
            # git may still be asked: nothing of this run goes on behind the caller's back.
            origin.result()
            return
        if self._record is None:
            if not isinstance(error, Exception):
                return
            try:
                self.open(origin)
            except (JadeError, OSError) as problem:
                logger.error("The failure is not on record: %s", problem)
        is_interrupt = isinstance(error, KeyboardInterrupt)
        exit_code = error.exit_code if isinstance(error, JadeError) else 1
        status, exit_code = (INTERRUPTED, EXIT_INTERRUPTED) if is_interrupt else (FAILED, exit_code)
        self._log.write_failure(error)
        self._close(status, f"{type(error).__name__}: {error}", exit_code)

    def _undo(self) -> None:
        self._loggers.finish(ConfigError.exit_code)
        if self._record is not None:
            self._record.remove()

    def _close(self, status: str, reason: str, exit_code: int) -> None:
        """Finish the loggers, then write the status: what it says has happened."""
        self._loggers.finish(exit_code)
        counters = _counters(self._trainer) if self._trainer is not None else {}
        details = {"reason": reason, "exit_code": exit_code, **counters}
        self._put_on_record("status", lambda record: record.write_status(status, **details))

    def _put_on_record(self, what: str, write: Callable[[Record], None]) -> None:
        """Write something; at the end of a run a full disk changes nothing any more."""
        try:
            if self._record is not None:
                write(self._record)
        except OSError as error:
            logger.error("The %s of the run is not on record: %s", what, error)

    @property
    def _opened(self) -> Record:
        if self._record is None:
            raise AssertionError("the run has no directory yet")
        return self._record


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


def _report(configuration: Configuration) -> None:
    for text in configuration.warnings:
        logger.warning("%s", text)
    for text in configuration.notices:
        logger.info("%s", text)


def _choose_seed(resolved: Resolved) -> int:
    """Return the seed; one that is drawn goes into the configuration that is written down."""
    seed = resolved.settings.seed
    if seed is None or seed == -1:
        seed = draw_seed()
        resolved.values["seed"] = seed
        resolved.expanded["seed"] = seed
        logger.info("seed %d was drawn.", seed)
    return seed


@contextlib.contextmanager
def _experiments_root(resolved: Resolved) -> Iterator[Path]:
    """Yield where run directories go; those of a rehearsal are removed again."""
    if not resolved.settings.dry_run:
        yield Path(resolved.settings.experiments_root)
        return
    with tempfile.TemporaryDirectory(prefix="jade-dry-run-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def _determinism(*, enabled: bool) -> Iterator[None]:
    """Switch determinism on for this run, unless it is on anyway."""
    if not enabled or torch.are_deterministic_algorithms_enabled():
        yield
        return
    cudnn, variables = torch.backends.cudnn, ("TORCHINDUCTOR_DETERMINISTIC", CUBLAS_VARIABLE)
    flags, environ = (
        (cudnn.deterministic, cudnn.benchmark),
        {v: os.environ.get(v) for v in variables},
    )
    set_deterministic(enabled=True)
    try:
        yield
    finally:
        set_deterministic(enabled=False)
        cudnn.deterministic, cudnn.benchmark = flags
        for name, value in environ.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})
