"""Ask SLURM: submit a script, list jobs and partitions, signal and cancel."""

import getpass
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jade.errors import ConfigError, JadeError, suggest

TIMEOUT_S = 60.0
SBATCH = "sbatch"
ACTIVE = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED", "SIGNALING")
FORM = "%i|%T|%M|%N|%r"


@dataclass(frozen=True)
class QueuedJob:
    """An element of an array, as the queue shows it."""

    job_id: str
    state: str
    took: str = ""
    node: str = ""
    reason: str = ""

    @property
    def is_active(self) -> bool:
        """Whether it waits, runs, or is being ended."""
        return self.state in ACTIVE


class Slurm:
    """The commands of SLURM.

    Args:
        environ: Says where they are, and which cluster is meant.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)

    def require(self) -> None:
        """Refuse to go on where there is no SLURM."""
        if shutil.which(SBATCH, path=self._environ.get("PATH")) is None:
            raise ConfigError(
                "There is no sbatch on PATH: is this a login node of the cluster, and is its SLURM "
                "loaded (module load slurm)? --print shows the script without it."
            )

    def check_partition(self, name: str | None) -> None:
        """Refuse a partition that the cluster does not have."""
        if name is None:
            return
        done = self._call("sinfo", "--noheader", "--format=%R")
        known = set(done.stdout.split())
        # One of several is enough: a,b.
        if done.returncode == 0 and known and not known & set(name.split(",")):
            raise ConfigError(f"There is no partition {name!r}.{suggest(name, known)}")

    def submit(self, script: Path) -> str:
        """Submit a script, and return the id of its job.

        Raises:
            ConfigError: sbatch refuses it.
        """
        done = self._call(SBATCH, "--parsable", str(script))
        if done.returncode != 0:
            said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
            raise ConfigError(f"sbatch refuses {script}:\n{said}")
        return done.stdout.strip().splitlines()[-1]

    def list_jobs(self) -> dict[str, QueuedJob]:
        """Return the jobs of this user that the queue knows, those that ended lately as well."""
        done = self._call(
            "squeue",
            "--noheader",
            "--array",
            "--states=all",
            f"--user={getpass.getuser()}",
            f"--format={FORM}",
        )
        if done.returncode != 0:
            raise JadeError(f"squeue does not answer: {done.stderr.strip()}")
        jobs = [QueuedJob(*line.split("|")) for line in done.stdout.splitlines()]
        return {job.job_id: job for job in jobs}

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        """Send a signal to the shells that run jobs."""
        if job_ids:
            self._call("scancel", "--batch", f"--signal={name}", *job_ids)

    def cancel(self, job_ids: Sequence[str]) -> None:
        """End jobs, whatever they are doing."""
        if job_ids:
            self._call("scancel", *job_ids)

    def _call(self, *command: str) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                command,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise ConfigError(
                f"There is no {command[0]} on PATH: is this a login node of the cluster?"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise JadeError(f"{command[0]} has not answered within {TIMEOUT_S:.0f} s.") from error
