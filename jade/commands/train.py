"""Train a model."""

import functools
import os
import sys
from typing import TYPE_CHECKING

from jade.commands import COMMANDS
from jade.commands.base import (
    importing_for_good,
    make_run_parser,
    parse,
    read_configuration,
    require_machine,
    start_relay,
)
from jade.commands.confirmation import is_confirmed, show_configuration
from jade.commands.outcome import show
from jade.signals import SignalWatch

if TYPE_CHECKING:
    from jade.command_line import ArgumentParser
    from jade.config import Configuration


def main(tokens: list[str], program: str) -> int:
    """Run ``jade train``."""
    # From the beginning: a signal may come while torch is being imported.
    with SignalWatch.for_run(os.environ) as watch:
        parsed = parse(make_parser(program), tokens)
        if parsed is None:
            return 0
        from jade.resolve import refuse_command

        configuration = read_configuration(*parsed)
        refuse_command(configuration)
        if parsed[0].confirm and not _is_confirmed(configuration):
            print("nothing was started")
            return 0
        require_machine(configuration)
        relay = start_relay(configuration)
        with importing_for_good():
            from jade.run import Circumstances, execute

        circumstances = Circumstances(command=sys.argv, watch=watch, relay=relay)
        return show(lambda: execute(configuration, circumstances))


# A process that trials are forked from has made it for them.
@functools.cache
def make_parser(program: str) -> "ArgumentParser":
    """Make the parser of ``jade train``."""
    parser = make_run_parser(program, COMMANDS["train"])
    parser.add_argument(
        "--confirm", action="store_true", help="show the configuration, and wait for a yes"
    )
    return parser


def _is_confirmed(configuration: "Configuration") -> bool:
    from jade.envvars import exported
    from jade.resolve import resolve

    with exported(configuration.environ):
        show_configuration(resolve(configuration))
    return is_confirmed("Train this?")
