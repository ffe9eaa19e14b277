"""Kill training at any instant: it goes on to exactly the same result, again and again."""

import random
import signal
from collections import Counter
from pathlib import Path

from benchmarks.faults.attempt import Attempt
from benchmarks.faults.bench import Bench
from benchmarks.faults.comparison import find_differences
from benchmarks.faults.training import BACKUPS, Training
from benchmarks.faults.verdict import Verdict

MUST_HOLD = "it goes on each time, to bit-identical weights, optimizers, metrics.csv, media"
NUM_FORKED, NUM_FRESH = 180, 20
# The dangerous instants get more than their share.
ANY, WRITING, EVALUATING = "at any instant", "while a checkpoint is written", "in an evaluation"
SHARES = {ANY: 6, WRITING: 2, EVALUATING: 2}
MOST_OCCASIONS = 6
LONGEST_WAIT_AFTER_S = 0.01


def run(bench: Bench) -> Verdict:
    """Kill runs that are started in the two ways that there are."""
    verdict = Verdict("SIGKILL", MUST_HOLD)
    killer = _Killer(bench, verdict)
    killer.kill(bench.scaled(NUM_FORKED), fresh=False)
    killer.kill(bench.scaled(NUM_FRESH), fresh=True)
    verdict.notes.append(
        f"{', '.join(f'{number} {kind}' for kind, number in killer.kinds.items())}; "
        f"{killer.num_before} of them before the first checkpoint; {killer.num_runs} runs"
    )
    return verdict


class _Killer:
    """Kills runs, each until it comes to its end, and compares that.

    Attributes:
        kinds: How many kills there were of each kind.
        num_before: How many of them found no checkpoint.
        num_runs: How many runs it took.
    """

    def __init__(self, bench: Bench, verdict: Verdict) -> None:
        self.kinds: Counter[str] = Counter()
        self.num_before = 0
        self.num_runs = 0
        self._bench = bench
        self._verdict = verdict

    def kill(self, num_kills: int, *, fresh: bool) -> None:
        """Kill so many times."""
        longest_s = self._bench.seconds
        if fresh and self._bench.fresh.is_finished:
            longest_s = self._bench.fresh_seconds
        while num_kills > 0:
            self.num_runs += 1
            settings = {"backup_every": BACKUPS[self.num_runs % len(BACKUPS)]}
            training = Training(self._bench.folder(f"kill {self.num_runs}"), settings=settings)
            killed = self._kill_until_the_end(training, num_kills, longest_s, fresh=fresh)
            num_kills -= killed

    def _kill_until_the_end(
        self, training: Training, num_kills: int, longest_s: float, *, fresh: bool
    ) -> int:
        random_ = self._bench.random
        problems: list[str] = []
        num_done = 0
        while not training.is_finished and not problems:
            num_workers = 2 * (training.num_attempts % 2)
            if fresh:
                attempt = training.fresh_attempt(num_workers=num_workers)
            else:
                attempt = training.attempt(num_workers=num_workers)
            # Once there have been enough of them, the run may come to its end.
            kind = random_.choices(list(SHARES), list(SHARES.values()))[0]
            if num_done < num_kills and _wait_for(kind, attempt, training, longest_s, random_):
                attempt.send(signal.SIGKILL, to_group=random_.random() < 0.5)
                num_done += attempt.wait() == -signal.SIGKILL
                self._count(kind, training)
            elif attempt.wait() != 0:
                problems.append(f"it does not go on: {attempt.tail()}")
        if not problems:
            problems = find_differences(training.made, self._bench.reference)
        self._verdict.add(problems, training.folder, num_done)
        self._bench.done(training.folder, problems)
        return num_done

    def _count(self, kind: str, training: Training) -> None:
        self.kinds[kind] += 1
        directory = training.directory
        self.num_before += directory is None or not any(directory.checkpoints.glob("*.pt"))


def _wait_for(
    kind: str, attempt: Attempt, training: Training, longest_s: float, random_: random.Random
) -> bool:
    """Wait for an instant; tell whether it came before the end of the process."""
    if kind == ANY:
        return attempt.wait_seconds(random_.uniform(0, longest_s))
    for _ in range(random_.randint(1, MOST_OCCASIONS)):
        if not _wait_for_occasion(kind, attempt, training):
            return False
    return attempt.wait_seconds(attempt.age + random_.uniform(0, LONGEST_WAIT_AFTER_S))


def _wait_for_occasion(kind: str, attempt: Attempt, training: Training) -> bool:
    if kind == EVALUATING:
        return attempt.wait_until(lambda: not training.mark.exists()) and attempt.wait_until(
            training.mark.exists
        )
    known = _asides(training)
    return attempt.wait_until(lambda: bool(_asides(training) - known))


def _asides(training: Training) -> set[tuple[Path, int]]:
    """Name the files that are being written; a name is used again, an inode as well, rarely."""
    found = set()
    for path in training.root.glob("*/checkpoints/.*.tmp"):
        try:
            found.add((path, path.stat().st_ino))
        except FileNotFoundError:
            continue
    return found
