"""Submit agents of a sweep: of one on W&B, or of a sweep file that needs no server."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.commands.job_flags import JobParser, carry_out, read_resources, read_run_arguments
from jade.commands.submit import COMMANDS
from jade.errors import ConfigError, suggest

if TYPE_CHECKING:
    from jade.launch.submission import Wish
    from jade.resources import Resources
    from jade.sweep import Sweep

YAML_ENDINGS = (".yml", ".yaml")
# What is passed on to `jade agent`, and to `jade sweep run`; whether a value follows.
AGENT_FLAGS = {
    **dict.fromkeys(("count", "devices", "threads", "max_failures", "grace", "patience"), True),
    "cold": False,
}
SWEEP_FLAGS = {
    **dict.fromkeys(("count", "devices", "storage", "name", "retry", "grace"), True),
    **dict.fromkeys(("retry_failed", "reuse", "group_to_wandb", "no_check", "cold"), False),
}


def main(tokens: list[str], program: str) -> int:
    """Run ``jade submit sweep``."""
    parser = JobParser(program, "SWEEP_ID|FILE --agents N [arguments]", COMMANDS["sweep"])
    parser.add("agents", metavar="N", type=int, default=1, help="jobs of the array (default: 1)")
    parser.add("per_job", metavar="K", type=int, default=1, help="trials at a time in each job")
    parser.add("wandb_agent", help="run W&B's own agent instead of `jade agent`")
    parsed = parser.parse(tokens)
    if parsed is None:
        return 0
    namespace, others = parsed
    for name in ("agents", "per_job"):
        if getattr(namespace, name) < 1:
            raise ConfigError(f"--{name} must be at least 1, not {getattr(namespace, name)}.")
    if not others or others[0].startswith("-"):
        raise ConfigError(f"Which sweep? {program} SWEEP_ID|FILE comes first.")
    target, rest = others[0], others[1:]
    if target.endswith(YAML_ENDINGS):
        return carry_out(_plan_local(Path(target), rest, namespace, parser), namespace)
    return carry_out(_plan_wandb(target, rest, namespace), namespace)


def _plan_local(
    path: Path, rest: list[str], namespace: argparse.Namespace, parser: JobParser
) -> "Wish":
    """Plan an array of workers that share the storage of one sweep."""
    from jade.launch.submission import Wish
    from jade.launch.sweep_setup import make_setup
    from jade.sweep import require_sweep

    if namespace.wandb_agent:
        raise ConfigError(f"--wandb_agent is for a sweep on W&B: jade sweep push {path} makes one.")
    sweep = require_sweep(path)
    own, for_runs = _divide(rest, SWEEP_FLAGS)
    read_run_arguments(for_runs, parser)
    name = _value_of("--name", own) or sweep.name
    setup = make_setup(sweep, for_runs, os.environ, name=name, logs=False)
    resources = read_resources(namespace, [*_sections(sweep, for_runs), *sweep.resources])
    devices = [] if _value_of("--devices", own) else ["--devices", _devices(resources)]
    command = ("jade", "sweep", "run", str(path), "--workers", str(namespace.per_job), *devices)
    return Wish(
        name=str(namespace.job_name or name),
        command=(*command, *rest),
        experiments_root=setup.folder.root.parent,
        **_common(namespace, resources),
        facts={"sweep": name, "runs": str(setup.folder.runs)},
    )


def _plan_wandb(text: str, rest: list[str], namespace: argparse.Namespace) -> "Wish":
    """Plan an array of agents of a sweep on W&B."""
    from jade.envvars import exported, read_environment
    from jade.launch.submission import Wish
    from jade.remote.reference import parse_sweep
    from jade.runs import default_root

    own, unknown = _divide(rest, AGENT_FLAGS)
    if unknown:
        flag = unknown[0].partition("=")[0]
        known = [f"--{name}" for name in AGENT_FLAGS]
        raise ConfigError(
            f"{flag} is no argument of agents; what runs are given stands in the sweep."
            f"{suggest(flag, known)}"
        )
    # A file .env may hold the key.
    with exported(read_environment(os.environ, None)):
        reference = parse_sweep(text, os.environ)
        if not namespace.print:
            from jade.launch.sweep_lookup import require_sweep_on_wandb

            reference = require_sweep_on_wandb(reference, os.environ)
        root = default_root()
    resources = read_resources(namespace, [])
    command: tuple[str, ...]
    preflight: tuple[str, ...] = ()
    if namespace.wandb_agent:
        command = ("wandb", "agent", "--forward-signals", *own, str(reference))
        preflight = ("jade", "agent", str(reference), "--preflight")
    else:
        devices = [] if _value_of("--devices", own) else ["--devices", _devices(resources)]
        command = (
            *("jade", "agent", str(reference), "--per_device", str(namespace.per_job)),
            *(*devices, *own),
        )
    return Wish(
        name=str(namespace.job_name or reference.sweep_id),
        command=command,
        preflight=preflight,
        experiments_root=root,
        # It goes on with the next trial at anything but TERM.
        stop_signal="TERM" if namespace.wandb_agent else "USR1",
        **_common(namespace, resources),
        facts={"sweep": str(reference)},
    )


def _common(namespace: argparse.Namespace, resources: "Resources") -> dict[str, Any]:
    return {
        "kind": "sweep",
        "resources": resources,
        "jobs_root": Path(namespace.jobs_root),
        "logs": Path(namespace.logs) if namespace.logs else None,
        "num_elements": namespace.agents,
        "budget": namespace.replace,
        "scheduler": namespace.scheduler,
    }


def _sections(sweep: "Sweep", for_runs: list[str]) -> list[tuple[str, Any]]:
    """Find what the configuration files of a sweep say about jobs."""
    from jade.launch.sweep_setup import load_first, read_overrides

    overrides = read_overrides(sweep, for_runs, os.environ)
    configuration = load_first(sweep, overrides, os.environ)
    return [] if configuration is None else configuration.slurm


def _devices(resources: "Resources") -> str:
    number = resources.num_gpus
    return ",".join(f"cuda:{index}" for index in range(number)) if number else "cpu"


def _divide(tokens: list[str], flags: dict[str, bool]) -> tuple[list[str], list[str]]:
    """Tell apart the flags of who runs the sweep, and arguments of its runs."""
    own: list[str] = []
    others: list[str] = []
    waiting = list(tokens)
    while waiting:
        token = waiting.pop(0)
        name, equals, _ = token.partition("=")
        key = name.removeprefix("--").replace("-", "_")
        if not name.startswith("--") or key not in flags:
            others.append(token)
            continue
        own.append(token)
        if flags[key] and not equals and waiting:
            own.append(waiting.pop(0))
    return own, others


def _value_of(flag: str, tokens: list[str]) -> str | None:
    for place, token in enumerate(tokens):
        name, equals, value = token.partition("=")
        if name.replace("-", "_") == flag.replace("-", "_"):
            return value if equals else "".join(tokens[place + 1 : place + 2])
    return None
