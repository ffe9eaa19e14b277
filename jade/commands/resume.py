"""Continue a run that was stopped, killed or has failed, exactly where it was left."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jade.command_line import add_settings, collect_overrides
from jade.commands import COMMANDS
from jade.commands.base import (
    importing_for_good,
    load_configuration,
    make_parser,
    parse,
    start_relay,
)
from jade.commands.outcome import show
from jade.errors import ConfigError, closest
from jade.settings import FIELDS
from jade.signals import SignalWatch

if TYPE_CHECKING:
    from jade.config import Configuration

TEACHING = """\
RUN is a directory, the id of a run below --experiments_root, or a run on W&B (entity/project/id),
which is fetched from there. The run goes on from its newest checkpoint to exactly the result that
it would have had, also in the middle of an epoch, with another number of data workers, and on
another machine.

It trains as long as it was told to in all. --total and --additional say otherwise:
  jade resume RUN --total '20 epochs'         until 20 epochs are done, those before included
  jade resume RUN --additional '5 epochs'     5 epochs more, from where it was left

Settings and dotted keys may be given as for jade train; what they replace is said in the log.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade resume``."""
    with SignalWatch() as watch:
        parser = make_parser(program, "RUN [arguments]", COMMANDS["resume"], TEACHING)
        parser.add_argument(
            "run", metavar="RUN", help="directory or id of the run, or a run on W&B"
        )
        parser.add_argument("--total", metavar="AMOUNT", help="how long to train in all")
        parser.add_argument("--additional", metavar="AMOUNT", help="how much longer to train")
        add_settings(parser)
        parsed = parse(parser, tokens)
        if parsed is None:
            return 0
        configuration = _configure(*parsed)
        relay = start_relay(configuration)
        with importing_for_good():
            from jade.run import Circumstances, execute

        circumstances = Circumstances(
            command=sys.argv, watch=watch, additional=parsed[0].additional, relay=relay
        )
        return show(lambda: execute(configuration, circumstances))


def _configure(namespace: argparse.Namespace, rest: list[str]) -> "Configuration":
    from jade.left_run import continue_run
    from jade.remote.place import bring_here
    from jade.saved_runs import read_json
    from jade.schedule import parse_amount

    for token in rest:
        name = token.lstrip("-").partition("=")[0].replace("-", "_")
        meant = closest(name, (*FIELDS, "total", "additional"), likeness=0.7)
        if token.startswith("--") and "." not in name and meant in ("total", "additional"):
            raise ConfigError(f"There is no flag --{name}. Did you mean --{meant}?")
    if namespace.total is not None and namespace.additional is not None:
        raise ConfigError("--total and --additional exclude each other.")
    if namespace.additional is not None:
        parse_amount(namespace.additional, "--additional")
    total = None
    if namespace.total is not None:
        total = parse_amount(namespace.total, "--total", zero=True)
    root = getattr(namespace, "experiments_root", None)
    directory, variables = bring_here(namespace.run, Path(root) if root else None)
    overrides = continue_run(directory, collect_overrides(namespace, rest), total)
    started_in = read_json(directory.provenance).get("directory")
    if started_in not in (None, str(Path.cwd())):
        print(f"note: the run was started in {started_in}; relative paths are tried from here.")
    return load_configuration(overrides, variables)
