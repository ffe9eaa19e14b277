"""Verify that a training which is killed and resumed ends as if nothing had happened."""

import itertools
import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jade import yaml_file
from jade.differences import (
    Parting,
    Reference,
    compare_results,
    explain,
    explain_irreproducible,
)
from jade.errors import ConfigError, TrainingError, suggest
from jade.run_dir import FINISHED, RunDir
from jade.run_process import RunProcess
from jade.runs import list_begun
from jade.saved_runs import read_json
from jade.schedule import EPOCHS, ITERATIONS, SECONDS, parse_amount
from jade.signals import EXIT_PREEMPTED
from jade.trace import Course
from jade.whole_file import write_whole

# One run is interrupted so often at most: then it is time to see what has come out.
MAX_KILLS_PER_RUN = 4
# How many checkpoints a training must write on the way, and how many it writes if it does not.
FEWEST_CHECKPOINTS, NUM_CHECKPOINTS = 4, 8
# How long a process may take: at least this, and so many times as long as the first one took,
# of which nobody knows anything.
SHORTEST_S, PATIENCE, LONGEST_S = 120.0, 10.0, 3600.0
BETWEEN_STEPS = (
    "Every step was the same, and so was what evaluations keep as attributes. What differs was "
    "made between steps (by an evaluation, on_epoch_end, on_end) from something else: a global "
    "variable, a file, the clock."
)
SIGNALS = ("KILL", "TERM", "USR1", "USR2")


@dataclass(frozen=True)
class Options:
    """How often a training is interrupted, and by what; the seed decides when."""

    kills: int = 8
    signals: tuple[signal.Signals, ...] = (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1)
    seed: int = 0


def parse_signals(text: str) -> tuple[signal.Signals, ...]:
    """Parse names of signals: ``KILL,TERM``."""
    names = [name.strip().upper().removeprefix("SIG") for name in text.split(",") if name.strip()]
    for name in names:
        if name not in SIGNALS:
            raise ConfigError(f"--signals: there is no {name!r} to send.{suggest(name, SIGNALS)}")
    if not names:
        raise ConfigError(f"--signals needs at least one of {', '.join(SIGNALS)}.")
    return tuple(signal.Signals[f"SIG{name}"] for name in names)


@dataclass
class Interruption:
    """One signal, where it hit, and how training went on after it.

    Attributes:
        signal: Its name.
        run: The number of the run.
        iteration: The number of steps done; None before the first step of the process.
        epoch: The number of epochs done; None after the last step.
        resumed_at: The iteration that training went on from; None if it started again.
        parted_at: The iteration at which training then left the course of the reference.
        is_begun: Whether the process that was to go on came so far as to do that.
    """

    signal: str
    run: int
    iteration: int | None = None
    epoch: int | None = None
    resumed_at: int | None = None
    parted_at: int | None = None
    is_begun: bool = False

    def __str__(self) -> str:
        verb = "killed" if self.signal == "SIGKILL" else "stopped"
        where = "in its start-up"
        if self.iteration is not None and self.epoch is None:
            where = "in its end"
        elif self.iteration is not None:
            where = f"at iteration {self.iteration} in epoch {(self.epoch or 0) + 1}"
        what = f"run {self.run}: {verb} ({self.signal}) {where}"
        if not self.is_begun:
            return f"{what}, and again before it went on"
        on = "started again" if self.resumed_at is None else f"resumed at {self.resumed_at}"
        parted = self.parted_at
        outcome = "identical" if parted is None else f"differs from iteration {parted} on"
        return f"{what}, {on}: {outcome}"


@dataclass
class Verdict:
    """What has come out of a verification.

    Attributes:
        is_reproducible: Whether two trainings that were not interrupted are identical.
        differences: What differs in the results.
        explanations: Why, the most telling reason first, and what to do about it.
        interruptions: All of them.
    """

    is_reproducible: bool = True
    differences: list[str] = field(default_factory=list)
    explanations: list[str] = field(default_factory=list)
    interruptions: list[Interruption] = field(default_factory=list)

    @property
    def is_identical(self) -> bool:
        """Whether every training came to the same result in the same way."""
        return self.is_reproducible and not self.differences and not self.explanations

    def to_json(self) -> dict[str, Any]:
        """Return all that is known."""
        return {"identical": self.is_identical, **asdict(self)}


@dataclass
class _Attempt:
    """What one process did."""

    course: Course
    exit_code: int
    hit_by: signal.Signals | None
    duration_s: float


