"""Submit one training, queued again until it is done."""

import os
from pathlib import Path

from jade.commands.base import load_configuration
from jade.commands.job_flags import JobParser, carry_out, read_resources, read_run_arguments
from jade.commands.submit import COMMANDS
from jade.errors import ConfigError

ROOT = "experiments_root"


def main(tokens: list[str], program: str) -> int:
    """Run ``jade submit train``."""
    parser = JobParser(program, "[arguments as for jade train]", COMMANDS["train"])
    parsed = parser.parse(tokens)
    if parsed is None:
        return 0
    namespace, others = parsed
    overrides = read_run_arguments(others, parser)
    if not overrides:
        raise ConfigError(f"What is to be trained? {program} --config FILE, as for jade train.")
    given = {override.key: override.value for override in overrides}
    configuration = load_configuration(overrides)
    from jade.launch.preflight import find_setting
    from jade.launch.submission import Wish
    from jade.run_dir import new_run_id

    # The id is chosen now: whoever runs the job, and how often, it is the same run.
    run_id = os.environ.get("WANDB_RUN_ID") or new_run_id()
    resume = [] if "resume" in given else ["--resume=auto"]
    name = namespace.job_name or given.get("run_name") or _name(configuration.values)
    wish = Wish(
        kind="train",
        name=str(name),
        command=("jade", "train", *others, *resume),
        resources=read_resources(namespace, configuration.slurm),
        experiments_root=Path(find_setting(configuration, ROOT)),
        jobs_root=Path(namespace.jobs_root),
        logs=Path(namespace.logs) if namespace.logs else None,
        variables={"WANDB_RUN_ID": run_id} if resume else {},
        budget=namespace.replace,
        replaces_failed=True,
        scheduler=namespace.scheduler,
        facts={"run": run_id},
    )
    return carry_out(wish, namespace)


def _name(values: "dict[str, object]") -> str:
    model = values.get("model")
    return str(model.get("class") or "train") if isinstance(model, dict) else "train"
