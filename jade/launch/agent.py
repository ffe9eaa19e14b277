"""Run the trials of a W&B sweep: ask for work, start it, and say what came of it."""

import contextlib
import functools
import queue
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jade.echo import Echo
from jade.errors import ConfigError, JadeError, MachineError, RunInUseError
from jade.job import is_in_job
from jade.launch.courier import Courier
from jade.launch.failures import FailureRecord
from jade.launch.launcher import Launcher
from jade.launch.left_orders import LeftOrders, again
from jade.launch.pace import Pace
from jade.launch.preflight import Finding
from jade.launch.program import LOST, Program, make_program
from jade.launch.slots import Slot
from jade.launch.sweep_command import Order, ParameterFiles, build
from jade.launch.tally import Tally
from jade.launch.trial import FINISHED, WANDB_KEY, Trial
from jade.launch.wandb_sweep import (
    AccessDeniedError,
    ServerAwayError,
    SweepGoneError,
    WandbSweep,
)
from jade.launch.workplace import Workplace
from jade.lock import is_held
from jade.run_dir import RUNNING, RunDir
from jade.signals import EXIT_INTERRUPTED, EXIT_PREEMPTED
from jade.timespan import render_duration

# How often W&B is told that trials are alive, and asked for new ones while there are none.
INTERVAL_S = 5.0
# How long to wait before W&B is asked again that did not answer, at first and at most.
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
# How long an agent that takes no more work waits for answers that may hold some.
ANSWER_TIMEOUT_S = 20.0
# How often an agent without work asks why that is.
STATE_INTERVAL_S = 30.0
# How often, and for how long, W&B is asked whose a run is that the job had before. W&B takes a run
# for crashed that is silent for five minutes.
DOUBT_INTERVAL_S, DOUBT_S = 15.0, 360.0
# How often to look whether a run is free that its former process still has.
LOOK_S = 1.0
# How often a trial is started again that is lost, or whose run is in use.
MAX_LOSSES = 3
OVER = ("FINISHED", "CANCELED", "CANCELLED")
PAUSED = "PAUSED"
# W&B would look up all packages for each run; those of JADE have them in their provenance.
KNOWN_ANYWAY = {"WANDB_X_SAVE_REQUIREMENTS": "false"}
RUN_COMMANDS = ("run", "resume")


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """What somebody wants of an agent.

    Attributes:
        count: How many trials to take at most.
        max_failures: As many failures in a row end the work.
        time_limit_s: How long the agent may take in all.
        reserve_s: How long before that its trials are asked to stop.
        grace_s: How long trials may take to stop once the agent has been asked to.
        kill_delay_s: How long a trial may take to stop that W&B wants to stop.
        patience_s: How long W&B may stay away.
    """

    count: int | None = None
    max_failures: int = 5
    time_limit_s: float | None = None
    reserve_s: float = 0.0
    grace_s: float = 300.0
    kill_delay_s: float = 30.0
    patience_s: float = 6 * 3600.0


@dataclass
class _Answer:
    """What W&B wants; its state is asked for when there was nothing to do."""

    commands: Sequence[Mapping[str, Any]]
    state: str | None = None


@dataclass
class _Question:
    run_ids: list[str]
    is_idle: bool


@dataclass
class _Seat:
    """A slot, the agent that W&B takes it for, and the trials that it was given."""

    slot: Slot
    agent_id: str
    courier: "Courier[_Question, _Answer]"
    trials: list[Trial] = field(default_factory=list)
    waiting: list[Order] = field(default_factory=list)
    next_question: float = 0.0
    last_state: float = 0.0
    # From a question until its answer has been followed, not only until it has come.
    is_asking: bool = False
    is_checking: bool = False
    is_closed: bool = False

    @property
    def is_idle(self) -> bool:
        return not self.trials and not self.waiting

    @property
    def run_ids(self) -> list[str]:
        return [trial.run_id for trial in self.trials] + [order.run_id for order in self.waiting]


