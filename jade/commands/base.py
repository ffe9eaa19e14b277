"""What commands share: the parser of a configuration, and the start of a long program."""

import argparse
import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jade.command_line import ArgumentParser, add_settings, collect_overrides
from jade.errors import ConfigError, closest
from jade.job import is_in_job
from jade.signals import AGENT

if TYPE_CHECKING:
    from jade.config import Configuration
    from jade.loggers.relay import RelayProcess
    from jade.overrides import Override

TEACHING = """\
A run needs a trainer (--model_conf), datasets (--data_conf) and an amount (--epochs or
--train_for); most have evaluations (--eval_conf) and architectures (--arch_impl), too.

Any value can be set by its dotted key. `jade config` lists all keys:
  --model.params.beta=0.1    --data.train.params.split=train    --eval.X.evaluate_every='2 epochs'
A short form is enough where only one parameter fits: --model.beta=0.1
Amounts have units: 2 (epochs), '500 iterations', '10 minutes', '0.5 hours'.
Who wins: defaults < default_configs < files < DEVICE, EXPERIMENTS_ROOT < arguments < sweep.
Values may hold $NAME, ${NAME} or ${NAME:-default}; a file .env supplies names, too.

Exit codes: 0 finished, 1 failed, 2 wrong configuration (nothing was started),
            75 stopped by a signal or --time_limit, 130 interrupted: the last checkpoint is
            written, and `jade resume RUN` goes on as if nothing had happened.
"""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Show each flag once, although it can be spelled in two ways."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if len(action.option_strings) > 1 and action.option_strings[0].startswith("--"):
            metavar = self._format_args(action, action.dest.upper())
            return f"{action.option_strings[0]} {metavar}".rstrip()
        return super()._format_action_invocation(action)


def make_parser(program: str, usage: str, text: str, epilog: str = "") -> ArgumentParser:
    """Make the parser of a command; ``text`` says what the command does."""
    return ArgumentParser(
        prog=program,
        usage=f"{program} {usage}",
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )


def make_run_parser(program: str, text: str) -> ArgumentParser:
    """Make a parser that takes all that describes a run."""
    usage = "--model_conf FILE --data_conf FILE --epochs N [arguments]"
    parser = make_parser(program, usage, text, TEACHING)
    add_settings(parser)
    return parser


def parse(
    parser: argparse.ArgumentParser, tokens: Sequence[str]
) -> tuple[argparse.Namespace, list[str]] | None:
    """Parse arguments, and return what is left of them; None if the help was asked for."""
    try:
        return parser.parse_known_args(list(tokens))
    except SystemExit:
        return None


def parse_all(parser: argparse.ArgumentParser, tokens: Sequence[str]) -> argparse.Namespace | None:
    """Parse arguments of which none may be left over; None if the help was asked for."""
    parsed = parse(parser, tokens)
    if parsed is None:
        return None
    namespace, rest = parsed
    if rest:
        flag = rest[0].partition("=")[0]
        what = f"There is no flag {flag}." if flag.startswith("-") else f"{flag!r} is too much."
        known = [name for action in parser._actions for name in action.option_strings]
        meant = closest(flag, known) if flag.startswith("-") else None
        hint = f" Did you mean {meant}?" if meant else ""
        raise ConfigError(f"{what}{hint} See {parser.prog} --help.")
    return namespace


def load_configuration(
    overrides: "Sequence[Override]", variables: "Mapping[str, str] | None" = None
) -> "Configuration":
    """Load the configuration that the arguments of a command describe.

    Args:
        overrides: What the arguments say.
        variables: Are set in its environment, whatever that says.
    """
    from jade.config import Sources, load

    return load(Sources(arguments=overrides, environ={**os.environ, **(variables or {})}))


def read_configuration(namespace: argparse.Namespace, rest: Sequence[str]) -> "Configuration":
    """Load the configuration that parsed arguments describe; it has to be resolved.

    Files that cannot be read are an error then, together with all else that is wrong.
    """
    from jade.config import Sources, collect

    return collect(Sources(arguments=collect_overrides(namespace, rest), environ=os.environ))


def start_relay(configuration: "Configuration") -> "RelayProcess | None":
    """Start the process that talks to W&B, if there will be one: it has its own things to import.

    What it will be used for is only known once the configuration is resolved; until then it waits.
    """
    from jade.loggers.relay import RelayProcess
    from jade.loggers.wandb_account import resolve_mode

    if configuration.errors:
        # There will be no run.
        return None
    chosen = {**configuration.values, **{o.key: o.value for o in configuration.overrides}}
    try:
        mode = resolve_mode(str(chosen.get("wandb") or "auto"), configuration.environ)
    except ConfigError:
        # It is said with all other problems.
        return None
    is_needed = mode != "disabled" and not chosen.get("dry_run")
    return RelayProcess(configuration.environ) if is_needed else None


def require_machine(configuration: "Configuration") -> None:
    """Find out, in a job of a cluster, whether its machine can run this at all.

    The trials of an agent need not ask: the agent has.
    """
    environ = configuration.environ
    if not is_in_job(environ) or AGENT in environ or environ.get("WANDB_SWEEP_PARAM_PATH"):
        return
    from jade.launch.preflight import ROOT, Preflight, find_setting

    Preflight(
        configurations=[configuration],
        folders={
            ROOT: Path(find_setting(configuration, ROOT)),
            "temporary files": Path(tempfile.gettempdir()),
        },
        devices=["auto"],
        environ=environ,
        needs_login=False,
    ).require_success()


@contextlib.contextmanager
def importing_for_good() -> Iterator[None]:
    """Keep the garbage collector from what is imported: it would look through it again and again.

    Torch alone is a quarter of a million objects, none of which is garbage before the end.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
