"""Damage the newest checkpoint: that is noticed, and the one before it takes its place."""

import contextlib
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.bench import Bench
from benchmarks.faults.comparison import find_differences, is_same
from benchmarks.faults.training import Training
from benchmarks.faults.verdict import Verdict
from jade import checkpoint, seal
from jade.errors import CheckpointError
from jade.left_run import load_left
from jade.run_dir import RunDir

MUST_HOLD = "always noticed; the one before is used, or it is said that nothing is left"
NUM_CUTS, NUM_FLIPS, NUM_RESUMED = 20, 50, 6


def run(bench: Bench) -> Verdict:
    """Cut the file everywhere, flip bits everywhere, and go on from what is left."""
    verdict = Verdict("checkpoint damaged", MUST_HOLD)
    left = bench.left_run("damage")
    paths = sorted(left.checkpoints.glob("*.pt"), key=_iteration_of)
    newest, others = paths[-1], paths[:-1]
    expected = checkpoint.load(others[-1])
    whole = newest.read_bytes()
    damaged = [*_cut(whole, bench), *_flip(whole, bench)]
    with _silence():
        for content in damaged:
            newest.write_bytes(content)
            verdict.add(_load_and_compare(left, expected), left.root)
        verdict.add(_damage_all(left, bench), left.root)
    for content in bench.random.sample(damaged, bench.scaled(NUM_RESUMED)):
        newest.write_bytes(content)
        _resume(left, bench, verdict)
    verdict.notes.append(f"the checkpoint has {len(whole):,} bytes")
    return verdict


def _iteration_of(path: Path) -> tuple[int, bool]:
    # Several may be of one step; the last one of them is what a run looks at first.
    return seal.read_iteration(path) or 0, path.name == "last.pt"


def _cut(whole: bytes, bench: Bench) -> Iterator[bytes]:
    number = bench.scaled(NUM_CUTS)
    for part in range(number):
        yield whole[: (len(whole) - 1) * part // max(number - 1, 1)]


def _flip(whole: bytes, bench: Bench) -> Iterator[bytes]:
    """Flip one bit each, in each stretch of the file, and then in what seals it."""
    number = bench.scaled(NUM_FLIPS)
    for part in range(number):
        yield _flipped(whole, (len(whole) * part + bench.random.randrange(len(whole))) // number, 3)
    for place in range(len(whole) - seal.SEAL_BYTES, len(whole), 4):
        yield _flipped(whole, place, bench.random.randrange(8))


def _flipped(whole: bytes, place: int, bit: int) -> bytes:
    content = bytearray(whole)
    content[place] ^= 1 << bit
    return bytes(content)


def _load_and_compare(left: RunDir, expected: object) -> list[str]:
    try:
        state = load_left(left).state
    except CheckpointError as error:
        return [f"nothing was loaded: {error}"]
    return [] if is_same(state, expected) else ["another state than the one before was loaded"]


def _damage_all(left: RunDir, bench: Bench) -> list[str]:
    """Damage a copy of the run in all its checkpoints."""
    folder = bench.folder("damaged everywhere")
    shutil.copytree(left.root, folder, dirs_exist_ok=True)
    for path in (folder / "checkpoints").glob("*.pt"):
        path.write_bytes(_flipped(path.read_bytes(), 1000, 0))
    try:
        load_left(RunDir(folder))
    except CheckpointError as error:
        return [] if "nothing is left" in str(error) else [f"it is not said clearly: {error}"]
    return ["a damaged checkpoint was loaded"]


def _resume(left: RunDir, bench: Bench, verdict: Verdict) -> None:
    folder = bench.folder(f"damaged {verdict.num_cases}")
    training = Training(folder)
    shutil.copytree(left.root, training.root / left.run_id)
    attempt = training.attempt()
    if attempt.wait() != 0:
        problems = [f"it does not go on: {attempt.tail()}"]
    else:
        problems = find_differences(training.made, bench.reference)
    verdict.add(problems, folder)
    bench.done(folder, problems)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Let nothing be logged: each damage is."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
