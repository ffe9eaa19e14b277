"""Run a sweep on this machine: claim points, start their runs, and put on record how they end."""

import contextlib
import functools
import math
import queue
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.echo import Echo
from jade.errors import ConfigError, RunInUseError, StorageError
from jade.heartbeat import Heartbeat
from jade.job import is_in_job
from jade.launch.launcher import WANDB_MODULES, WARM_MODULES, Launcher
from jade.launch.pace import Pace
from jade.launch.program import LOST, Program, make_program
from jade.launch.pruning import Pruning
from jade.launch.slots import Slot
from jade.launch.sweep_command import Order, ParameterFiles, build
from jade.launch.sweep_folder import SweepFolder
from jade.launch.sweep_runs import FAIL, SweepPoint, SweepRun, find_value, make_point, read_ended
from jade.launch.sweep_study import MAXIMIZE, STOPS, Claim, Draw, SweepStudy
from jade.launch.sweep_worker import BEAT_S
from jade.launch.trial import FINISHED, IMPOSSIBLE, INTERRUPTED, PREEMPTED, STOPPED, Trial
from jade.lock import is_held
from jade.run_dir import STOPPED as STOPPED_STATUS
from jade.signals import EXIT_INTERRUPTED, EXIT_PREEMPTED, STOP_FILE
from jade.sweep import Sweep
from jade.timespan import render_duration

# How often to look at running trials, and at what other workers and people want.
TICK_S, LOOK_S = 0.2, 1.0
# How often a storage that does not work is tried again.
RETRY_S = 2.0
# How often a run is started again because the process that had started it was gone.
MAX_LOSSES = 3


