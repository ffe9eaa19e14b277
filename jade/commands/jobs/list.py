"""Show what became of jobs that were submitted, with their runs."""

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from jade.commands.base import make_parser, parse_all
from jade.commands.jobs import COMMANDS
from jade.errors import ConfigError

if TYPE_CHECKING:
    from jade.launch.job_folder import JobFolder
    from jade.launch.job_list import ListedJob

EPILOG = """\
States are those of squeue (PENDING, RUNNING, ...); of jobs that have ended DONE, FAILED, STOPPED
(a checkpoint was written; jade submit goes on with it), GONE (nobody knows).

  jade jobs cancel JOB    writes the checkpoints of running jobs, then ends them
"""
# Of a job that runs one run after the other, so many are named.
MOST_RUNS = 3


def main(tokens: list[str], program: str) -> int:
    """Run ``jade jobs``."""
    from jade.launch.job_folder import DEFAULT_ROOT

    parser = make_parser(program, "[JOB] [arguments]", COMMANDS["list"], EPILOG)
    parser.add_argument("job", metavar="JOB", nargs="?", help="a submission, by name or job id")
    parser.add_argument(
        "--jobs_root", "--jobs-root", metavar="DIR", default=DEFAULT_ROOT,
        help=f"where submissions are kept (default: {DEFAULT_ROOT})",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="also those that are done")
    parser.add_argument("--json", action="store_true", help="print JSON, with all that is known")
    arguments = parse_all(parser, tokens)
    return 0 if arguments is None else _show(arguments)


def _show(arguments: argparse.Namespace) -> int:
    from jade.launch.job_folder import find_submission, find_submissions
    from jade.launch.job_list import list_jobs
    from jade.launch.slurm import Slurm

    root = Path(arguments.jobs_root)
    wanted = [find_submission(arguments.job, root)] if arguments.job else find_submissions(root)
    folders = list(wanted)
    if not folders:
        raise ConfigError(f"There are no submissions below {root}. `jade submit` makes them.")
    queue = Slurm(os.environ).list_jobs()
    listed = [(folder, list_jobs(folder, queue)) for folder in folders]
    shown = [
        (folder, jobs)
        for folder, jobs in listed
        if arguments.all or arguments.job or any(job.is_active for job in jobs)
    ]
    if arguments.json:
        _print_json(shown)
        return 0
    for folder, jobs in shown:
        _print(folder, jobs)
    if len(shown) < len(listed):
        print(f"{len(listed) - len(shown)} that are done are not shown: --all")
    return 0


def _print_json(shown: "list[tuple[JobFolder, list[ListedJob]]]") -> None:
    import json

    values = [
        {
            "name": folder.name,
            **folder.read_record(),
            "broken": folder.broken_nodes(),
            "jobs": [job.to_json() for job in jobs],
        }
        for folder, jobs in shown
    ]
    print(json.dumps(values, indent=1))


def _print(folder: "JobFolder", jobs: "list[ListedJob]") -> None:
    from jade.commands.run_view import align_columns, make_console, print_lines, render_text

    counts = Counter(job.state for job in jobs)
    listed = ", ".join(f"{number} {state.lower()}" for state, number in counts.most_common())
    print(f"{folder.name}: {listed}")
    columns = {
        "job": [render_text(job.job_id) for job in jobs],
        "state": [render_text(job.state) for job in jobs],
        "node": [render_text(job.node or None) for job in jobs],
        "time": [render_text(job.took or None) for job in jobs],
        "reason": [render_text(_reason(job)) for job in jobs],
        "runs": [render_text(_describe_runs(job)) for job in jobs],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    print_lines(make_console(), align_columns(shown), cut=True)
    for node in folder.broken_nodes():
        print(f"{node} cannot run it: {(folder.broken / node).read_text().strip()}")


def _reason(job: "ListedJob") -> str | None:
    return None if job.reason == "None" or job.state == "RUNNING" else job.reason or None


def _describe_runs(job: "ListedJob") -> str | None:
    """Say how many runs there were, and how far those are that are not finished."""
    from jade.run_dir import FINISHED

    if not job.runs:
        return None
    num_finished = sum(run.status == FINISHED for run in job.runs)
    others = [run for run in job.runs if run.status != FINISHED]
    parts = [f"{num_finished} finished"] if num_finished else []
    for run in others[:MOST_RUNS]:
        share = "" if run.fraction is None else f" {run.fraction:.0%}"
        parts.append(f"{run.id} {run.status}{share}")
    return ", ".join(parts)
