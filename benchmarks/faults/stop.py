"""Ask training to stop at any instant: it is gone soon, says so, and goes on exactly there."""

import signal
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults.attempt import Attempt
from benchmarks.faults.bench import Bench
from benchmarks.faults.comparison import find_differences
from benchmarks.faults.training import Training
from benchmarks.faults.verdict import Verdict
from jade import checkpoint
from jade.signals import EXIT_PREEMPTED

MUST_HOLD = "exit 75 within a step and a checkpoint; it goes on to the same result"
NUM_SIGNALS = 50
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
# Other things may happen on this machine at the same time.
NOISE_S = 0.25
NUM_CHECKPOINTS = 20
LATEST = 0.8
# What a run says right before its first step.
TRAINING = "run directory:"


@dataclass
class _Times:
    """The seconds from signals to the ends of their processes, and what they are made of."""

    step: float
    checkpoint: float
    process_end: float
    training: float
    in_training: list[float] = field(default_factory=list)
    at_start: list[float] = field(default_factory=list)
    deaf: list[float] = field(default_factory=list)

    @property
    def bound(self) -> float:
        return self.step + self.checkpoint + self.process_end

    def describe(self) -> list[str]:
        return [
            f"from signal to exit in training: {_describe(self.in_training)}; bound "
            f"{self.bound:.2f} s = longest step {self.step:.3f} + longest checkpoint "
            f"{self.checkpoint:.3f} + end of a process {self.process_end:.2f}",
            f"from signal to exit before training: {_describe(self.at_start)} (an import of a "
            "library is not cut short)",
            f"instants begin when the process watches signals, {_describe(self.deaf)} after its "
            "start: before that nobody can answer them",
        ]


def run(bench: Bench) -> Verdict:
    """Send signals to fresh processes, in turn TERM and USR1, some to all processes of the job."""
    verdict = Verdict("SIGTERM, SIGUSR1", MUST_HOLD)
    times = _measure_bound(bench)
    num_left, num_runs = bench.scaled(NUM_SIGNALS), 0
    while num_left > 0:
        num_runs += 1
        training = Training(bench.folder(f"stop {num_runs}"))
        num_left -= _stop_until_the_end(training, num_left, bench, verdict, times)
    verdict.notes += times.describe()
    return verdict


def _stop_until_the_end(
    training: Training, num_signals: int, bench: Bench, verdict: Verdict, times: _Times
) -> int:
    num_sent, problems = 0, list[str]()
    while not training.is_finished and not problems:
        attempt = training.fresh_attempt(num_workers=2 * (training.num_attempts % 2))
        is_sent = num_sent < num_signals and _send(attempt, bench, times)
        exit_code = attempt.wait()
        if training.is_finished:
            break
        num_sent += is_sent
        if exit_code != (EXIT_PREEMPTED if is_sent else 0):
            problems.append(f"exit code {exit_code} after {attempt.age:.2f} s: {attempt.tail()}")
        if is_sent:
            problems += _time(attempt, times)
    if not problems:
        problems = find_differences(training.made, bench.reference)
    verdict.add(problems, training.folder, num_sent)
    bench.done(training.folder, problems)
    return num_sent


def _send(attempt: Attempt, bench: Bench, times: _Times) -> bool:
    """Send a signal at a random instant; tell whether the process was still there.

    Every second one comes while it trains, which is only a part of such a short life.
    """
    if not attempt.wait_until(lambda: attempt.watches(signal.SIGUSR1)):
        return False
    times.deaf.append(attempt.age)
    number = SIGNALS[len(times.deaf) // 2 % len(SIGNALS)]
    # A run that goes on takes less time than a whole one, so later instants would not be met.
    latest = LATEST * bench.fresh_seconds
    if len(times.deaf) % 2:
        if not attempt.wait_until(lambda: attempt.count(TRAINING) > 0):
            return False
        latest = attempt.age + LATEST * times.training
    if not attempt.wait_seconds(bench.random.uniform(attempt.age, max(latest, attempt.age))):
        return False
    attempt.send(number, to_group=bench.random.random() < 0.5)
    attempt.started = time.monotonic()
    return True


def _time(attempt: Attempt, times: _Times) -> list[str]:
    taken = attempt.age
    if TRAINING not in attempt.log.read_text():
        times.at_start.append(taken)
        return []
    times.in_training.append(taken)
    if taken > times.bound + NOISE_S:
        return [f"it took {taken:.2f} s to end, and the bound is {times.bound:.2f} s"]
    return []


def _measure_bound(bench: Bench) -> _Times:
    """Measure the parts of the bound, each where nothing disturbs it."""
    fresh = bench.fresh
    written = fresh.made.status_file.stat().st_mtime
    state = checkpoint.load(fresh.made.last_checkpoint)
    durations = []
    for _ in range(NUM_CHECKPOINTS):
        started = time.perf_counter()
        checkpoint.save(state, fresh.folder / "again.pt")
        durations.append(time.perf_counter() - started)
    return _Times(
        step=float(Path(fresh.folder, "longest step").read_text()),
        checkpoint=max(durations),
        process_end=bench.fresh_ended - written,
        training=written - fresh.made.config.stat().st_mtime,
    )


def _describe(seconds: list[float]) -> str:
    if not seconds:
        return "never"
    return (
        f"at most {max(seconds):.2f} s, median {statistics.median(seconds):.2f} s ({len(seconds)})"
    )