@dataclass(frozen=True, kw_only=True)
class RunnerOptions:
    """What somebody wants of a local sweep.

    Attributes:
        count: How many points to take at most.
        retry: How often a run that fails is tried again.
        time_limit_s: How long the sweep may take here in all.
        reserve_s: How long before that its runs are asked to stop.
        grace_s: How long runs may take to stop once the sweep has been asked to.
        kill_delay_s: How long a run may take to stop that the sweep does not want any more.
        is_warm: Whether runs are forked from a process that has everything imported.
        server_environ: Of that process.
    """

    count: int | None = None
    retry: int = 0
    time_limit_s: float | None = None
    reserve_s: float = 0.0
    grace_s: float = 300.0
    kill_delay_s: float = 30.0
    is_warm: bool = True
    server_environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How runs are started.

    Attributes:
        sweep: What is run.
        folder: Where its files are.
        working: The working directory of runs.
        environ: What every run has in its environment.
        arguments: What every run is told besides the command of the sweep.
        base_seed: The seed that is configured, if any.
        is_training: Whether the program is one of JADE, with run directories.
        uses_wandb: Whether runs may log to W&B.
    """

    sweep: Sweep
    folder: SweepFolder
    working: Path
    environ: Mapping[str, str]
    arguments: Sequence[str] = ()
    base_seed: Any = None
    is_training: bool = True
    uses_wandb: bool = False


@dataclass
class Seat:
    """A slot, and what is going on there."""

    slot: Slot
    run: SweepRun | None = None
    trial: Trial | None = None
    started: float = 0.0
    is_timed_out: bool = False
    is_pruned: bool = False
    # A run whose former process is still at its last checkpoint waits for its end.
    is_waiting: bool = False


class LocalSweep:
    """Works at a sweep until nothing is left to do.

    Args:
        setup: How runs are started.
        study: Hands out points.
        slots: Where runs are.
        options: What somebody wants.
        draw: Draws further points; None for a grid.
    """

    def __init__(
        self,
        setup: Setup,
        study: SweepStudy,
        slots: Sequence[Slot],
        options: RunnerOptions,
        draw: Draw | None = None,
    ) -> None:
        self._setup = setup
        self._study = study
        self._options = options
        self._draw = draw
        self._metric = setup.sweep.metric.name if setup.sweep.metric else None
        self.seats = [Seat(slot) for slot in slots]
        self.on_line: Callable[[str], None] = lambda _: None
        self.on_tick: Callable[[], None] = lambda: None
        self.failures: list[SweepRun] = []
        self.run_seconds: list[float] = []
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._pending: list[SweepRun] = []
        # What has stopped by itself is for the next call.
        self._put_off: list[SweepRun] = []
        self._deliveries: list[Callable[[], object]] = []
        self._num_claimed = 0
        self._takes_work = True
        self._exit_code = 0
        self._received: int | None = None
        self._give_up_at: float | None = None
        self._next_look = self._next_try = self._next_start = self._next_question = 0.0
        # Whether somebody wants to leave at once, and whether the storage did not work last.
        self._is_hurried = self._is_storage_away = False
        self._stops_seen: Any = None
        # Whether a question for points may be answered by one.
        self._is_more_expected = True
        self._pruning = Pruning(setup.sweep) if setup.sweep.early_stop else None
        self._launcher: Launcher | None = None
        self._said: set[str] = set()
        self._is_in_job = is_in_job(setup.environ)
        self._echo = Echo(is_possible=self._is_in_job)
        self._pace = Pace(options.time_limit_s, options.reserve_s)
        self._end_at: float | None = None

    # The loop

    def run(self) -> int:
        """Work until there is nothing left to do, and return the exit code."""
        self._stops_seen = self._study.attributes().get(STOPS)
        self._study.beat()
        self._end_at = self._pace.start(time.monotonic())
        self._look_for_target()
        try:
            with Heartbeat(self._study.beat, BEAT_S):
                self._work()
        finally:
            self._echo.close()
            self._leave()
        return self._exit_code

    def _work(self) -> None:
        modules = (*WARM_MODULES, *(WANDB_MODULES if self._setup.uses_wandb else ()))
        self._launcher = Launcher(
            self._setup.folder.work / "server.log",
            modules if self._options.is_warm else (),
            environ=self._options.server_environ,
        )
        self._launcher.listen(
            lambda run_id, code: self._events.put(functools.partial(self._end_by_id, run_id, code)),
            lambda text: self._events.put(functools.partial(self._say_once, text)),
        )
        try:
            while not self._is_done():
                # First of all: what is drawn and looked at meanwhile costs no slot any time.
                self._fill_seats()
                self._look_at_the_clock()
                with contextlib.suppress(OSError):
                    self.on_tick()
                self._wait_for_event()
        finally:
            self._launcher.close()

    def receive(self, number: int) -> None:
        """Take a signal: once, runs are asked to stop; twice, they are ended."""
        if not self._echo.is_one(number):
            self._study.hurry()
            self._events.put(functools.partial(self._obey, number))

    def _is_done(self) -> bool:
        if any(seat.run is not None for seat in self.seats):
            return False
        if self._deliveries and not self._is_hurried:
            return False
        if not self._takes_work:
            return True
        return not self._pending and not self._may_claim_more

    @property
    def _may_claim_more(self) -> bool:
        count = self._options.count
        return self._is_more_expected and (count is None or self._num_claimed < count)

    def _wait_for_event(self) -> None:
        try:
            self._events.get(timeout=TICK_S)()
            while True:
                self._events.get_nowait()()
        except queue.Empty:
            pass

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        for seat in self.seats:
            self._watch(seat, now)
        if self._give_up_at is not None and now >= self._give_up_at:
            self._give_up_at = None
            self._is_hurried = True
            self._kill_all()
        if self._end_at is not None and now >= self._end_at:
            self._end_at = None
            self._stop("The time limit is near", signal.SIGTERM, EXIT_PREEMPTED)
        self._deliver(now)
        if now >= self._next_look:
            self._next_look = now + LOOK_S
            self._try(self._look_at_the_study)

    def _look_at_the_study(self) -> None:
        if time.monotonic() >= self._next_question:
            # A worker may be gone, and have left something.
            self._next_question = time.monotonic() + BEAT_S
            self._is_more_expected = True
        stops = self._study.attributes().get(STOPS)
        if stops != self._stops_seen:
            self._stops_seen = stops
            self._stop("`jade sweep stop` was called", signal.SIGTERM, EXIT_PREEMPTED)
        if self._takes_work:
            self._look_for_target()

    def _look_for_target(self) -> None:
        """Take no more work once the best point, whoever has run it, is as good as is wanted."""
        metric = self._setup.sweep.metric
        if metric is None or metric.target is None:
            return
        best = self._study.best_value()
        sign = -1.0 if metric.goal == MAXIMIZE else 1.0
        if best is not None and sign * best <= sign * metric.target:
            self._quit(f"The target is reached: {metric.name}={best:.6g}.", 0)

    # Storage, which may be away for a while

    def _try(self, act: Callable[[], object]) -> bool:
        """Use the storage; if it does not work, say so once and go on with what is running."""
        try:
            act()
        except StorageError as error:
            self._is_storage_away = True
            self._say_once(f"{error} Trying again; what is running goes on.")
            return False
        self._is_storage_away = False
        return True

    def _deliver(self, now: float) -> None:
        """Put on record what has ended; until the storage takes it, it is in the run directory."""
        while self._deliveries and now >= self._next_try:
            if not self._try(self._deliveries[0]):
                self._next_try = now + RETRY_S
                return
            del self._deliveries[0]

    def _leave(self) -> None:
        if self._is_hurried and self._is_storage_away:
            # What has come out is in the run directories, and who is gone works at nothing.
            return
        with contextlib.suppress(StorageError):
            for act in self._deliveries:
                act()
            left = [*self._pending, *self._put_off]
            for point in {id(run.point): run.point for run in left}.values():
                self._study.release(point.claim)
            self._study.beat(has_ended=True)

    # Starting

    def _fill_seats(self) -> None:
        for seat in self.seats:
            if seat.run is None and self._takes_work and time.monotonic() >= self._next_start:
                run = self._next_run()
                if run is None:
                    return
                self._seat_run(seat, run)

    def _next_run(self) -> SweepRun | None:
        while self._takes_work:
            now = time.monotonic()
            if self._pace.is_late(now) and (self._pending or self._may_claim_more):
                self._quit(self._pace.describe(now), EXIT_PREEMPTED)
                return None
            if not self._pending and not self._claim():
                return None
            run = self._pending.pop(0)
            if run.point.is_over:
                continue
            status = None if is_held(run.directory.root) else read_ended(run)
            if status is None:
                return run
            # Its worker came no further than this.
            self._take_result(run, status, is_stopped=status["status"] == STOPPED_STATUS)
        return None

    def _claim(self) -> bool:
        if not self._may_claim_more or time.monotonic() < self._next_try:
            return False
        found: list[Claim | None] = []
        if not self._try(lambda: found.append(self._study.claim(self._draw))):
            self._next_try = time.monotonic() + RETRY_S
            return False
        claim = found[0]
        if claim is None:
            self._is_more_expected = False
            return False
        self._num_claimed += 1
        setup = self._setup
        point = make_point(claim, self._study.name, setup.base_seed, setup.folder.runs)
        self._pending += point.runs
        return True

    def _seat_run(self, seat: Seat, run: SweepRun) -> None:
        seat.run, seat.started = run, time.monotonic()
        seat.is_timed_out = seat.is_pruned = False
        seat.is_waiting = is_held(run.directory.root)
        if not seat.is_waiting:
            self._start(seat, run)

    def _start(self, seat: Seat, run: SweepRun) -> None:
        seat.is_waiting, seat.started = False, time.monotonic()
        try:
            self._launch(seat, run)
        except OSError as error:
            # The disk may be full; what runs may still come to its end, and make room.
            if seat.trial is not None:
                with contextlib.suppress(OSError):
                    seat.trial.close()
            seat.run = seat.trial = None
            self._pending.insert(0, run)
            self._next_start = time.monotonic() + RETRY_S
            reason, where = error.strerror or error, error.filename or self._setup.folder.work
            self._say_once(
                f"A run cannot be started: {reason} ({where}). Trying again; others go on."
            )

    def _launch(self, seat: Seat, run: SweepRun) -> None:
        folder = self._setup.folder
        folder.stop_file(run.run_id).unlink(missing_ok=True)
        order = Order(run.run_id, self._setup.sweep.command.program, run.values)
        seat.trial = Trial(order, seat.slot, folder.work, run.directory)
        try:
            program = self._make_program(order, seat.slot)
        except ConfigError as error:
            seat.trial.output.write(f"jade: error: {error}\n".encode())
            seat.trial.output.flush()
            self._events.put(functools.partial(self._end, seat, error.exit_code))
            return
        if self._options.is_warm:
            self._server.prepare(program)
        else:
            program = program.as_ordinary()
        self._server.start(run.run_id, program, seat.trial.output.fileno())

    def _make_program(self, order: Order, slot: Slot) -> Program:
        setup = self._setup
        tokens = setup.sweep.command.tokens
        files = ParameterFiles.of(setup.folder.work, order.run_id)
        files.write(order.values, tokens)
        environ = {
            **setup.environ,
            **slot.environ,
            "WANDB_RUN_ID": order.run_id,
            "WANDB_SWEEP_PARAM_PATH": str(files.yaml_path),
            STOP_FILE: str(setup.folder.stop_file(order.run_id)),
        }
        command = [*build(tokens, order, files, environ), *setup.arguments]
        return make_program(command, environ, str(setup.working), slot.cores)

    @property
    def _server(self) -> Launcher:
        if self._launcher is None:
            raise AssertionError("the sweep does not run")
        return self._launcher

    # Watching

    def _watch(self, seat: Seat, now: float) -> None:
        run, trial = seat.run, seat.trial
        if run is None:
            return
        if seat.is_waiting:
            if not is_held(run.directory.root):
                seat.run = None
                self._pending.insert(0, run)
            return
        if trial is None:
            return
        trial.place_console()
        if trial.kill_at is not None and now >= trial.kill_at:
            trial.kill_at = None
            self._server.signal(run.run_id, signal.SIGKILL)
        timeout_s = self._setup.sweep.local.timeout_s
        if timeout_s is not None and now - seat.started > timeout_s and not seat.is_timed_out:
            seat.is_timed_out = True
            self._ask_to_stop(seat)
        if self._pruning is not None and run.repetition == 1 and not trial.was_asked_to_stop:
            self._try(functools.partial(self._consider, self._pruning, seat, run))

    def _consider(self, pruning: Pruning, seat: Seat, run: SweepRun) -> None:
        if pruning.is_hopeless(run, self._study):
            seat.is_pruned = True
            with contextlib.suppress(OSError):
                self._setup.folder.stop_file(run.run_id).touch()
            self._ask_to_stop(seat)

    def _ask_to_stop(self, seat: Seat) -> None:
        if seat.trial is not None and seat.run is not None and not seat.trial.was_asked_to_stop:
            seat.trial.was_asked_to_stop = True
            seat.trial.kill_at = time.monotonic() + self._options.kill_delay_s
            self._server.signal(seat.run.run_id, signal.SIGTERM)

    # Ends

    def _end_by_id(self, run_id: str, code: int) -> None:
        for seat in self.seats:
            if seat.run is not None and seat.run.run_id == run_id and seat.trial is not None:
                self._end(seat, code)

    def _end(self, seat: Seat, code: int) -> None:
        run, trial = seat.run, seat.trial
        if run is None or trial is None:
            return
        trial.end(code)
        self._judge(seat, run, trial)
        trial.close()
        with contextlib.suppress(OSError):
            self._tidy(run)
        seat.run = seat.trial = None
        # Somebody else may have left something in the meantime.
        self._is_more_expected = True

    def _judge(self, seat: Seat, run: SweepRun, trial: Trial) -> None:
        """Find out what the end of a process means."""
        outcome, was_pruned = trial.outcome, seat.is_pruned
        if seat.is_timed_out and outcome != FINISHED:
            limit = render_seconds(self._setup.sweep.local.timeout_s or 0.0)
            self._take_failure(run, trial, f"it took longer than {limit}")
        elif outcome == FINISHED or was_pruned or outcome == STOPPED == trial.status.get("status"):
            self.run_seconds.append(trial.duration_s)
            self._pace.add(trial.duration_s)
            is_stopped = was_pruned or outcome == STOPPED
            self._take_result(run, trial.status, trial, is_stopped=is_stopped)
        elif trial.was_asked_to_stop or self._is_in_use(trial) or self._is_lost(run, trial):
            # It goes on where it was left, once its former process is gone.
            self._pending.append(run)
        elif outcome in (PREEMPTED, INTERRUPTED):
            self._put_off_run(run, trial)
        else:
            self._take_failure(run, trial, trial.cause)

    def _is_in_use(self, trial: Trial) -> bool:
        """Tell whether a former process of the run has been faster than the one that ended."""
        return self._setup.is_training and trial.code == RunInUseError.exit_code

    def _is_lost(self, run: SweepRun, trial: Trial) -> bool:
        """Tell whether nobody knows how it ended: it may be writing its last checkpoint."""
        run.num_losses += trial.code == LOST
        return trial.code == LOST and run.num_losses <= MAX_LOSSES

    def _put_off_run(self, run: SweepRun, trial: Trial) -> None:
        """Leave a run that has stopped by itself, such as by a time limit, for the next call."""
        self._put_off.append(run)
        self._exit_code = self._exit_code or EXIT_PREEMPTED
        self._say(
            f"{run.run_id}  {describe_values(run)}  stopped by itself ({trial.cause}); "
            "the next call goes on with it"
        )

    def _take_result(
        self,
        run: SweepRun,
        status: Mapping[str, Any],
        trial: Trial | None = None,
        *,
        is_stopped: bool,
    ) -> None:
        value = find_value(status, self._metric)
        if value is None and not is_stopped:
            known = ", ".join(sorted(status.get("latest") or {})) or "nothing"
            reason = f"it never logged the metric {self._metric!r}, but {known}"
            self._take_failure(run, None, reason, may_retry=False)
            return
        point = run.point
        point.is_pruned |= is_stopped
        point.results[run.repetition] = {
            "id": run.run_id,
            "value": value,
            "status": "stopped" if is_stopped else "finished",
            "seed": run.values.get("seed"),
            "seconds": None if trial is None else round(trial.duration_s, 3),
        }
        took = "" if trial is None else f"  {render_seconds(trial.duration_s)}"
        shown = "" if self._metric is None or value is None else f"  {self._metric}={value:.6g}"
        self._say(
            f"{run.run_id}  {describe_values(run)}{took}{shown}  "
            f"{'stopped' if is_stopped else 'finished'}"
        )
        self._settle(point)

    def _take_failure(
        self, run: SweepRun, trial: Trial | None, reason: str, *, may_retry: bool = True
    ) -> None:
        run.num_failures += 1
        run.reason = reason
        run.tail = trial.tail() if trial is not None else []
        is_possible = trial is None or trial.outcome != IMPOSSIBLE
        if may_retry and is_possible and run.num_failures <= self._options.retry:
            again = f"{run.num_failures} of {self._options.retry}"
            self._say(f"{run.run_id}  {describe_values(run)}  failed ({reason}); retry {again}")
            self._pending.insert(0, run)
            return
        self._say(f"{run.run_id}  {describe_values(run)}  failed ({reason})")
        for line in run.tail:
            self._say(f"    {line}")
        if not run.point.has_failed:
            self.failures.append(run)
        run.point.has_failed = True
        run.point.results[run.repetition] = {
            "id": run.run_id,
            "value": None,
            "status": "failed",
            "reason": reason,
        }
        self._settle(run.point)

    def _settle(self, point: SweepPoint) -> None:
        """Put a point on record once nothing more is to come of it."""
        if not point.is_over or point.is_released:
            return
        point.is_released = True
        worst = -math.inf if self._study.goal == MAXIMIZE else math.inf
        value = None if point.state == FAIL else point.objective(worst)
        state = point.state if value is not None or point.state != "COMPLETE" else FAIL
        result: dict[str, Any] = {"runs": [point.results[key] for key in sorted(point.results)]}
        if point.has_failed:
            result["reason"] = next((run.reason for run in point.runs if run.reason), None)
        claim = point.claim
        self._deliveries.append(lambda: self._study.finish(claim, state, value, result))
        self._deliver(time.monotonic())
        self._try(self._look_for_target)

    def _tidy(self, run: SweepRun) -> None:
        files = ParameterFiles.of(self._setup.folder.work, run.run_id)
        for path in (files.yaml_path, files.json_path, self._setup.folder.stop_file(run.run_id)):
            path.unlink(missing_ok=True)

    # Stopping

    def _obey(self, number: int) -> None:
        if self._received is not None:
            self._is_hurried = True
            self._hurry(number)
            return
        self._received = number
        code = EXIT_INTERRUPTED if number == signal.SIGINT else EXIT_PREEMPTED
        self._stop(f"{signal.Signals(number).name} received", number, code)

    def _hurry(self, number: int) -> None:
        """End what is running at once; in a job, a last checkpoint that is being written may be."""
        if not self._is_in_job or number == signal.SIGINT:
            self._say("A second signal: runs are killed.")
            self._kill_all()
            return
        self._say("A second signal: runs end at once.")
        for seat in self.seats:
            if seat.run is not None and seat.trial is not None:
                self._server.signal(seat.run.run_id, number)
        self._give_up_after(self._options.kill_delay_s)

    def _stop(self, reason: str, number: int, code: int) -> None:
        """Take no more work, and ask what is running to stop where it can go on later."""
        running = [seat for seat in self.seats if seat.run is not None]
        noun = "run" if len(running) == 1 else "runs"
        what = f"; {len(running)} {noun} asked to stop" if running else ""
        self._quit(f"{reason}{what}.", code)
        for seat in running:
            if seat.trial is None:
                self._pending += [seat.run] if seat.run is not None else []
                seat.run, seat.is_waiting = None, False
            elif seat.run is not None and not seat.is_pruned:
                # One that has been asked would take it for a second signal.
                if not seat.trial.was_asked_to_stop:
                    self._server.signal(seat.run.run_id, number)
                seat.trial.was_asked_to_stop = True
        self._give_up_after(self._options.grace_s)

    def _give_up_after(self, patience_s: float) -> None:
        """Set when runs are killed; nothing makes that later."""
        until = time.monotonic() + patience_s
        self._give_up_at = until if self._give_up_at is None else min(until, self._give_up_at)

    def _quit(self, reason: str, code: int) -> None:
        """Take no more work; what is running may finish."""
        if self._takes_work:
            self._takes_work = False
            self._exit_code = code or self._exit_code
            self._say(f"{reason} No more work is taken.")

    def _kill_all(self) -> None:
        for seat in self.seats:
            if seat.run is not None and seat.trial is not None:
                seat.trial.was_asked_to_stop = True
                self._server.signal(seat.run.run_id, signal.SIGKILL)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def _say(self, text: str) -> None:
        # Where it goes to may be a file on a full disk.
        with contextlib.suppress(OSError):
            self.on_line(text)


def describe_values(run: SweepRun) -> str:
    """Render what is swept, in one line."""
    return " ".join(f"{key}={value}" for key, value in run.values.items())


def render_seconds(seconds: float) -> str:
    """Render a duration; short ones exactly."""
    return f"{seconds:.1f} s" if seconds < 60 else render_duration(seconds)
