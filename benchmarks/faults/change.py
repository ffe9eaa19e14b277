"""Change what a run was started with: whoever continues it is told what differs."""

import json
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.faults.bench import Bench
from benchmarks.faults.comparison import find_differences
from benchmarks.faults.training import PROJECT, Training
from benchmarks.faults.verdict import Verdict
from jade.run_dir import RunDir
from jade.whole_file import ASIDE

MUST_HOLD = "a message names the difference; what does not fit leaves the run as it is"
TRAINER, DATA = "modules/models/fragile.py", "modules/data/points.py"


@dataclass(frozen=True)
class Change:
    """Something that is otherwise than it was.

    Attributes:
        apply: Makes the change in the project and the run.
        message: What must be said.
        fits: Whether training can go on with it all the same.
        overrides: What the run is continued with.
    """

    apply: Callable[[Path, RunDir], None]
    message: str
    fits: bool = False
    overrides: dict[str, Any] = field(default_factory=dict)


def run(bench: Bench) -> Verdict:
    """Make each change to a run of its own, and continue that."""
    verdict = Verdict("resumed with something else", MUST_HOLD)
    left = bench.left_run("change")
    for name, change in CHANGES.items():
        folder = bench.folder(f"change {name}")
        project = folder / "project"
        shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
        training = Training(folder, project)
        directory = RunDir(training.root / left.run_id)
        shutil.copytree(left.root, directory.root)
        change.apply(project, directory)
        problems = _resume(training, directory, change, bench)
        verdict.add(problems, folder)
        bench.done(folder, problems)
    return verdict


def _resume(training: Training, directory: RunDir, change: Change, bench: Bench) -> list[str]:
    before = _contents(directory)
    attempt = training.resume(overrides=change.overrides)
    exit_code = attempt.wait()
    problems = []
    if not attempt.count(change.message):
        problems.append(f"not said: {change.message!r}, but: {attempt.tail()}")
    if change.fits:
        if exit_code != 0:
            return [*problems, f"it does not go on: {attempt.tail()}"]
        return problems + find_differences(directory, bench.reference)
    if exit_code == 0:
        problems.append("it has gone on")
    if _contents(directory) != before:
        problems.append("the run is not as it was left")
    return problems


def _contents(directory: RunDir) -> dict[Path, bytes]:
    """Read a run, without who is in it and what a process was writing when it was killed."""
    return {
        path: path.read_bytes()
        for path in directory.root.rglob("*")
        if path.is_file() and path != directory.owner and path.suffix != ASIDE
    }


def _edit(name: str, old: str, new: str) -> Callable[[Path, RunDir], None]:
    def edit(project: Path, _: RunDir) -> None:
        text = (project / name).read_text()
        if old not in text:
            raise RuntimeError(f"{name} has no {old!r} any more.")
        (project / name).write_text(text.replace(old, new))

    return edit


def _replace_torch(_: Path, directory: RunDir) -> None:
    origin = json.loads(directory.provenance.read_text())
    origin["packages"]["torch"] = "1.0.0"
    directory.provenance.write_text(json.dumps(origin))


def _replace_python(_: Path, directory: RunDir) -> None:
    origin = json.loads(directory.provenance.read_text())
    origin["python"] = "3.1.4"
    directory.provenance.write_text(json.dumps(origin))


CHANGES = {
    "other code": Change(
        _edit(DATA, "def __len__", "# a remark\n    def __len__"),
        f"the code differs: {DATA}",
        fits=True,
    ),
    "other class": Change(
        _edit(TRAINER, "class FragileTrainer", "class SturdyTrainer"),
        "The run was trained by FragileTrainer, not by SturdyTrainer",
        overrides={"model.class": "SturdyTrainer"},
    ),
    "missing attribute": Change(
        _edit(TRAINER, 'self.add_attribute_to_store("seen")', "pass"),
        "seen is in the checkpoint only",
    ),
    "missing optimizer": Change(
        _edit(TRAINER, "self.other", "self.optimizer"), "other is in the checkpoint only"
    ),
    "other shape": Change(
        _edit(
            TRAINER,
            "nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32",
            "nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16",
        ),
        "net.0.weight",
    ),
    "other number of batches": Change(
        _edit(TRAINER, "batch_size=4", "batch_size=5"),
        "the train_loader had 10 batches per epoch and has 8 now",
    ),
    "other torch": Change(
        _replace_torch, f"torch is {torch.__version__} here and was 1.0.0", fits=True
    ),
    "other Python": Change(
        _replace_python, f"Python is {platform.python_version()} here and was 3.1.4", fits=True
    ),
}
