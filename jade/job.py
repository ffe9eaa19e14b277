"""Tell which job of a cluster a process belongs to."""

from collections.abc import Mapping

# Set by SLURM and by LSF in all that a job starts.
JOBS = ("SLURM_JOB_ID", "LSB_JOBID")


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
