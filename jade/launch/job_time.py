"""Find out how long the job of a cluster that this process belongs to may still take."""

import subprocess
import time
from collections.abc import Mapping

from jade.job import find_job_id
from jade.resources import TIME, parse_time

END = "SLURM_JOB_END_TIME"
# How many seconds before its end a job is told of it: set by the script of the job.
RESERVE = "JADE_RESERVE_S"
TIMEOUT_S = 10.0
# A tenth of the time, at most two minutes, is for checkpoints.
RESERVE_SHARE, LONGEST_RESERVE_S = 0.1, 120.0


def find_seconds_left(environ: Mapping[str, str]) -> float | None:
    """Return how long the job may still take; None outside a job, or if nobody limits it."""
    job_id = find_job_id(environ)
    if job_id is None:
        return None
    end = environ.get(END, "")
    if end.isdecimal():
        # Newer versions of SLURM say so themselves.
        return max(0.0, float(end) - time.time())
    try:
        done = subprocess.run(
            ["squeue", "--noheader", f"--jobs={job_id}", "--format=%L"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout.strip()
    # UNLIMITED, NOT_SET and INVALID are no limits.
    return float(parse_time(text)) if TIME.fullmatch(text) else None


def find_reserve(limit_s: float | None, environ: Mapping[str, str]) -> float:
    """Return how long before the end of a time limit trials are asked to stop.

    That is what the job was submitted with (``--warn``), if that is more, and at most half of it.
    """
    if limit_s is None:
        return 0.0
    given = environ.get(RESERVE, "")
    wanted_s = float(given) if given.isdecimal() else 0.0
    least_s = min(RESERVE_SHARE * limit_s, LONGEST_RESERVE_S)
    return max(least_s, min(wanted_s, limit_s / 2))
