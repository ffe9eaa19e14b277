"""Carry one run from its configuration to its last checkpoint."""

import contextlib
import csv
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade import torch_startup
from jade.assemble import Assembled, assemble, choose_device, count_parameters, make_loggers
from jade.config import Configuration, Sources, load
from jade.errors import ConfigError, JadeError, suggest
from jade.loggers.base import Logger, LoggerGroup, RunInfo
from jade.loop import Ending, TrainingLoop
from jade.overrides import Override
from jade.progress import ProgressLine
from jade.record import Record, RunLog
from jade.resolve import Resolved, resolve
from jade.run_dir import FAILED, FINISHED, INTERRUPTED, PREEMPTED, RunDir, check_writable
from jade.seeding import draw_seed, rng_state, seed_everything, set_deterministic, set_rng_state
from jade.settings import FIELDS
from jade.signals import EXIT_INTERRUPTED, SignalWatch
from jade.trainer import Trainer
from jade.yaml_file import Origin

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended, and all that it left behind."""

    directory: Path
    status: str
    reason: str
    exit_code: int
    metrics: Mapping[str, float]
    config: Mapping[str, Any]
    trainer: Trainer
    best: Mapping[str, Any] | None = None
    dataset_sizes: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        """The name of the run directory, which is the run's id on W&B, too."""
        return self.directory.name

    @property
    def evaluations(self) -> dict[str, float]:
        """The last numbers of the evaluations, without the loss items."""
        names = self.config["eval"]
        return {k: v for k, v in self.metrics.items() if k.partition("/")[0] in names}

    def history(self) -> list[dict[str, float]]:
        """Read ``metrics.csv``: one mapping per logged step, without what was not logged there."""
        with RunDir(self.directory).metrics.open(newline="") as file:
            return [
                {key: float(value) for key, value in row.items() if value}
                for row in csv.DictReader(file)
            ]

    def pictures(self) -> list[Path]:
        """List the newest picture of each evaluation."""
        folders = sorted(RunDir(self.directory).evaluations.iterdir())
        found = (sorted(folder.glob("*.png")) for folder in folders)
        return [pictures[-1] for pictures in found if pictures]


def train(  # noqa: PLR0913 - each is a part of the configuration
    model: Mapping[str, Any] | str | Path | None = None,
    data: Mapping[str, Any] | str | Path | None = None,
    eval: Mapping[str, Any] | str | Path | None = None,  # noqa: A002 - the section's name
    arch_impl: str | Path | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    loggers: Sequence[Logger] = (),
    show_progress: bool = True,
    **settings: Any,
) -> FinishedRun:
    """Train from Python or a notebook, just as ``jade train`` does.

    Args:
        model: The trainer's description (class, params), or the path of its YAML file.
        data: Descriptions of datasets by name, or the path of their file.
        eval: Descriptions of evaluations by name, or the path of their file.
        arch_impl: The Python file with the architectures.
        overrides: Dotted keys and values, such as ``{"model.params.beta": 0.1}``.
        loggers: Further destinations for metrics.
        show_progress: Whether to draw the progress line.
        settings: Any setting of ``jade train --help``: ``epochs=3``, ``seed=0``, ...

    Raises:
        ConfigError: Something does not fit; nothing was started or written.
    """
    given = {"model": model, "data": data, "eval": eval}
    sections = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    paths = {f"{k}_conf": v for k, v in given.items() if isinstance(v, (str, Path))}
    unknown = [key for key in settings if key not in FIELDS]
    if unknown:
        raise ConfigError(f"train() takes no {unknown[0]!r}.{suggest(unknown[0], FIELDS)}")
    flat = {**paths, "arch_impl": arch_impl, **settings}
    arguments = [
        Override(key, _as_text(value), Origin(f"argument {key}="))
        for key, value in flat.items()
        if value is not None
    ]
    arguments += [Override(k, v, Origin("overrides=")) for k, v in (overrides or {}).items()]
    sources = Sources(sections=sections, arguments=arguments, environ=dict(os.environ))
    return execute(load(sources), loggers=loggers, show_progress=show_progress)


