"""Cut metrics.csv in the middle of a row, as a power cut does: going on repairs it."""

import shutil

from benchmarks.faults.bench import Bench
from benchmarks.faults.comparison import find_differences
from benchmarks.faults.training import Training
from benchmarks.faults.verdict import Verdict
from jade import seal
from jade.run_dir import RunDir

MUST_HOLD = "going on repairs it: no row twice, none missing, none half"
NUM_CASES = 10


def run(bench: Bench) -> Verdict:
    """Cut the rows that are newer than the newest checkpoint; those before it are on the disk."""
    verdict = Verdict("metrics.csv cut", MUST_HOLD)
    left = bench.left_run("cut log")
    log = left.metrics.read_bytes()
    iteration = max(seal.read_iteration(path) or 0 for path in left.checkpoints.glob("*.pt"))
    rows = log.splitlines(keepends=True)
    safe = len(b"".join(row for row in rows if not _is_after(row, iteration)))
    for number in range(bench.scaled(NUM_CASES)):
        training = Training(bench.folder(f"cut {number}"))
        directory = RunDir(training.root / left.run_id)
        shutil.copytree(left.root, directory.root)
        directory.metrics.write_bytes(log[: bench.random.randrange(safe, len(log))])
        attempt = training.attempt()
        if attempt.wait() != 0:
            problems = [f"it does not go on: {attempt.tail()}"]
        else:
            problems = find_differences(directory, bench.reference)
        verdict.add(problems, training.folder)
        bench.done(training.folder, problems)
    verdict.notes.append(f"{len(log) - safe} bytes were newer than the checkpoint")
    return verdict


def _is_after(row: bytes, iteration: int) -> bool:
    step = row.split(b",")[0]
    return step.isdigit() and int(step) > iteration
