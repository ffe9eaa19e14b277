"""Let jobs write their checkpoints, then end them."""

import os
from pathlib import Path

from jade.commands.base import make_parser, parse_all
from jade.commands.jobs import COMMANDS

EPILOG = """\
JOB is the name of a submission, the id of its array (4711), or that of one element (4711_3). Jobs
that wait are taken out of the queue; those that run write a checkpoint first. To go on: submit the
sweep again, or the training with --resume RUN.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade jobs cancel``."""
    from jade.launch.job_folder import DEFAULT_ROOT

    parser = make_parser(program, "JOB [arguments]", COMMANDS["cancel"], EPILOG)
    parser.add_argument("job", metavar="JOB", help="a submission, by name or job id")
    parser.add_argument("--jobs_root", "--jobs-root", metavar="DIR", default=DEFAULT_ROOT)
    parser.add_argument(
        "--grace", default="2 minutes", metavar="AMOUNT",
        help="how long checkpoints may take (default: 2 minutes)",
    )  # fmt: skip
    parsed = parse_all(parser, tokens)
    if parsed is None:
        return 0
    from jade.launch.job_cancel import cancel
    from jade.launch.job_folder import find_submission
    from jade.launch.slurm import Slurm
    from jade.schedule import parse_seconds

    grace_s = parse_seconds(parsed.grace, "--grace")
    folder = find_submission(parsed.job, Path(parsed.jobs_root))
    arrays = folder.job_ids()
    element = parsed.job if "_" in parsed.job and parsed.job.split("_")[0] in arrays else None

    def is_meant(job_id: str) -> bool:
        return job_id == element if element else job_id.split("_")[0] in arrays

    ended, cut_off = cancel(Slurm(os.environ), is_meant, grace_s)
    if not ended and not cut_off:
        print(f"{folder.name}: nothing of it waits or runs")
    if ended:
        print(f"cancelled: {', '.join(ended)}")
    if cut_off:
        print(f"cut off after {parsed.grace}: {', '.join(cut_off)}")
    return 1 if cut_off else 0
