"""Measure what JADE promises to cost, and print one table: ``python -m benchmarks --help``."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from benchmarks import (
    agent,
    analyze,
    checkpoint,
    feeding_figure,
    local_sweep,
    loop,
    memory,
    resume,
    start,
    step,
    sweep_check,
    wandb_cost,
)
from benchmarks.figures import Figure, print_table

SUBJECTS: dict[str, Callable[..., list[Figure]]] = {
    "loop": loop.measure,
    "feeding": feeding_figure.measure,
    "help": start.measure_help,
    "start": start.measure_first_step,
    "memory": memory.measure,
    "checkpoint": checkpoint.measure,
    "resume": resume.measure,
    "step": step.measure,
    "wandb": wandb_cost.measure,
    "check": sweep_check.measure,
    "agent": agent.measure,
    "sweep": local_sweep.measure,
    "analyze": analyze.measure,
}
PACKAGES = ("torch", "wandb", "optuna", "lightning", "pytorch-ignite", "rich", "numpy")


def main() -> int:
    """Measure the subjects that the arguments name; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="A,B", help=f"some of: {', '.join(SUBJECTS)}")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, rough figures")
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file, too")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else list(SUBJECTS)
    unknown = [name for name in chosen if name not in SUBJECTS]
    if unknown:
        parser.error(f"no subject {unknown[0]!r}; there are {', '.join(SUBJECTS)}")
    figures: list[Figure] = []
    for name in chosen:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        figures += SUBJECTS[name](quick=arguments.quick)
    print_table(figures)
    versions = _versions()
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    if arguments.json:
        values = [{**asdict(figure), "is_met": figure.is_met} for figure in figures]
        text = json.dumps({"versions": versions, "figures": values}, indent=1)
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    return int(any(figure.is_met is False for figure in figures))


def _versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
