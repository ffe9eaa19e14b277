"""Submit the runs of a grid, each as the element of an array with its number."""

import os
from pathlib import Path

from jade.commands.job_flags import JobParser, carry_out, read_resources, read_run_arguments
from jade.commands.submit import COMMANDS
from jade.errors import ConfigError

ENDINGS = (".yml", ".yaml")


def main(tokens: list[str], program: str) -> int:
    """Run ``jade submit grid``."""
    parser = JobParser(program, "FILE [arguments as for jade train]", COMMANDS["grid"])
    parser.add("at_a_time", metavar="N", type=int, help="run N of them at a time, at most")
    parsed = parser.parse(tokens)
    if parsed is None:
        return 0
    namespace, others = parsed
    if not others or not others[0].endswith(ENDINGS):
        raise ConfigError(f"Which grid? {program} FILE comes first.")
    path, rest = Path(others[0]), others[1:]
    if namespace.at_a_time is not None and namespace.at_a_time < 1:
        raise ConfigError(f"--at_a_time must be at least 1, not {namespace.at_a_time}.")
    from jade.launch.job_folder import JobFolder
    from jade.launch.job_script import INDEX
    from jade.launch.preflight import find_setting
    from jade.launch.submission import Wish
    from jade.launch.sweep_setup import load_first, read_overrides
    from jade.runs import default_root
    from jade.sweep import NumberedRuns, require_sweep

    sweep = require_sweep(path)
    read_run_arguments(rest, parser)
    configuration = load_first(sweep, read_overrides(sweep, rest, os.environ), os.environ)
    sections = configuration.slurm if configuration is not None else []
    root = default_root()
    if configuration is not None:
        root = Path(find_setting(configuration, "experiments_root"))
    name = str(namespace.job_name or sweep.name)
    # Runs have the name of the submission and their number, however often they are queued.
    prefix = JobFolder.plan(Path(namespace.jobs_root), name.replace("/", "-")).name
    wish = Wish(
        kind="grid",
        name=name,
        command=("jade", "grid", "run", str(path), "--index", INDEX, *rest, "--resume=auto"),
        resources=read_resources(namespace, [*sections, *sweep.resources]),
        experiments_root=root,
        jobs_root=Path(namespace.jobs_root),
        logs=Path(namespace.logs) if namespace.logs else None,
        num_elements=NumberedRuns(sweep).count,
        at_a_time=namespace.at_a_time,
        variables={"WANDB_RUN_ID": f"{prefix}-{INDEX}"},
        budget=namespace.replace,
        replaces_failed=True,
        scheduler=namespace.scheduler,
    )
    return carry_out(wish, namespace)
