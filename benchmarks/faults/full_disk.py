"""Take away the room on the disk for a while: training goes on, and checkpoints come back."""

import contextlib
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults.attempt import Attempt
from benchmarks.faults.bench import Bench
from benchmarks.faults.comparison import find_differences
from benchmarks.faults.training import Training
from benchmarks.faults.verdict import Verdict
from jade import checkpoint
from jade.errors import CheckpointError

MUST_HOLD = "training goes on, says it once, the next checkpoint succeeds, the old one is whole"
NUM_CASES = 6
DISK_BYTES = 4 << 20
# Below the size of a checkpoint, above that of anything else.
FILE_BYTES = 10_000
BLOCK = bytes(1024)
STEP_S = 0.05
WITHOUT_ROOM_S = 0.5
FAILED, WRITTEN = "it is tried again", "is written, after"

# Takes the room away, and returns what gives it back.
TakeRoom = Callable[[Training, Attempt], Callable[[], None]]


def run(bench: Bench) -> Verdict:
    """Fill a small disk if one may be mounted, and let no file grow in any case."""
    verdict = Verdict("disk full in a checkpoint", MUST_HOLD)
    kinds = {"a disk without room": 0, "a limit for the size of files": 0}
    for number in range(max(bench.scaled(NUM_CASES), len(kinds))):
        training = Training(bench.folder(f"disk {number}"))
        with _small_disk(training.root, wanted=number % 2 == 0) as is_mounted:
            problems = _try(training, _fill if is_mounted else _limit, bench)
            kinds[list(kinds)[not is_mounted]] += 1
        verdict.add(problems, training.folder)
        bench.done(training.folder, problems)
    verdict.notes.append(", ".join(f"{count} x {kind}" for kind, count in kinds.items()))
    return verdict


def _try(training: Training, take_room: TakeRoom, bench: Bench) -> list[str]:
    attempt = training.attempt(pause_s=STEP_S, backup_every="2 iterations")
    if not attempt.wait_until(lambda: _has_former(training)):
        return [f"there is no checkpoint: {attempt.tail()}"]
    give_room_back = take_room(training, attempt)
    if not attempt.wait_until(lambda: attempt.count(FAILED) > 0):
        return [f"nothing was said about the disk: {attempt.tail()}"]
    attempt.wait_seconds(attempt.age + WITHOUT_ROOM_S)
    try:
        before = checkpoint.load(training.made.last_checkpoint)["clock"]["iterations"]
    except CheckpointError as error:
        return [f"the earlier checkpoint is gone: {error}"]
    give_room_back()
    if not attempt.wait_until(lambda: WRITTEN in training.made.log.read_text()):
        return [f"no checkpoint was written afterwards: {attempt.tail()}"]
    problems = []
    if checkpoint.load(training.made.last_checkpoint)["clock"]["iterations"] < before:
        problems.append("the checkpoint that was written afterwards is older")
    if attempt.wait() != 0:
        return [f"training has ended: {attempt.tail()}"]
    if attempt.count(FAILED) != 1:
        problems.append(f"it was said {attempt.count(FAILED)} times")
    # What an evaluation shows is not written again, and a best state that has passed is gone.
    return problems + find_differences(training.made, bench.reference, on_the_way=False)


def _has_former(training: Training) -> bool:
    directory = training.directory
    return directory is not None and directory.former_checkpoint.exists()


def _limit(_: Training, attempt: Attempt) -> Callable[[], None]:
    """Let no file of the process grow beyond a size."""
    unlimited = resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE, (FILE_BYTES, unlimited[1]))
    return lambda: _unlimit(attempt, unlimited)


def _unlimit(attempt: Attempt, unlimited: tuple[int, int]) -> None:
    resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE, unlimited)


def _fill(training: Training, attempt: Attempt) -> Callable[[], None]:
    """Fill the disk, and keep it full: what is removed there makes room again."""
    ballast = training.root / "ballast"
    deadline = time.monotonic() + WITHOUT_ROOM_S
    with ballast.open("ab", buffering=0) as file:
        while time.monotonic() < deadline and not attempt.count(FAILED):
            with contextlib.suppress(OSError):
                while file.write(BLOCK):
                    pass
            time.sleep(0.001)
    return ballast.unlink


@contextlib.contextmanager
def _small_disk(folder: Path, *, wanted: bool) -> Iterator[bool]:
    """Mount a small disk at a folder, if that is wanted and we may; keep what is on it."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    if not wanted or os.geteuid() != 0 or not _succeeds(command):
        yield False
        return
    kept = folder.with_name("kept")
    try:
        yield True
        shutil.copytree(folder, kept)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()
    kept.rename(folder)


def _succeeds(command: list[str]) -> bool:
    try:
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False
