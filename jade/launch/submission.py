"""Submit jobs to a cluster: check what can be checked, keep the project as it is, hand it over."""

import os
import re
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jade.errors import ConfigError
from jade.launch.job_folder import JobFolder
from jade.launch.job_script import SLURM, SSH, Job, render
from jade.launch.project_copy import ProjectCopy
from jade.launch.slurm import Slurm
from jade.resources import Resources
from jade.whole_file import write_whole

NOT_IN_NAMES = re.compile(r"[^\w.\-]+")
# What runs write in the working directory.
WRITTEN = ("wandb",)


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What somebody wants to be run on a cluster.

    Attributes:
        kind: Which command of `jade submit` it is.
        name: Of the jobs.
        command: What each element of the array runs; see `Job`.
        resources: What each of them gets.
        experiments_root: Where runs go.
        jobs_root: Where submissions are kept.
        logs: Where the output goes, if not to the folder of the submission.
        scheduler: Who runs it.
        facts: More to put on record.
    """

    kind: str
    name: str
    command: tuple[str, ...]
    resources: Resources
    experiments_root: Path
    jobs_root: Path
    logs: Path | None = None
    num_elements: int = 1
    at_a_time: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    budget: int = 3
    preflight: tuple[str, ...] = ()
    replaces_failed: bool = False
    stop_signal: str = "USR1"
    scheduler: str = SLURM
    facts: Mapping[str, str] = field(default_factory=dict)


class Submission:
    """One submission, from a wish to a job in the queue.

    Args:
        wish: What is wanted.
        environ: Says where SLURM is.
    """

    def __init__(self, wish: Wish, environ: Mapping[str, str]) -> None:
        self._wish = wish
        self._slurm = Slurm(environ)
        name = NOT_IN_NAMES.sub("-", wish.name).strip("-.") or wish.kind
        self.folder = JobFolder.plan(wish.jobs_root.absolute(), name)
        self.job = Job(
            name=name,
            command=wish.command,
            folder=self.folder.root,
            logs=(wish.logs or self.folder.logs).absolute(),
            working=self.folder.code,
            programs=Path(sys.executable).parent,
            resources=wish.resources,
            num_elements=wish.num_elements,
            at_a_time=wish.at_a_time,
            variables={"EXPERIMENTS_ROOT": str(wish.experiments_root.absolute()), **wish.variables},
            budget=wish.budget,
            preflight=wish.preflight,
            replaces_failed=wish.replaces_failed,
            stop_signal=wish.stop_signal,
            origin=shlex.join(["jade", *sys.argv[1:]]),
        )

    def render(self) -> str:
        """Render the script; nothing is written."""
        return render(self.job, self._wish.scheduler)

    def check(self) -> None:
        """Refuse what cannot be submitted; nothing is written."""
        if self._wish.scheduler == SLURM:
            self._slurm.require()
            self._slurm.check_partition(self._wish.resources.partition)
        _require_writable(self.job.logs, "the logs", "--logs")
        _require_writable(self.folder.root, "the submission", "--jobs_root")
        _require_writable(self.job.variables["EXPERIMENTS_ROOT"], "runs", "--experiments_root")

    def prepare(self) -> None:
        """Write down all that the job needs, the project included."""
        wish, folder, project = self._wish, self.folder, Path.cwd()
        for path in (self.job.logs, wish.experiments_root, folder.root):
            _make_folder(path)
        ProjectCopy(
            project,
            left_out=(wish.jobs_root.absolute(),),
            linked=(wish.experiments_root.absolute(), *(project / name for name in WRITTEN)),
        ).make(folder.code)
        write_whole(self.job.script_path, self.render().encode())
        folder.write_record(
            {
                "kind": wish.kind,
                "name": self.job.name,
                "command": self.job.origin,
                "project": str(project),
                "experiments_root": self.job.variables["EXPERIMENTS_ROOT"],
                "logs": str(self.job.logs),
                "elements": wish.num_elements,
                "scheduler": wish.scheduler,
                "submitted": time.time(),
                **wish.facts,
            }
        )

    def submit(self) -> str:
        """Hand the job over to SLURM, and return its id."""
        job_id = self._slurm.submit(self.job.script_path)
        self.folder.add_job_id(job_id)
        return job_id

    def command_by_hand(self) -> str:
        """Return what hands the job over where SLURM does not rule."""
        script = shlex.quote(str(self.job.script_path))
        if self._wish.scheduler == SSH:
            last = self._wish.num_elements - 1
            log = shlex.quote(f"{self.job.logs}/{self.job.name}")
            return f"ssh HOST 'nohup bash {script} I > {log}-I.log 2>&1 &'  # I: 0 to {last}"
        return f"bsub < {script}"


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The folder {path} cannot be made: {error.strerror}.") from error


def _require_writable(path: str | Path, what: str, flag: str) -> None:
    existing = Path(path)
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return
    kind = "is not writable" if existing.is_dir() else "is not a folder"
    raise ConfigError(
        f"The folder for {what}, {path}, cannot be made: {existing} {kind}. Give another {flag}."
    )
