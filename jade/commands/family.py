"""A command that has commands of its own: list them, find the one that is meant, and call it."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from jade.errors import ConfigError, suggest

HELP = ("-h", "--help", "help")


def asks_for_help(tokens: Sequence[str]) -> bool:
    """Tell whether somebody wants to know which commands there are."""
    return not tokens or tokens[0] in HELP


def list_commands(commands: Mapping[str, str]) -> str:
    """Return one line for each command: its name, and what it does."""
    width = max(map(len, commands))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in commands.items())


def print_overview(program: str, commands: Mapping[str, str], more: str) -> None:
    """Print how a family is used, its commands, and what else there is to know."""
    listed = list_commands(commands)
    more = more.format(program=program)
    print(f"usage: {program} COMMAND [arguments]\n\nCommands:\n{listed}\n\n{more}", end="")


def call(module: str, tokens: list[str], program: str) -> int:
    """Import the file of a command, which takes a while only for some, and run it."""
    command: Any = importlib.import_module(module)
    code: int = command.main(tokens, program)
    return code


def unknown_command(
    name: str, known: Mapping[str, str], program: str, *, for_file: Sequence[str]
) -> ConfigError:
    """Return the error for a name that is no command; a YAML file is meant for one of some."""
    hint = suggest(name, list(known))
    if name.endswith((".yml", ".yaml")):
        meant = ", or ".join(f"{program} {command} {name}" for command in for_file)
        hint = f" Did you mean: {meant}?"
    return ConfigError(f"There is no command {name!r} of {program}.{hint}")