class Agent:
    """An agent of W&B; one that has several slots is, to W&B, as many agents.

    Args:
        sweep: What it works for.
        slots: Where trials run.
        options: What somebody wants of it.
        workplace: Where it works.
        launcher: Starts its trials, and is closed by it.
        report: Gets one line after the other.
    """

    def __init__(
        self,
        sweep: WandbSweep,
        slots: Sequence[Slot],
        options: AgentOptions,
        workplace: Workplace,
        launcher: Launcher,
        report: Callable[[str], None],
    ) -> None:
        self._sweep = sweep
        self._options = options
        self._workplace = workplace
        self._report = report
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._tokens = [str(token) for token in sweep.config.get("command") or ()]
        metric = sweep.config.get("metric")
        self._metric = metric.get("name") if isinstance(metric, Mapping) else None
        self._failures = FailureRecord(options.max_failures)
        self._pace = Pace(options.time_limit_s, options.reserve_s)
        self._is_in_job = is_in_job(workplace.environ)
        self._echo = Echo(is_possible=self._is_in_job)
        self.tally = Tally(self._metric, _goal(metric))
        self._num_taken = self._num_returning = 0
        self._takes_work, self._exit_code = True, 0
        self._received: int | None = None
        self._give_up_at: float | None = None
        self._forget_answers_at: float | None = None
        self._returns: Courier[Order, None] = Courier(self._return, self._note_return)
        self._end_at: float | None = None
        self._away_since: float | None = None
        self._wait_s = FIRST_WAIT_S
        self._said: set[str] = set()
        self._left = LeftOrders(
            workplace.sweep_folder,
            workplace.experiments_root,
            workplace.environ,
            sweep.read_run_state,
        )
        self._doubts: Courier[None, Mapping[str, str]] = Courier(
            lambda _: self._left.judge(),
            lambda found: self._events.put(functools.partial(self._take_verdicts, found)),
        )
        self._next_doubt = self._doubt_until = 0.0
        self._losses, self._lost = Counter[str](), set[str]()
        self._seats = [self._make_seat(slot) for slot in slots]
        self._launcher = launcher
        launcher.listen(
            self._hear_of_end,
            lambda text: self._events.put(functools.partial(self._say_once, text)),
        )

    # The loop

    def run(self) -> int:
        """Work until there is nothing left to do, and return the exit code."""
        started = time.monotonic()
        self._end_at = self._pace.start(started)
        self._hear_what_came_early()
        self._take_over()
        try:
            while not self._is_done():
                self._ask_where_due()
                self._wait_for_event()
                self._look_at_the_clock()
        finally:
            self._launcher.close()
            self._echo.close()
        self._report(self.tally.summary(time.monotonic() - started))
        if self._exit_code == 0 and self.tally.has_only_failures:
            return 1
        return self._exit_code

    def _hear_what_came_early(self) -> None:
        """Obey signals that were there before the first question: W&B would hand out a point."""
        while not self._events.empty():
            self._events.get()()

    def _take_over(self) -> None:
        """Go on with what a former process of the same job was cut off from."""
        left = self._left.take_over()
        now = time.monotonic()
        self._next_doubt, self._doubt_until = now + DOUBT_INTERVAL_S, now + DOUBT_S
        if self._left.is_in_doubt:
            wait = render_duration(DOUBT_S)
            self._report(f"Others may have runs of this job by now: W&B is asked for up to {wait}.")
        self._go_on_with(left)

    def _go_on_with(self, left: Sequence[Order]) -> None:
        for order in left if self._takes_work else ():
            self._num_taken += 1
            self._report(f"{order.run_id}  was cut off with this job, and goes on.")
            seat = min(self._seats, key=lambda seat: len(seat.run_ids))
            seat.waiting.append(order)
            self._start_next(seat)

    def _take_verdicts(self, found: Mapping[str, str] | Exception) -> None:
        now = time.monotonic()
        self._next_doubt = now + DOUBT_INTERVAL_S
        if not isinstance(found, Exception) and self._takes_work:
            self._go_on_with(self._left.settle(found))
        if now >= self._doubt_until:
            self._left.give_up_doubts()

    def receive(self, number: int) -> None:
        """Take a signal: once, trials are asked to stop; twice, they are ended."""
        if not self._echo.is_one(number):
            self._events.put(functools.partial(self._obey, number))

    def _is_done(self) -> bool:
        if any(not seat.is_idle for seat in self._seats) or self._num_returning:
            return False
        is_asking = any(seat.is_asking for seat in self._seats)
        if not self._takes_work:
            # W&B counts what it answers with as handed out, also if nobody listens any more.
            return not is_asking or self._forget_answers_at is None
        if any(seat.is_checking for seat in self._seats):
            return False
        if all(seat.is_closed for seat in self._seats):
            return not self._left.is_in_doubt
        count = self._options.count
        return count is not None and self._num_taken >= count and not is_asking

    def _wait_for_event(self) -> None:
        try:
            self._events.get(timeout=max(0.0, self._next_moment() - time.monotonic()))()
            while True:
                self._events.get_nowait()()
        except queue.Empty:
            pass

    def _next_moment(self) -> float:
        moments = [
            time.monotonic() + INTERVAL_S,
            self._give_up_at,
            self._end_at,
            self._forget_answers_at,
        ]
        moments += [seat.next_question for seat in self._seats if self._may_ask(seat)]
        moments += [trial.kill_at for trial in self._trials()]
        if any(seat.waiting and not seat.trials for seat in self._seats):
            moments.append(time.monotonic() + LOOK_S)
        return min(moment for moment in moments if moment is not None)

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        for trial in self._trials():
            trial.place_console()
            if trial.kill_at is not None and now >= trial.kill_at:
                trial.kill_at = None
                self._launcher.signal(trial.run_id, signal.SIGKILL)
        if self._end_at is not None and now >= self._end_at:
            self._end_at = None
            self._stop("The time limit is near", signal.SIGTERM, EXIT_PREEMPTED)
        if self._give_up_at is not None and now >= self._give_up_at:
            self._give_up_at = None
            self._kill_all()
        if self._forget_answers_at is not None and now >= self._forget_answers_at:
            self._forget_answers_at = None
        if self._left.is_in_doubt and now >= self._next_doubt:
            self._next_doubt = float("inf")
            self._doubts.send(None)
        for seat in self._seats:
            self._start_next(seat)

    # Questions to W&B

    def _make_seat(self, slot: Slot) -> _Seat:
        agent_id = self._sweep.register()
        seat: list[_Seat] = []
        courier: Courier[_Question, _Answer] = Courier(
            lambda question: self._question(seat[0], question),
            lambda answer: self._events.put(functools.partial(self._take_answer, seat[0], answer)),
        )
        seat.append(_Seat(slot, agent_id, courier))
        return seat[0]

    def _question(self, seat: _Seat, question: _Question) -> _Answer:
        """Ask W&B, in the thread of a courier."""
        answer = _Answer(self._sweep.ask(seat.agent_id, question.run_ids))
        is_time = time.monotonic() >= seat.last_state + STATE_INTERVAL_S
        if question.is_idle and not answer.commands and is_time:
            seat.last_state = time.monotonic()
            answer.state = self._sweep.read_state()
        return answer

    def _ask_where_due(self) -> None:
        now = time.monotonic()
        is_late = self._pace.is_late(now)
        for seat in self._seats:
            if is_late and seat.is_idle and not seat.is_asking and self._may_ask(seat):
                self._quit(self._pace.describe(now), EXIT_PREEMPTED)
            if self._may_ask(seat) and now >= seat.next_question:
                seat.next_question = now + INTERVAL_S
                seat.is_asking = True
                seat.courier.send(_Question(seat.run_ids, seat.is_idle))

    def _may_ask(self, seat: _Seat) -> bool:
        if seat.is_closed or seat.is_asking or seat.is_checking:
            return False
        if not seat.is_idle:
            return True
        return self._takes_work and self._has_room()

    def _has_room(self) -> bool:
        """Tell whether one more trial may be taken, also if all questions are answered by one."""
        if self._options.count is None:
            return True
        open_questions = sum(seat.is_asking and seat.is_idle for seat in self._seats)
        return self._num_taken + open_questions < self._options.count

    def _take_answer(self, seat: _Seat, answer: _Answer | Exception) -> None:
        seat.is_asking = False
        if isinstance(answer, Exception):
            self._take_problem(seat, answer)
            return
        if self._away_since is not None:
            away_s = time.monotonic() - self._away_since
            self._away_since, self._wait_s = None, FIRST_WAIT_S
            self._report(f"W&B answers again after {render_duration(away_s)}.")
        for command in answer.commands:
            self._follow(seat, command)
        if answer.state is not None:
            self._take_state(seat, answer.state)

    def _take_problem(self, seat: _Seat, error: Exception) -> None:
        if isinstance(error, SweepGoneError):
            self._quit(f"The sweep {self._sweep} was deleted.", 1)
            seat.is_closed = not seat.trials
            seat.next_question = float("inf")
            return
        if isinstance(error, AccessDeniedError):
            self._quit(f"{self._sweep.url}: {error}. Log in again: wandb login --relogin.", 1)
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
            if not isinstance(error, AccessDeniedError):
                self._report(f"W&B does not answer ({error}); asking again until it does.")
        if now - self._away_since > self._options.patience_s:
            away = render_duration(now - self._away_since)
            self._quit(f"W&B has not answered for {away}.", 1)
        # Jitter: after an outage not all agents of a cluster ask at once.
        seat.next_question = now + self._wait_s * random.uniform(0.5, 1.0)  # noqa: S311
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        if not isinstance(error, ServerAwayError | AccessDeniedError):
            raise error

    def _take_state(self, seat: _Seat, state: str) -> None:
        if state in OVER:
            seat.is_closed = True
            self._say_once(f"The sweep is {state.lower()}: there is no more work.")
        elif state == PAUSED:
            self._say_once("The sweep is paused: waiting until it goes on.")
        else:
            self._said.discard("The sweep is paused: waiting until it goes on.")

    # What W&B wants

    def _follow(self, seat: _Seat, command: Mapping[str, Any]) -> None:
        kind = command.get("type")
        if kind in RUN_COMMANDS:
            self._num_taken += 1
            order = Order.read(command)
            self._lost.discard(order.run_id)
            # From now on it is known to W&B as ours, also if we stop before it begins.
            self._left.add(order)
            seat.waiting.append(order)
            self._start_next(seat)
        elif kind == "stop":
            for trial in seat.trials:
                if trial.run_id == command.get("run_id"):
                    self._ask_to_stop(trial, signal.SIGTERM, self._options.kill_delay_s)
        elif kind == "exit":
            seat.is_closed = True
            self._give_back(seat.waiting)
            self._say_once("W&B has no more work.")
            for trial in seat.trials:
                self._ask_to_stop(trial, signal.SIGTERM, self._options.kill_delay_s)
        else:
            self._say_once(f"W&B sent the command {kind!r}, which is not known here.")

    def _start_next(self, seat: _Seat) -> None:
        if not self._takes_work:
            self._give_back(seat.waiting)
        if seat.trials or not seat.waiting:
            return
        order = self._choose(seat)
        if order is None:
            return
        try:
            self._start(seat, order)
        except (OSError, JadeError) as error:
            # A full disk, for one: the trial was not begun, and somebody else may have it.
            for trial in seat.trials:
                with contextlib.suppress(OSError):
                    trial.close()
            seat.trials.clear()
            self._quit(f"{order.run_id} cannot be started here: {error}.", 1)
            self._give_back([order])

    def _choose(self, seat: _Seat) -> Order | None:
        """Take the next order whose run nobody has; those that need nothing more are left out."""
        for order in list(seat.waiting):
            if self._is_in_use(order):
                self._say_once(f"{order.run_id}  is in use by another process: waiting for it.")
                continue
            seat.waiting.remove(order)
            status = self._left.status(order.run_id)
            if order.run_id not in self._lost or status in (None, RUNNING):
                return order
            # Nobody could say how it ended, but it did, and has told W&B.
            self._left.remove(order.run_id)
            self._report(f"{order.run_id}  has ended by itself: {status}.")
        return None

    def _is_in_use(self, order: Order) -> bool:
        """Tell whether another process has the run, such as a former one of its own."""
        root = self._workplace.experiments_root
        return root is not None and is_held(root / order.run_id)

    def _start(self, seat: _Seat, order: Order) -> None:
        trial = self._make_trial(order, seat.slot)
        seat.trials.append(trial)
        try:
            program = self._make_program(order, seat.slot)
        except ConfigError as error:
            trial.output.write(f"jade: error: {error}\n".encode())
            self._events.put(functools.partial(self._end, seat, trial, error.exit_code))
            return
        if program.kind is None:
            self._say_once(
                f"{program.arguments[0]} is not a program of this Python: each trial is started "
                "as an ordinary process."
            )
        elif self._launcher.is_warm:
            if self._workplace.experiments_root is not None:
                self._launcher.prepare(program)
        else:
            program = program.as_ordinary()
        self._launcher.start(trial.run_id, program, trial.output.fileno())

    def _make_trial(self, order: Order, slot: Slot) -> Trial:
        root = self._workplace.experiments_root
        directory = RunDir(root / order.run_id) if root is not None else None
        return Trial(order, slot, self._workplace.sweep_folder, directory)

    def _make_program(self, order: Order, slot: Slot) -> Program:
        place = self._workplace
        files = ParameterFiles.of(place.sweep_folder, order.run_id)
        files.write(order.values, self._tokens)
        environ = {
            **(KNOWN_ANYWAY if place.experiments_root is not None else {}),
            **place.environ,
            **slot.environ,
            "WANDB_RUN_ID": order.run_id,
            "WANDB_SWEEP_PARAM_PATH": str(files.yaml_path),
        }
        command = build(self._tokens, order, files, environ)
        return make_program(command, environ, str(place.folder))

    # The end of trials

    def _hear_of_end(self, run_id: str, code: int) -> None:
        """Pass the end of a process on, from the thread of the launcher."""
        self._events.put(functools.partial(self._end_by_id, run_id, code))

    def _end_by_id(self, run_id: str, code: int) -> None:
        for seat in self._seats:
            for trial in [trial for trial in seat.trials if trial.run_id == run_id]:
                self._end(seat, trial, code)

    def _end(self, seat: _Seat, trial: Trial, code: int) -> None:
        seat.trials.remove(trial)
        trial.end(code)
        if self._is_to_go_on(trial):
            trial.close()
            self._report(f"{trial.run_id}  is started again once nobody uses it ({trial.cause}).")
            seat.waiting.append(again(trial.order))
            self._start_next(seat)
            return
        self._lost.discard(trial.run_id)
        if self._takes_work or not self._left.is_unsettled(trial.run_id):
            self._left.remove(trial.run_id)
        for line in self.tally.add(trial):
            self._report(line)
        if trial.never_began:
            self._give_back([trial.order])
        self._failures.note(trial)
        if trial.outcome == FINISHED:
            self._pace.add(trial.duration_s)
        if trial.is_failure and self._takes_work:
            self._examine(seat)
        trial.close()
        if self._failures.is_too_much:
            number = self._failures.num_in_a_row
            self._quit(f"{number} trials in a row have failed: something is wrong here.", 1)
        seat.next_question = 0.0
        self._start_next(seat)

    def _is_to_go_on(self, trial: Trial) -> bool:
        """Tell whether a trial may still write its last checkpoint, or its former process does."""
        is_of_jade = self._workplace.experiments_root is not None
        if not is_of_jade or trial.code not in (LOST, RunInUseError.exit_code):
            return False
        self._losses[trial.run_id] += 1
        if trial.code == LOST:
            self._lost.add(trial.run_id)
        is_wanted = self._takes_work and not trial.was_asked_to_stop
        return is_wanted and self._losses[trial.run_id] <= MAX_LOSSES

    def _examine(self, seat: _Seat) -> None:
        """Find out, beside the other seats, whether it is this machine that fails."""
        seat.is_checking = True

        def examine() -> None:
            try:
                found = self._workplace.preflight.problems()
            except Exception as error:
                # Nobody else would say that this seat is free again.
                text = f"cannot be examined: {type(error).__name__}: {error}."
                found = [Finding("machine", text, "Look at it.")]
            self._events.put(functools.partial(self._take_findings, seat, found))

        threading.Thread(target=examine, name="jade-preflight", daemon=True).start()

    def _take_findings(self, seat: _Seat, found: list[Finding]) -> None:
        seat.is_checking = False
        if found:
            listed = "".join(f"\n  {finding}" for finding in found)
            code = MachineError.exit_code if self._is_in_job else 1
            self._quit(f"This machine cannot run the sweep any more:{listed}", code)

    # Stopping

    def _obey(self, number: int) -> None:
        # A training does not know what becomes of it when a terminal is closed.
        passed_on = signal.SIGTERM if number == signal.SIGHUP else number
        if self._received is not None:
            self._forget_answers_at = None
            self._hurry(passed_on)
            return
        self._received = number
        code = EXIT_INTERRUPTED if number == signal.SIGINT else EXIT_PREEMPTED
        self._stop(f"{signal.Signals(number).name} received", passed_on, code)

    def _hurry(self, number: int) -> None:
        """End what is running at once; in a job, a last checkpoint that is being written may be."""
        if not self._is_in_job or number == signal.SIGINT:
            self._report("A second signal: trials are killed.")
            self._kill_all()
            return
        self._report("A second signal: trials end at once.")
        for trial in self._trials():
            self._launcher.signal(trial.run_id, number)
        self._give_up_after(self._options.kill_delay_s)

    def _stop(self, reason: str, number: int, code: int) -> None:
        """Take no more work, and ask what is running to stop where it can go on later."""
        running = list(self._trials())
        what = f"; {_count(len(running), 'trial')} asked to stop" if running else ""
        self._quit(f"{reason}{what}.", code)
        for trial in running:
            # One that has been asked would take it for a second signal.
            if not trial.was_asked_to_stop:
                self._launcher.signal(trial.run_id, number)
            trial.was_asked_to_stop = trial.was_to_make_room = True
        self._give_up_after(self._options.grace_s)

    def _give_up_after(self, patience_s: float) -> None:
        """Set when trials are killed; nothing makes that later."""
        until = time.monotonic() + patience_s
        self._give_up_at = until if self._give_up_at is None else min(until, self._give_up_at)

    def _quit(self, reason: str, code: int) -> None:
        """Take no more work; what is running may finish."""
        if self._takes_work:
            self._takes_work = False
            self._exit_code = code
            self._forget_answers_at = time.monotonic() + ANSWER_TIMEOUT_S
            self._report(f"{reason} No more work is taken.")
            for seat in self._seats:
                self._give_back(seat.waiting)

    def _give_back(self, orders: list[Order]) -> None:
        """Let somebody else have what W&B has handed out, and does not run."""
        for order in orders:
            if self._is_in_use(order):
                self._report(f"{order.run_id}  is in use by another process, which has it now.")
                continue
            self._num_returning += 1
            self._returns.send(order)
        orders.clear()

    def _return(self, order: Order) -> None:
        """Tell W&B of an order that is given back, in the thread of a courier."""
        values = {key: value for key, value in order.values.items() if key != WANDB_KEY}
        try:
            self._sweep.give_back(order.run_id, values)
        except ServerAwayError as error:
            text = f"cannot be given back to W&B, which will not hand it out again: {error}."
            if self._left.is_kept:
                text = f"cannot be given back to W&B: this job goes on with it later ({error})."
        else:
            is_new = WANDB_KEY not in order.values
            what = "was not begun" if is_new else "does not go on here"
            text = f"{what}: W&B hands it out again."
            # Whoever gets it, it is not for this job when it begins again.
            self._events.put(functools.partial(self._left.remove, order.run_id))
        self._events.put(functools.partial(self._report, f"{order.run_id}  {text}"))

    def _note_return(self, _: Exception | None) -> None:
        self._events.put(self._forget_returned)

    def _forget_returned(self) -> None:
        self._num_returning -= 1

    def _ask_to_stop(self, trial: Trial, number: int, patience_s: float) -> None:
        if not trial.was_asked_to_stop:
            trial.was_asked_to_stop = True
            trial.kill_at = time.monotonic() + patience_s
            self._launcher.signal(trial.run_id, number)

    def _kill_all(self) -> None:
        for trial in self._trials():
            self._launcher.signal(trial.run_id, signal.SIGKILL)

    # Small things

    def _trials(self) -> Iterator[Trial]:
        for seat in self._seats:
            yield from seat.trials

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._report(text)


def _goal(metric: Any) -> str:
    return str(metric.get("goal") or "minimize") if isinstance(metric, Mapping) else "minimize"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
