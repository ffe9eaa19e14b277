"""Carry one run from its configuration to its last checkpoint."""

import contextlib
import dataclasses
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from jade import torch_startup
from jade.alarm import Alarm
from jade.assemble import choose_device, has_foreign_wandb, make_loggers
from jade.check import find_problems_here
from jade.config import Configuration
from jade.envvars import exported
from jade.errors import ConfigError, TrainingError
from jade.finished_run import FinishedRun
from jade.heartbeat import Heartbeat
from jade.left_run import Left, as_limits, find_changes, find_unfinished, is_same, load_left
from jade.lock import RunLock
from jade.loggers.base import Logger, LoggerGroup
from jade.loggers.relay import RelayProcess
from jade.loggers.wandb_account import resolve_mode
from jade.loop import Ending, TrainingLoop
from jade.progress import ProgressLine
from jade.provenance import Provenance
from jade.record import RunLog
from jade.remote.place import bring_here
from jade.resolve import Resolved, resolve
from jade.run_dir import FINISHED, RunDir, check_writable
from jade.saved_runs import load_config, read_json
from jade.schedule import parse_amount
from jade.seeding import CUBLAS_VARIABLE, draw_seed, seed_everything, set_deterministic
from jade.session import Session
from jade.signals import WISH, SignalWatch, is_in_sweep
from jade.whole_file import remove_asides

__all__ = ["FinishedRun", "execute"]

