"""Spell every path of a run, create its directory, and keep its status."""

import itertools
import json
import os
import re
import secrets
import socket
import string
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jade.errors import ConfigError
from jade.whole_file import write_whole

ALPHABET = string.ascii_lowercase + string.digits
RUNNING, FINISHED, FAILED = "running", "finished", "failed"
PREEMPTED, INTERRUPTED = "preempted", "interrupted"
# Ended by the wish of whoever watches the run elsewhere, such as the early termination of a sweep.
STOPPED = "stopped"
PERIODIC = re.compile(r"checkpoint_(\d+)\.pt")
# What W&B takes as a run id, as far as it can be the name of a directory.
RUN_ID = re.compile(r"\w[\w.\-]*")
# What a test can be called by, behind its time.
TAG = re.compile(r"[\w.\-]+")
TESTS = "test_"


def new_run_id() -> str:
    """Make a run id that sorts by time and is unique without asking anybody."""
    tail = "".join(secrets.choice(ALPHABET) for _ in range(6))
    return time.strftime("%Y%m%d-%H%M%S-") + tail


@dataclass(frozen=True)
class RunDir:
    """Where one run keeps its files; nothing else in JADE spells these names."""

    root: Path

    @property
    def run_id(self) -> str:
        return self.root.name

    @property
    def config(self) -> Path:
        return self.root / "config.yml"

    @property
    def expanded_config(self) -> Path:
        return self.root / "config_expanded.yml"

    @property
    def provenance(self) -> Path:
        return self.root / "provenance.json"

    @property
    def summary(self) -> Path:
        return self.root / "summary.json"

    @property
    def status_file(self) -> Path:
        return self.root / "status.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def owner(self) -> Path:
        return self.root / "owner.json"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.csv"

    @property
    def log(self) -> Path:
        return self.root / "run.log"

    @property
    def wandb_place(self) -> Path:
        """What says to which entity, project and sweep of W&B the run belongs."""
        return self.root / "wandb.json"

    @property
    def code(self) -> Path:
        return self.root / "code"

    @property
    def staging(self) -> Path:
        """Where files are made that are only to be uploaded; W&B keeps its own there."""
        return self.root / "wandb"

    def former_code(self, attempt: int) -> Path:
        """The code that an earlier start of the run was made with."""
        return self.root / f"code.{attempt}"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def evaluations(self) -> Path:
        return self.root / "evaluations"

    @property
    def last_checkpoint(self) -> Path:
        return self.checkpoints / "last.pt"

    @property
    def former_checkpoint(self) -> Path:
        """The last checkpoint but one, in case the last one gets damaged."""
        return self.checkpoints / "former.pt"

    @property
    def best_checkpoint(self) -> Path:
        return self.checkpoints / "best.pt"

    def checkpoint(self, iteration: int) -> Path:
        return self.checkpoints / f"checkpoint_{iteration}.pt"

    def periodic_checkpoints(self) -> list[Path]:
        """List the periodic checkpoints, oldest first."""
        found = [PERIODIC.fullmatch(path.name) for path in self.checkpoints.iterdir()]
        iterations = sorted(int(match[1]) for match in found if match)
        return [self.checkpoint(iteration) for iteration in iterations]

    def evaluation(self, name: str, iteration: int) -> Path:
        """Return the path, without an ending, for what an evaluation shows at an iteration."""
        # Reversible, so that no two names share a folder; a slash makes a folder within one.
        parts = [quote(part, safe=" @+=,()") or "%" for part in name.split("/")]
        parts = [part.replace(".", "%2E") if not part.strip(".") else part for part in parts]
        return self.evaluations.joinpath(*parts) / f"{iteration:08d}"

    def pictures(self) -> list[Path]:
        """List the newest picture of each evaluation."""
        newest: dict[Path, Path] = {}
        for picture in sorted(self.evaluations.rglob("*.png")):
            newest[picture.parent] = picture
        return list(newest.values())

    def tests(self) -> "list[RunTestDir]":
        """List the tests of the run, oldest first."""
        names = [path.name for path in self.root.glob(f"{TESTS}*") if path.is_dir()]
        return [RunTestDir(self.root / name) for name in sorted(names)]

    def create_test(self, tag: str | None = None) -> "RunTestDir":
        """Create the directory of a new test, beside all older ones."""
        if tag is not None and not TAG.fullmatch(tag):
            raise ConfigError(
                f"tag: {tag!r} cannot be a part of the name of a directory: use letters, digits, "
                "'-', '_' and '.'."
            )
        stamp = time.strftime("%Y%m%d-%H%M%S")
        ending = f"_{tag}" if tag else ""
        for number in itertools.count(1):
            name = f"{stamp}-{number}" if number > 1 else stamp
            directory = RunTestDir(self.root / f"{TESTS}{name}{ending}")
            try:
                directory.root.mkdir()
            except FileExistsError:
                # Another one has begun in the same second.
                continue
            except OSError as error:
                raise ConfigError(
                    f"The run {self.root} cannot get a directory for its test: {error.strerror}."
                ) from error
            return directory
        raise AssertionError("there is always another number")

    @classmethod
    def create(cls, experiments_root: Path, run_id: str | None = None) -> "RunDir":
        """Create the directory of a new run; the id is drawn when none is given."""
        if run_id is not None and not RUN_ID.fullmatch(run_id):
            raise ConfigError(
                f"The run id {run_id!r} (WANDB_RUN_ID) cannot be the name of a directory: "
                "use letters, digits, '-', '_' and '.'."
            )
        directory = cls(experiments_root / (run_id or new_run_id()))
        try:
            experiments_root.mkdir(parents=True, exist_ok=True)
            directory.root.mkdir()
            directory.checkpoints.mkdir()
            directory.evaluations.mkdir()
        except FileExistsError as error:
            if run_id is None and experiments_root.is_dir():
                # Somebody drew the same id in the same second.
                return cls.create(experiments_root)
            if directory.root.is_dir() and not directory.config.exists():
                # A process was killed before it could write a configuration.
                directory.checkpoints.mkdir(exist_ok=True)
                directory.evaluations.mkdir(exist_ok=True)
                return directory
            raise ConfigError(_exists_message(directory.root, experiments_root)) from error
        except OSError as error:
            raise ConfigError(
                f"experiments_root: {experiments_root} cannot be written: {error.strerror}. "
                "Give another one with --experiments_root or EXPERIMENTS_ROOT."
            ) from error
        return directory

    def make_status(self, status: str, **details: Any) -> dict[str, Any]:
        """Say how the run stands now, with its process and host."""
        return {
            "status": status,
            "updated": time.time(),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            **details,
        }

    def write_status(self, status: str, **details: Any) -> None:
        """Record the state of the run with its process and host."""
        record = self.make_status(status, **details)
        write_whole(self.status_file, (json.dumps(record, indent=1) + "\n").encode())

    def read_status(self) -> Mapping[str, Any]:
        """Read what ``write_status`` recorded."""
        record: Mapping[str, Any] = json.loads(self.status_file.read_text())
        return record


