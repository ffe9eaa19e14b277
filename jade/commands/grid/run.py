"""Run one run of a grid, by its number, in this process."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jade.command_line import collect_overrides
from jade.commands.base import (
    importing_for_good,
    load_configuration,
    make_run_parser,
    parse,
    require_machine,
    start_relay,
)
from jade.commands.grid import COMMANDS
from jade.commands.outcome import show
from jade.errors import ConfigError
from jade.signals import SignalWatch

if TYPE_CHECKING:
    from jade.config import Configuration


def main(tokens: list[str], program: str) -> int:
    """Run ``jade grid run``."""
    with SignalWatch() as watch:
        parser = make_run_parser(program, COMMANDS["run"])
        parser.usage = f"{program} FILE --index I [arguments as for jade train]"
        parser.add_argument("file", metavar="FILE", help="a sweep file, or one with grid_tasks")
        parser.add_argument(
            "--index", metavar="I", help="which run: 0 is the first one (jade grid list FILE)"
        )
        parsed = parse(parser, tokens)
        if parsed is None:
            return 0
        configuration = _configure(*parsed, program=program)
        require_machine(configuration)
        relay = start_relay(configuration)
        with importing_for_good():
            from jade.run import Circumstances, execute

        circumstances = Circumstances(command=sys.argv, watch=watch, relay=relay)
        return show(lambda: execute(configuration, circumstances))


def _configure(
    namespace: argparse.Namespace, rest: Sequence[str], *, program: str
) -> "Configuration":
    """Load the configuration of the run with a number."""
    from jade.sweep import NumberedRuns, require_sweep

    sweep = require_sweep(Path(namespace.file))
    runs = NumberedRuns(sweep)
    span = f"{sweep.path} has the runs 0 to {runs.count - 1}"
    if namespace.index is None:
        raise ConfigError(f"Which run? {span}: {program} {namespace.file} --index 0.")
    if not namespace.index.isdecimal() or int(namespace.index) >= runs.count:
        raise ConfigError(f"--index: there is no run {namespace.index}; {span}.")
    run = runs[int(namespace.index)]
    parser = make_run_parser(program, "the command of the sweep")
    own = collect_overrides(*parser.parse_known_args(sweep.command.filled_in(os.environ)))
    given = [*own, *collect_overrides(namespace, rest)]
    if run.repetition == 1:
        return load_configuration([*given, *run.overrides(None)])
    from jade.launch.sweep_setup import find_seed

    base_seed = find_seed(load_configuration([*given, *run.point.overrides()]))
    return load_configuration([*given, *run.overrides(base_seed)])
