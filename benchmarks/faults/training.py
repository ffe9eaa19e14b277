"""The training that faults are put into: how it is started, continued, and what comes of it."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jade
from benchmarks.faults.attempt import Attempt
from jade.run_dir import FINISHED, RunDir
from jade.runs import list_begun

PROJECT = Path(__file__).parent / "project"
ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = {
    "epochs": 6,
    "seed": 1,
    "device": "cpu",
    "wandb": "disabled",
    "log_loss_every": "1 iteration",
    "checkpoint_every": "7 iterations",
    "keep_last": 2,
    "best_metric": "Error",
}
# By the clock, so that checkpoints fall everywhere; and by steps, so that there are many.
BACKUPS = ("0.05 seconds", "2 iterations")


class Training:
    """A run of the bench's project below a folder of its own, in as many attempts as it takes.

    Args:
        folder: Where its run directory and what its processes print go.
        project: The folder with its configuration and code.
        settings: Settings that differ from the usual ones.
    """

    def __init__(
        self, folder: Path, project: Path = PROJECT, settings: Mapping[str, Any] | None = None
    ) -> None:
        self.folder = folder
        self.project = project
        self.root = folder / "experiments"
        self.mark = folder / "evaluating"
        self.settings = {**SETTINGS, "backup_every": BACKUPS[0], **(settings or {})}
        self.num_attempts = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def directory(self) -> RunDir | None:
        """The newest run directory, if there is one with a configuration."""
        begun = list_begun(self.root)
        return begun[0] if begun else None

    @property
    def made(self) -> RunDir:
        """The run directory, of which there must be one."""
        directory = self.directory
        if directory is None:
            raise RuntimeError(f"Nothing was trained in {self.folder}.")
        return directory

    @property
    def is_finished(self) -> bool:
        """Whether the run has come to its end."""
        directory = self.directory
        if directory is None or not directory.status_file.exists():
            return False
        return bool(json.loads(directory.status_file.read_text())["status"] == FINISHED)

    def attempt(self, *, num_workers: int = 0, pause_s: float = 0.003, **settings: Any) -> Attempt:
        """Train in a process that is forked from this one: from the start, or where it was left."""
        given = {**self.settings, **settings}
        return self._start(lambda: self._train(given), num_workers, pause_s)

    def fresh_attempt(self, *, num_workers: int = 0, pause_s: float = 0.003) -> Attempt:
        """Train by ``python train.py --resume auto``."""
        return self._start(self._become_train, num_workers, pause_s)

    def resume(self, **settings: Any) -> Attempt:
        """Continue the run by ``jade.resume``."""
        return self._start(lambda: self._resume(settings), 0, 0.0)

    def to_the_end(self) -> float:
        """Train without any fault; return the seconds that it took."""
        started = time.monotonic()
        attempt = self.attempt()
        if attempt.wait() != 0:
            raise RuntimeError(f"Training fails without a fault: {attempt.tail()}")
        return time.monotonic() - started

    def _start(self, act: Any, num_workers: int, pause_s: float) -> Attempt:
        self.num_attempts += 1
        self.mark.unlink(missing_ok=True)
        environ = {
            "JADE_FAULTS_WORKERS": str(num_workers),
            "JADE_FAULTS_PAUSE_S": str(pause_s),
            "JADE_FAULTS_MARK": str(self.mark),
            "JADE_FAULTS_STEP": str(self.folder / "longest step"),
            "JADE_PROGRESS": "off",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        return Attempt(act, self.folder / f"output {self.num_attempts}", environ)

    def _train(self, settings: Mapping[str, Any]) -> int:
        os.chdir(self.project)
        finished = jade.train(
            "model.yml",
            "data.yml",
            "eval.yml",
            experiments_root=str(self.root),
            resume="auto",
            show_progress=False,
            **settings,
        )
        return finished.exit_code

    def _resume(self, settings: Mapping[str, Any]) -> int:
        os.chdir(self.project)
        return jade.resume(self.made.root, show_progress=False, **settings).exit_code

    def _become_train(self) -> int:
        os.chdir(self.project)
        flags = {
            "model_conf": "model.yml",
            "data_conf": "data.yml",
            "eval_conf": "eval.yml",
            "experiments_root": str(self.root),
            "resume": "auto",
            **self.settings,
        }
        words = [f"--{name}={value}" for name, value in flags.items()]
        os.execv(sys.executable, [sys.executable, str(ROOT / "train.py"), *words])
