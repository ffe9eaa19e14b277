"""Tell which job of a cluster a process belongs to."""

from collections.abc import Mapping

# Set by SLURM and by LSF in all that a job starts.
JOBS = ("SLURM_JOB_ID", "LSB_JOBID")
# Set by job scripts of JADE: the same wherever, and under whatever id, a job goes on.
JOB_KEY = "JADE_JOB_KEY"


def is_in_job(environ: Mapping[str, str]) -> bool:
    """Tell whether a process belongs to a job of a cluster."""
    return any(environ.get(name) for name in JOBS)


def find_job_id(environ: Mapping[str, str]) -> str | None:
    """Return the id of the job, or of the element of an array, that a process belongs to.

    The last element of an array has the id of the whole array as its ``SLURM_JOB_ID``. An id is
    kept when a job is queued again, and never runs twice at a time.
    """
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    if array and task:
        return f"{array}_{task}"
    return environ.get("SLURM_JOB_ID") or None


def find_job_key(environ: Mapping[str, str]) -> str | None:
    """Return what a job is called also after it was submitted anew, or else its id."""
    return environ.get(JOB_KEY) or find_job_id(environ)


def find_task(environ: Mapping[str, str]) -> str | None:
    """Return which of the processes of a job this is that ``srun`` has started; None without it."""
    step, process = environ.get("SLURM_STEP_ID"), environ.get("SLURM_PROCID")
    return f"{step}.{process or 0}" if step else None


def count_restarts(environ: Mapping[str, str]) -> int:
    """Return how often a job was queued again: what it was before has a lower number."""
    text = environ.get("SLURM_RESTART_COUNT", "")
    return int(text) if text.isdecimal() else 0
