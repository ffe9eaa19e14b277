"""Say how jobs stand that were submitted: in the queue, and by the runs that they have made."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.launch.job_folder import JobFolder
from jade.launch.slurm import QueuedJob
from jade.run_dir import RunDir
from jade.runs import RunSummary, find_runs
from jade.signals import EXIT_PREEMPTED

# What the queue does not know any more.
DONE, FAILED, LEFT, GONE = "DONE", "FAILED", "STOPPED", "GONE"


@dataclass
class ListedJob:
    """An element of an array.

    Attributes:
        job_id: As the queue has it.
        state: As the queue has it, or else what the element itself has left.
        runs: What it has run, or still does.
    """

    job_id: str
    state: str
    took: str = ""
    node: str = ""
    reason: str = ""
    runs: list[RunSummary] = field(default_factory=list)
    is_active: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return all that is known as values for JSON."""
        runs = [run.to_json() for run in self.runs]
        return {**vars(self), "runs": runs}


def list_jobs(folder: JobFolder, queue: Mapping[str, QueuedJob]) -> list[ListedJob]:
    """List the elements of a submission; one that was put in the place of another stands for it."""
    record = folder.read_record()
    arrays = folder.job_ids()
    found = []
    for task in map(str, range(int(record.get("elements") or 1))):
        ids = [f"{array}_{task}" for array in arrays]
        known = [queue[job_id] for job_id in ids if job_id in queue]
        found.append(_describe(folder, task, ids, known))
    _add_runs(found, arrays, find_runs(Path(str(record.get("experiments_root") or "experiments"))))
    return found


def _describe(folder: JobFolder, task: str, ids: list[str], known: list[QueuedJob]) -> ListedJob:
    newest = known[-1] if known else None
    if newest is not None and newest.is_active:
        return ListedJob(
            newest.job_id, newest.state, newest.took, newest.node, newest.reason, is_active=True
        )
    end = folder.read_end(task)
    if end is None and newest is not None:
        # It was ended before it could say anything, or was never begun.
        return ListedJob(newest.job_id, newest.state, newest.took, newest.node, newest.reason)
    if end is None:
        return ListedJob(ids[-1] if ids else task, GONE)
    job_id, code = end
    states = {0: DONE, EXIT_PREEMPTED: LEFT}
    state = states.get(code, FAILED)
    took, node = (newest.took, newest.node) if newest is not None else ("", "")
    return ListedJob(job_id, state, took, node, f"exit {code}" if state == FAILED else "")


def _add_runs(jobs: list[ListedJob], arrays: list[str], runs: Iterable[RunSummary]) -> None:
    """Give each job the runs that name it as the one that has run them last."""
    by_task = {job.job_id.rpartition("_")[2]: job for job in jobs}
    for run in runs:
        ids = _read_ids(RunDir(run.path))
        if ids.get("SLURM_ARRAY_JOB_ID") in arrays:
            job = by_task.get(str(ids.get("SLURM_ARRAY_TASK_ID")))
            if job is not None:
                job.runs.append(run)


def _read_ids(run: RunDir) -> Mapping[str, Any]:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found = json.loads(run.provenance.read_bytes()).get("ids")
        return found if isinstance(found, Mapping) else {}
    return {}