class Verification:
    """Trains a configuration without interruption, then with interruptions, and compares.

    Args:
        config: As a run writes it down, with a seed.
        folder: For everything that is written.
        options: How often to interrupt, and by what.
        say: Is told what happens.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        folder: Path,
        options: Options,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config = {**config, "wandb": "disabled", "tensorboard": False, "time_limit": None}
        self._folder = folder
        self._options = options
        self._say = say
        self._random = random.Random(options.seed)  # noqa: S311 - nobody is to be kept from guessing
        self._reference = Reference(Course())
        self._first = _Attempt(Course(), 0, None, LONGEST_S)
        self._output = ""
        self._verdict = Verdict()
        check_comparable(config)

    def run(self) -> Verdict:
        """Do it all; stop at the first run that differs.

        Raises:
            JadeError: A run that was not interrupted fails, or some process does not end.
        """
        verdict = self._verdict
        self._train_references()
        if not verdict.is_reproducible:
            return verdict
        self._write_checkpoints_often()
        # A signal that comes too late hits nobody: then there is a further run.
        for number in range(1, 2 * self._options.kills + 1):
            if len(verdict.interruptions) >= self._options.kills or not verdict.is_identical:
                break
            self._interrupt_run(number)
        if not verdict.interruptions:
            raise TrainingError("No signal came in time, so nothing was verified: train longer.")
        return verdict

    # Without interruption

    def _train_references(self) -> None:
        """Train twice: what differs then is not the fault of an interruption."""
        self._first = self._train_reference("reference")
        again = self._train_reference("repetition")
        reference = Reference(self._first.course)
        parting = reference.compare(again.course)
        names = reference.differing_names(again.course)
        differences = compare_results(self._find_run("repetition"), self._find_run("reference"))
        if differences or parting.iteration is not None:
            self._verdict.is_reproducible = False
            self._verdict.differences = differences
            self._verdict.explanations = [explain_irreproducible(reference, parting, sorted(names))]
            return
        self._reference = Reference(self._first.course, names)
        self._say(
            f"{self._reference.num_iterations} iterations without interruption, twice: identical"
        )

    def _train_reference(self, name: str) -> _Attempt:
        self._make_folder(name)
        attempt = self._execute(name, 1, None)
        if attempt.exit_code != 0:
            is_wrong = attempt.exit_code == ConfigError.exit_code
            kind = ConfigError if is_wrong else TrainingError
            raise kind(f"The training fails without any interruption:\n{self._output}")
        if len(attempt.course.lines) < 2:
            raise TrainingError("Nothing can be verified: this configuration trains no step.")
        return attempt

    def _write_checkpoints_often(self) -> None:
        """Let several checkpoints be written on the way, if the configuration asks for fewer."""
        reference = self._reference
        if self._count_checkpoints() >= FEWEST_CHECKPOINTS:
            return
        every = max(1, reference.num_iterations // NUM_CHECKPOINTS)
        self._config["backup_every"] = f"{every} iterations"
        self._say(f"backup_every is {every} iterations here, so that there is something to resume")

    def _count_checkpoints(self) -> float:
        done = {ITERATIONS: self._reference.num_iterations, EPOCHS: self._reference.num_epochs}
        settings = ("backup_every", "checkpoint_every")
        amounts = [parse_amount(self._config[k], k) for k in settings if self._config.get(k)]
        return max((done.get(item.unit, 0) / item.number for item in amounts), default=0)

    # With interruptions

    def _interrupt_run(self, number: int) -> None:
        """Carry a run to its end through some interruptions, and compare what has come out."""
        name, verdict = f"run-{number}", self._verdict
        self._make_folder(name)
        num_kills = min(MAX_KILLS_PER_RUN, self._options.kills - len(verdict.interruptions))
        partings: list[Parting] = []
        interruption: Interruption | None = None
        for left in itertools.count(num_kills, -1):
            attempt = self._execute(name, num_kills - left + 1, left or None)
            if attempt.hit_by is None and attempt.exit_code != 0:
                verdict.differences = [f"Run {number} fails after an interruption:\n{self._output}"]
                return
            partings.append(self._reference.compare(attempt.course))
            if interruption is not None:
                self._settle(interruption, attempt, partings[-1])
            if attempt.hit_by is None or attempt.exit_code == 0:
                break
            interruption = _describe(attempt.hit_by, number, attempt.course)
        self._conclude(name, partings)

    def _settle(self, interruption: Interruption, attempt: _Attempt, parting: Parting) -> None:
        """Put down how training went on after an interruption."""
        course = attempt.course
        interruption.resumed_at = course.started_at or None
        interruption.is_begun = course.started_at is not None
        interruption.parted_at = parting.iteration
        self._verdict.interruptions.append(interruption)
        self._say(str(interruption))

    def _conclude(self, name: str, partings: list[Parting]) -> None:
        differences = compare_results(self._find_run(name), self._find_run("reference"))
        # Whatever comes after the first one that parted is its consequence.
        parted = next((item for item in partings if item.iteration is not None), None)
        if differences and parted is None:
            parted = next((item for item in partings if explain(item)), None)
        self._verdict.differences = differences
        if parted is not None:
            self._verdict.explanations = explain(parted)
        elif differences:
            self._verdict.explanations = [BETWEEN_STEPS]

    def _execute(self, name: str, number: int, kills_left: int | None) -> _Attempt:
        """Start or resume a run, and interrupt it once if asked to."""
        folder = self._folder / name
        found = list_begun(folder / "runs")
        arguments = ["resume", str(found[0].root)] if found else self._start(folder)
        timeout_s = max(SHORTEST_S, PATIENCE * self._first.duration_s)
        with RunProcess(arguments, folder, f"process-{number}") as process:
            hit_by = self._interrupt(process, kills_left) if kills_left else None
            exit_code = process.wait(timeout_s)
            self._output = process.read_output()
        if exit_code is None:
            raise TrainingError(f"A process did not end within {timeout_s:.0f} s:\n{self._output}")
        # Without handlers, first and last, a signal does what it does to any process.
        if hit_by is not None and exit_code not in (0, EXIT_PREEMPTED, -hit_by):
            hit_by = None
        if hit_by is not None and self._is_finished(name):
            # It came too late to change anything.
            exit_code = 0
        return _Attempt(process.load_course(), exit_code, hit_by, process.duration_s)

    def _start(self, folder: Path) -> list[str]:
        values = {**self._config, "experiments_root": str(folder / "runs")}
        path = folder / "config.yml"
        write_whole(path, yaml_file.render(values).encode())
        return ["train", "--config", str(path)]

    def _interrupt(self, process: RunProcess, kills_left: int) -> signal.Signals | None:
        """Send a signal at a random moment, or do nothing if the process ends before it."""
        number = self._random.choice(self._options.signals)
        if not process.wait_until(self._choose_moment(kills_left)):
            return None
        process.send(number)
        return number

    def _choose_moment(self, kills_left: int) -> Callable[[RunProcess], bool]:
        """Choose any moment in the life of a process, or, as often, one while it trains."""
        share = self._random.random()
        num_iterations = self._reference.num_iterations
        # In turns: a start-up may take longer than a short training, and is not what matters most.
        if kills_left % 2 == 0:
            return lambda process: process.age_s > share * self._first.duration_s
        # So are the first ones of several moments distributed, over what is left of a training.
        nearness = 1.0 - (1.0 - share) ** (1.0 / kills_left)
        begun: list[int] = []

        def is_time(process: RunProcess) -> bool:
            if process.iteration is None:
                return False
            if not begun:
                begun.append(process.iteration)
            return bool(process.iteration - begun[0] >= nearness * (num_iterations - begun[0]))

        return is_time

    def _make_folder(self, name: str) -> None:
        (self._folder / name).mkdir(parents=True)

    def _is_finished(self, name: str) -> bool:
        found = list_begun(self._folder / name / "runs")
        return bool(found) and read_json(self._find_run(name).status_file).get("status") == FINISHED

    def _find_run(self, name: str) -> RunDir:
        return list_begun(self._folder / name / "runs")[0]


def _describe(number: signal.Signals, run: int, course: Course) -> Interruption:
    last = course.lines[-1] if course.lines else None
    return Interruption(
        number.name,
        run,
        iteration=None if last is None else last.iteration,
        epoch=None if last is None or last.batch is None else last.epoch,
    )


def check_comparable(config: Mapping[str, Any]) -> None:
    """Refuse a configuration of which no two trainings could be the same."""
    amount = config.get("train_for")
    if amount is not None and parse_amount(amount, "train_for", zero=True).unit == SECONDS:
        raise ConfigError(
            f"train_for: in {amount}, no two trainings do the same. Give iterations or epochs: "
            "--train_for '200 iterations'."
        )
