"""Put a checkpoint in place whose pickle runs code: it is refused, and nothing is run."""

import io
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.faults.bench import Bench
from benchmarks.faults.comparison import find_differences
from benchmarks.faults.training import Training
from benchmarks.faults.verdict import Verdict
from jade import checkpoint
from jade.run_dir import RunDir
from jade.seal import SealedFile

MUST_HOLD = "refused, nothing executed"
# Later than any other checkpoint, so that it is looked at first.
ITERATION = 1000


class Payload:
    """What makes a folder when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self._target = str(target)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (self._target,)


def run(bench: Bench) -> Verdict:
    """Try each way in which torch has ever stored a pickle, all with a proper seal."""
    verdict = Verdict("checkpoint that runs code", MUST_HOLD)
    left = bench.left_run("hostile")
    for name, store in STORED.items():
        for leaves_others in (True, False):
            training = Training(bench.folder(f"hostile {name} {leaves_others}"))
            directory = RunDir(training.root / left.run_id)
            shutil.copytree(left.root, directory.root)
            problems = _resume(training, directory, store, bench, leaves_others=leaves_others)
            verdict.add(problems, training.folder)
            bench.done(training.folder, problems)
        training = Training(bench.folder(f"hostile {name} weights"))
        problems = _warm_start(training, store)
        verdict.add(problems, training.folder)
        bench.done(training.folder, problems)
    return verdict


def _resume(
    training: Training,
    directory: RunDir,
    store: Callable[[Any], bytes],
    bench: Bench,
    *,
    leaves_others: bool,
) -> list[str]:
    if not leaves_others:
        for path in directory.checkpoints.glob("*.pt"):
            path.unlink()
    target = training.folder / "executed"
    _write(directory.last_checkpoint, target, store)
    attempt = training.attempt()
    exit_code = attempt.wait()
    if target.exists():
        return ["code was executed"]
    if leaves_others:
        if exit_code != 0:
            return [f"the checkpoint before was not used: {attempt.tail()}"]
        return find_differences(directory, bench.reference)
    return [] if attempt.count("nothing is left") else [f"not refused: {attempt.tail()}"]


def _warm_start(training: Training, store: Callable[[Any], bytes]) -> list[str]:
    path, target = training.folder / "weights.pt", training.folder / "executed"
    _write(path, target, store)
    attempt = training.attempt(load=str(path))
    exit_code = attempt.wait()
    if target.exists():
        return ["code was executed"]
    return [] if exit_code != 0 and attempt.count(path.name) else [f"taken: {attempt.tail()}"]


def _write(path: Path, target: Path, store: Callable[[Any], bytes]) -> None:
    content = {"format": checkpoint.FORMAT, "trainer": Payload(target), "clock": {}}
    with path.open("wb") as file:
        sealed = SealedFile(file)
        sealed.write(store(content))
        sealed.seal(ITERATION)


def _store_as_zip(content: Any) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def _store_as_before_zip(content: Any) -> bytes:
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


STORED: dict[str, Callable[[Any], bytes]] = {
    "zip": _store_as_zip,
    "before zip": _store_as_before_zip,
    "pickle": pickle.dumps,
}