AUTO = "auto"
# How long before its time limit a run stops: it has a checkpoint to write.
RESERVE_SHARE, LONGEST_RESERVE_S = 0.1, 120.0
# How long a signal to the whole job may be behind the death of a worker by it.
PATIENCE_S = 1.0

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What belongs to one execution of a run, and not to its configuration."""

    command: Sequence[str] | None = None
    loggers: Sequence[Logger] = ()
    show_progress: bool = True
    watch: SignalWatch | None = None
    additional: str | None = None
    relay: RelayProcess | None = None


def execute(configuration: Configuration, circumstances: Circumstances) -> FinishedRun:
    """Run a configuration to its end; whatever happens is on record before it is raised."""
    torch_startup.defer_dynamo()
    try:
        with exported(configuration.environ):
            resolved = resolve(configuration, look_further=find_problems_here)
            with circumstances.watch or SignalWatch.for_run(configuration.environ) as watch:
                return _execute(resolved, circumstances, watch)
    finally:
        if circumstances.relay is not None:
            circumstances.relay.discard()


def _execute(resolved: Resolved, circumstances: Circumstances, watch: SignalWatch) -> FinishedRun:
    watch.check()
    settings = resolved.settings
    with (
        RunLog(settings.log_level) as log,
        _experiments_root(resolved) as root,
        determinism(enabled=settings.deterministic),
        _time_limit(settings.time_limit, watch),
        contextlib.ExitStack() as stack,
    ):
        _report(resolved.configuration)
        device = choose_device(settings.device)
        check_writable(root)
        # Now: to ask W&B for what is left of the run, JADE imports it, too.
        has_wandb = has_foreign_wandb(circumstances.relay)
        left = _find_left(resolved, root, stack)
        left = None if left is None else _adapt(resolved, left, circumstances.additional)
        destinations = _make_destinations(resolved, circumstances, watch, has_wandb=has_wandb)
        seed = _choose_seed(resolved)
        seed_everything(seed)
        origin = Provenance(circumstances.command or sys.argv, seed).start()
        session = Session(resolved, seed, left or root, destinations, log)
        del left
        stack.callback(session.release)
        watch.check()
        try:
            plan, assembled = session.build(device)
            watch.hold_back()
            loop = session.make_loop(
                plan, origin, shields_rng=bool(circumstances.loggers or resolved.loggers)
            )
            session.describe(assembled)
            watch.pass_on_to(loop.request_stop, is_leaving=lambda: loop.is_leaving)
            with (
                Heartbeat(lambda: session.show_progress(loop)),
                ProgressLine(
                    loop.snapshot, title=session.title, enabled=circumstances.show_progress
                ),
            ):
                ending = _train(loop, watch)
            return session.finish(assembled, ending, watch)
        except BaseException as error:
            session.fail(watch.find_cause(error), origin)
            if isinstance(error, SystemExit) and watch.received is None:
                raise TrainingError(f"Something called sys.exit({error.code!r}).") from error
            raise


def _make_destinations(
    resolved: Resolved, circumstances: Circumstances, watch: SignalWatch, *, has_wandb: bool
) -> LoggerGroup:
    loggers = make_loggers(resolved, circumstances.relay, has_wandb=has_wandb)
    destinations = LoggerGroup([*loggers, *circumstances.loggers])
    destinations.on_stop_wish(lambda: watch.request(WISH))
    return destinations


def _train(loop: TrainingLoop, watch: SignalWatch) -> Ending:
    try:
        return loop.run()
    except RuntimeError as error:
        if not _is_killed_worker(error, watch):
            raise
        return loop.give_up()


def _find_left(resolved: Resolved, root: Path, stack: contextlib.ExitStack) -> Left | None:
    """Find the run that is to be continued, become its owner, and load its state."""
    wanted = resolved.settings.resume
    if wanted is None and is_in_sweep(resolved.configuration.environ):
        # A run that W&B hands out again has the id that it had.
        wanted = AUTO
    if wanted is None:
        return None
    if resolved.settings.dry_run:
        raise ConfigError("resume and dry_run exclude each other: a rehearsal keeps nothing.")
    if wanted == AUTO:
        found = _find_automatically(resolved, root)
        if found is None:
            return None
        directory = found
    else:
        directory, place = bring_here(wanted, root)
        # A run on W&B is continued where it is, whatever the environment says.
        configuration = resolved.configuration
        configuration.environ = {**configuration.environ, **place}
    stack.enter_context(RunLock(directory.root))
    remove_asides(directory.root)
    for change in find_changes(directory):
        logger.warning("Since the run was started, %s.", change)
    left = load_left(directory)
    if left.iteration > 0 and not directory.metrics.is_file():
        logger.warning("%s is gone: what was logged until now is lost.", directory.metrics)
    return left


def _find_automatically(resolved: Resolved, root: Path) -> RunDir | None:
    run_id = resolved.configuration.environ.get("WANDB_RUN_ID")
    if run_id:
        directory = RunDir(root / run_id)
        if resolved.configuration.is_requeued:
            _fetch(run_id, resolved, root)
        if not directory.config.is_file():
            return None
        if not is_same(load_config(directory), resolved.frozen):
            raise ConfigError(
                f"The run {directory.root} (WANDB_RUN_ID) is one of another configuration."
            )
        return directory
    return find_unfinished(root, resolved.frozen)


def _fetch(run_id: str, resolved: Resolved, root: Path) -> None:
    """Fetch a run that another machine may have begun, or gone on with."""
    from jade.remote.adoption import fetch_run

    environ = resolved.configuration.environ
    if resolve_mode(resolved.settings.wandb, environ) == "online":
        fetch_run(run_id, environ, root)


def _adapt(resolved: Resolved, left: Left, additional: str | None) -> Left:
    """Let the configuration say what the rest of the run is."""
    known = load_config(left.directory)
    is_finished = read_json(left.directory.status_file).get("status") == FINISHED
    if is_finished and additional is None:
        _require_more_to_do(resolved, left, known)
    if is_finished and left.state is None:
        raise ConfigError(
            f"{left.directory.run_id} is finished, but its checkpoints are gone: there is nothing "
            "to go on from. Start it again with jade train."
        )
    if additional is not None:
        resolved.change(**as_limits(left.total(additional)))
    seed = known.get("seed")
    if resolved.settings.seed not in (None, -1, seed):
        logger.warning("seed: the run has %s, %s is not used.", seed, resolved.settings.seed)
    for key in ("load", "load_strict"):
        if resolved.values[key] != known.get(key):
            logger.warning("%s: the run began with %s, which stays so.", key, known.get(key))
    resolved.change(seed=seed, load=known.get("load"), load_strict=known.get("load_strict", True))
    if left.state is not None:
        # The weights that it began with are in its past.
        resolved.settings_only(load=None)
    return dataclasses.replace(left, goes_beyond=is_finished or additional is not None)


def _require_more_to_do(resolved: Resolved, left: Left, known: Mapping[str, Any]) -> None:
    """Refuse to continue a finished run, unless it is to become longer."""
    reason = read_json(left.directory.status_file).get("reason")
    if all(known.get(key) == resolved.values[key] for key in ("epochs", "train_for")):
        raise ConfigError(
            f"{left.directory.run_id} is finished: {reason}. To train on, say how long: "
            "--total '20 epochs' in all, or --additional '10 epochs'."
        )
    if not _has_more_to_do(resolved, left):
        raise ConfigError(
            f"{left.directory.run_id} is finished, and has trained that long already: {reason}. "
            "--additional '10 epochs' adds to that."
        )


def _has_more_to_do(resolved: Resolved, left: Left) -> bool:
    """Tell whether an amount of the configuration is beyond what is done."""
    settings = resolved.settings
    if left.state is None:
        return True
    if settings.epochs is not None and settings.epochs > left.state["clock"]["epochs"]:
        return settings.train_for is None or _is_beyond(settings.train_for, left)
    return settings.epochs is None and _is_beyond(str(settings.train_for), left)


def _is_beyond(amount: str, left: Left) -> bool:
    limit = parse_amount(amount, "train_for", zero=True)
    done = (left.state or {})["clock"].get(limit.unit)
    return done is None or limit.number > done


@contextlib.contextmanager
def _time_limit(amount: str | None, watch: SignalWatch) -> Iterator[None]:
    """Ask training to stop a little before a time is over."""
    if amount is None:
        yield
        return
    limit_s = parse_amount(amount, "time_limit").number
    reserve_s = min(RESERVE_SHARE * limit_s, LONGEST_RESERVE_S)
    alarm = Alarm(lambda: watch.request(f"the time limit of {amount}"))
    alarm.set(time.monotonic() + limit_s - reserve_s)
    try:
        yield
    finally:
        alarm.cancel()


def _is_killed_worker(error: RuntimeError, watch: SignalWatch) -> bool:
    """Tell whether data workers fell to a signal that was meant for the whole job."""
    if "DataLoader worker" not in str(error):
        return False
    deadline = time.monotonic() + PATIENCE_S
    while watch.received is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return watch.received is not None


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
        resolved.change(seed=seed)
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
def determinism(*, enabled: bool) -> Iterator[None]:
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
