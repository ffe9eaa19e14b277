"""The commands about sweeps; each one is a file of this folder."""

import importlib
from typing import Any

from jade.errors import ConfigError, suggest

# What `jade sweep --help` says of each; the file of a command is imported when it is called.
COMMANDS = {
    "run": "run a sweep file on this machine, without any server",
    "status": "show how a local sweep stands",
    "stop": "ask the workers of a local sweep to stop, wherever they are",
    "list": "list the local sweeps",
    "push": "check a sweep file, register it with W&B, and print the commands of agents",
}
OVERVIEW = """\
usage: {program} COMMAND [arguments]

Commands:
{commands}

`{program} COMMAND --help` explains the arguments; `jade check SWEEP.yml` only checks.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade sweep``."""
    if not tokens or tokens[0] in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        listed = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
        print(OVERVIEW.format(program=program, commands=listed), end="")
        return 0
    name, *rest = tokens
    if name not in COMMANDS:
        hint = suggest(name, list(COMMANDS))
        if name.endswith((".yml", ".yaml")):
            hint = f" Did you mean: {program} run {name}, or {program} push {name}?"
        raise ConfigError(f"There is no command {name!r} of {program}.{hint}")
    command: Any = importlib.import_module(f"jade.commands.sweep.{name}")
    code: int = command.main(rest, f"{program} {name}")
    return code
