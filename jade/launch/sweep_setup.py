"""Find out what the runs of a local sweep need: their folder, environment, arguments and seed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jade.command_line import ArgumentParser, add_settings, collect_overrides
from jade.config import Configuration, Sources, load
from jade.launch.local_sweep import Setup
from jade.launch.preflight import ROOT, find_setting
from jade.launch.sweep_folder import SweepFolder
from jade.overrides import Override
from jade.runs import default_root
from jade.settings import AMOUNT, FIELDS, FILES, INPUTS
from jade.sweep import Point, Sweep

# What glibc's allocator reads when a process begins: steps of large networks cost the same each
# time, because memory is not given back and fetched again.
ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(8 * 2**30),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}
# Settings that change what comes of a run, besides those of what is trained and how long.
TELLING = ("seed", "deterministic", "evaluate_first")
UNTELLING = ("time_limit",)
# What belongs to whoever starts the sweep, and not to its runs.
STRANGE = ("WANDB_SWEEP_ID", "WANDB_RUN_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_SERVICE")


def make_setup(
    sweep: Sweep, others: Sequence[str], environ: Mapping[str, str], *, name: str, logs: bool
) -> Setup:
    """Find out how the runs of a sweep are started; nothing is written.

    Args:
        sweep: What is run.
        others: Arguments for all runs.
        environ: Our environment.
        name: Of the sweep.
        logs: Whether runs may log to W&B.
    """
    around = {key: value for key, value in environ.items() if key not in STRANGE}
    overrides = read_overrides(sweep, others, around)
    configuration = load_first(sweep, overrides, around)
    root = default_root() if configuration is None else Path(find_setting(configuration, ROOT))
    folder = SweepFolder.of((Path.cwd() / root).absolute(), name)
    arguments: list[str] = []
    if configuration is not None:
        to_wandb = [f"--group={name}"] if logs else ["--wandb=disabled"]
        arguments = [*to_wandb, *others, f"--experiments_root={folder.runs}", "--resume=auto"]
    return Setup(
        sweep=sweep,
        folder=folder,
        working=Path.cwd(),
        environ={**ALLOCATOR, **around},
        arguments=arguments or list(others),
        base_seed=find_seed(configuration),
        is_training=configuration is not None,
        uses_wandb=logs or configuration is None,
    )


def read_overrides(
    sweep: Sweep, others: Sequence[str], environ: Mapping[str, str]
) -> list[Override]:
    """Read the arguments that all runs have."""
    parser = ArgumentParser(allow_abbrev=False, add_help=False)
    add_settings(parser)
    given = [*sweep.command.filled_in(environ), *others]
    return collect_overrides(*parser.parse_known_args(given))


def make_facts(sweep: Sweep, overrides: Sequence[Override]) -> dict[str, Any]:
    """Return what must stay the same for the runs of a sweep to be comparable."""
    arguments = {o.key: o.value for o in overrides if _is_telling(o.key)}
    metric = sweep.metric
    return {
        "method": sweep.method,
        "program": sweep.command.program or "",
        "metric": metric.name if metric else None,
        "goal": metric.goal if metric else None,
        "arguments": dict(sorted(arguments.items())),
    }


def _is_telling(key: str) -> bool:
    if key not in FIELDS:
        return True
    group = FIELDS[key].metadata["group"]
    return key in TELLING or (group in (INPUTS, AMOUNT) and key not in UNTELLING)


def first_point(sweep: Sweep) -> Point:
    """Return the point that is run first."""
    grid = sweep.grid
    return sweep.draw(0) if grid is None else grid[0]


def load_first(
    sweep: Sweep, overrides: Sequence[Override], environ: Mapping[str, str]
) -> Configuration | None:
    """Load the configuration of one point; None if the program is not one of JADE."""
    given = [*overrides, *first_point(sweep).overrides()]
    if not any(override.key in FILES for override in given):
        return None
    return load(Sources(arguments=given, environ=environ))


def find_seed(configuration: Configuration | None) -> int | None:
    """Return the seed that is configured; None if each run draws its own."""
    if configuration is None:
        return None
    text = find_setting(configuration, "seed")
    # Without a seed, or with -1, each run draws its own.
    return int(text) if text.isdigit() else None