def _as_text(value: Any) -> Any:
    """Paths become text, as configuration files hold them."""
    if isinstance(value, (list, tuple)):
        return [_as_text(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def execute(
    configuration: Configuration,
    *,
    command: Sequence[str] = tuple(sys.argv),
    loggers: Sequence[Logger] = (),
    show_progress: bool = True,
) -> FinishedRun:
    """Run a configuration to its end; whatever happens is on record before it is raised."""
    torch_startup.defer_dynamo()
    resolved = resolve(configuration)
    settings = resolved.settings
    with (
        RunLog(settings.log_level) as log,
        _experiments_root(resolved) as root,
        _determinism(enabled=settings.deterministic),
        SignalWatch() as watch,
    ):
        _report(configuration)
        device = choose_device(settings.device)
        destinations = LoggerGroup([*make_loggers(resolved), *loggers])
        check_writable(root)
        run = _Run(resolved, root, destinations, log, command)
        try:
            assembled = assemble(resolved, device, run.seed)
            loop = TrainingLoop(
                assembled.trainer,
                assembled.evaluations,
                settings,
                seed=run.seed,
                evaluate_every=resolved.evaluate_every,
            )
            watch.on_signal = loop.request_stop
            return run.carry_out(assembled, loop, watch, show_progress=show_progress)
        except BaseException as error:
            run.fail(error)
            raise


class _Run:
    """What one run owns while it lasts; its directory is made once everything could be built."""

    def __init__(
        self,
        resolved: Resolved,
        root: Path,
        loggers: LoggerGroup,
        log: RunLog,
        command: Sequence[str],
    ) -> None:
        self.resolved = resolved
        self.seed = _choose_seed(resolved)
        self._root = root
        self._loggers = loggers
        self._log = log
        self._command = command
        self._record: Record | None = None
        self._loop: TrainingLoop | None = None
        seed_everything(self.seed)

    def carry_out(
        self,
        assembled: Assembled,
        loop: TrainingLoop,
        watch: SignalWatch,
        *,
        show_progress: bool,
    ) -> FinishedRun:
        # What the loggers and the record do must not be seen in the random numbers of training.
        state = rng_state()
        record = self._open()
        self._loop = loop
        self._describe(assembled)
        set_rng_state(state)
        title = self.resolved.settings.run_name or type(assembled.trainer).__name__
        with ProgressLine(loop.snapshot, title=title, enabled=show_progress):
            ending = loop.run(record.directory, self._loggers)
        return self._finish(record, assembled, ending, watch)

    def _open(self) -> Record:
        """Create the run directory and start the loggers."""
        record = Record.start(self.resolved, self._root, command=self._command, seed=self.seed)
        self._record = record
        self._log.write_to(record.directory.log)
        settings = self.resolved.settings
        files = {k: self.resolved.values[k] for k in ("model_conf", "data_conf", "eval_conf")}
        self._loggers.start(
            RunInfo(
                run_id=record.directory.run_id,
                directory=record.directory.root,
                config={**{k: v for k, v in files.items() if v}, **self.resolved.frozen},
                name=settings.run_name,
                group=settings.group,
                tags=settings.tags,
                notes=settings.notes,
                job_type=settings.job_type,
            )
        )
        return record

    def _describe(self, assembled: Assembled) -> None:
        logger.info("run directory: %s", self._record and self._record.directory.root)
        logger.info("device %s, seed %d", assembled.device, self.seed)
        for name, kind, trainable, fixed in count_parameters(assembled.trainer):
            logger.info("network %s (%s): %d parameters, %d fixed", name, kind, trainable, fixed)

    def _finish(
        self, record: Record, assembled: Assembled, ending: Ending, watch: SignalWatch
    ) -> FinishedRun:
        status, exit_code = FINISHED, 0
        if ending.was_stopped:
            exit_code = watch.exit_code
            status = INTERRUPTED if exit_code == EXIT_INTERRUPTED else PREEMPTED
            if status == PREEMPTED:
                self._loggers.mark_preempting()
        trainer = assembled.trainer
        counters = {"iterations": trainer.iterations, "epochs": trainer.epochs}
        networks = count_parameters(trainer)
        sizes = assembled.datasets.sizes()
        summary = {
            "status": status,
            "reason": ending.reason,
            **counters,
            "best": ending.best,
            "metrics": ending.metrics,
            "dataset_sizes": sizes,
            "parameters": {
                "trainable": sum(row[2] for row in networks),
                "fixed": sum(row[3] for row in networks),
            },
        }
        logger.info("%s: %s", status, ending.reason)
        record.write_summary(summary)
        self._loggers.summarize(summary)
        self._loggers.finish(exit_code)
        record.write_status(status, reason=ending.reason, exit_code=exit_code, **counters)
        return FinishedRun(
            directory=record.directory.root,
            status=status,
            reason=ending.reason,
            exit_code=exit_code,
            metrics=ending.metrics,
            config=self.resolved.frozen,
            trainer=trainer,
            best=ending.best,
            dataset_sizes=sizes,
        )

    def fail(self, error: BaseException) -> None:
        """Put a failure on record; what the user can correct before a start leaves no trace."""
        if self._record is None:
            if isinstance(error, ConfigError) or not isinstance(error, Exception):
                return
            self._open()
        if self._record is None:
            return
        is_interrupt = isinstance(error, KeyboardInterrupt)
        status, exit_code = (INTERRUPTED, EXIT_INTERRUPTED) if is_interrupt else (FAILED, 1)
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, JadeError):
            logger.error("%s", error)
        else:
            logger.error("The run failed.", exc_info=error)
        self._loggers.finish(exit_code)
        trainer = self._loop.trainer if self._loop else None
        counters = {"iterations": trainer.iterations, "epochs": trainer.epochs} if trainer else {}
        self._record.write_status(status, reason=reason, exit_code=exit_code, **counters)


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
    if not enabled:
        yield
        return
    set_deterministic(enabled=True)
    try:
        yield
    finally:
        set_deterministic(enabled=False)