@dataclass(frozen=True)
class RunTestDir:
    """Where one test of a run keeps its files."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.yml"

    @property
    def log(self) -> Path:
        return self.root / "test.log"

    @property
    def statistics(self) -> Path:
        """One row for each batch of each evaluation."""
        return self.root / "test_statistics.csv"

    @property
    def aggregated(self) -> Path:
        """One row for each metric."""
        return self.root / "test_set_agg_statistics.csv"

    @property
    def summary(self) -> Path:
        """How the test has ended; without it, it has not, or was killed."""
        return self.root / "summary.json"

    def pictures_of(self, repetition: int) -> RunDir:
        """Return what spells the paths of the pictures of a repetition."""
        return RunDir(self.root) if repetition == 1 else _Repetition(self.root, repetition)


@dataclass(frozen=True)
class _Repetition(RunDir):
    number: int

    @property
    def evaluations(self) -> Path:
        return super().evaluations / f"repetition_{self.number}"


def check_writable(experiments_root: Path, where: str = "experiments_root") -> None:
    """Refuse a root below which no directory can be made, without making one.

    Args:
        experiments_root: The root.
        where: What names it, for the message.
    """
    existing = experiments_root
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        kind = "is not a directory" if not existing.is_dir() else "is not writable"
        raise ConfigError(
            f"{where}: {experiments_root} cannot be made, {existing} {kind}. "
            "Give another one with --experiments_root or EXPERIMENTS_ROOT."
        )


def _exists_message(directory: Path, experiments_root: Path) -> str:
    if experiments_root.exists() and not experiments_root.is_dir():
        return f"experiments_root: {experiments_root} is a file, not a directory."
    return f"The run directory {directory} exists already."
