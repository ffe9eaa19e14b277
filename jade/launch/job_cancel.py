"""Cancel jobs, with time to write their checkpoints."""

import time
from collections.abc import Callable, Sequence

from jade.launch.slurm import Slurm

# Tells the shell of a job that it is to end for good; see the script of a job.
CANCEL = "USR2"
LOOK_S = 0.5
RUNNING = "RUNNING"


def cancel(
    slurm: Slurm, is_meant: Callable[[str], bool], grace_s: float
) -> tuple[list[str], list[str]]:
    """Cancel the jobs that are meant, and return which were left in order, and which were cut off.

    Args:
        slurm: Where they are.
        is_meant: Tells by its id whether a job is to be cancelled.
        grace_s: How long those that run may take.
    """
    active = _active(slurm, is_meant)
    running = [job_id for job_id, state in active if state == RUNNING]
    # Those that wait first: none of them shall take the place of one that ends.
    slurm.cancel([job_id for job_id, state in active if state != RUNNING])
    slurm.signal(running, CANCEL)
    deadline = time.monotonic() + grace_s
    left: Sequence[str] = running
    while left and time.monotonic() < deadline:
        time.sleep(LOOK_S)
        left = [job_id for job_id, _ in _active(slurm, is_meant)]
    slurm.cancel(left)
    return [job_id for job_id, _ in active if job_id not in left], list(left)


def _active(slurm: Slurm, is_meant: Callable[[str], bool]) -> list[tuple[str, str]]:
    return [
        (job.job_id, job.state)
        for job in slurm.list_jobs().values()
        if job.is_active and is_meant(job.job_id)
    ]
