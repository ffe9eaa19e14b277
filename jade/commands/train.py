"""Train a model."""

import sys

from jade.commands import COMMANDS
from jade.commands.base import (
    importing_for_good,
    make_run_parser,
    parse,
    read_configuration,
    start_relay,
)
from jade.commands.outcome import show
from jade.signals import SignalWatch


def main(tokens: list[str], program: str) -> int:
    """Run ``jade train``."""
    # From the beginning: a signal may come while torch is being imported.
    with SignalWatch() as watch:
        parsed = parse(make_run_parser(program, COMMANDS["train"]), tokens)
        if parsed is None:
            return 0
        configuration = read_configuration(*parsed)
        relay = start_relay(configuration)
        with importing_for_good():
            from jade.run import Circumstances, execute

        circumstances = Circumstances(command=sys.argv, watch=watch, relay=relay)
        return show(lambda: execute(configuration, circumstances))
