"""The commands that submit jobs to a cluster; each one is a file of this folder."""

import importlib
from typing import Any

from jade.errors import ConfigError, suggest

# What `jade submit --help` says of each; the file of a command is imported when it is called.
COMMANDS = {
    "sweep": "submit agents of a sweep: a sweep on W&B, or a sweep file that needs no server",
    "train": "submit one training, queued again until it is done",
    "grid": "submit the runs of a grid, each as the element of an array with its number",
    "test": "submit tests of a run, or of all runs below a folder",
}
OVERVIEW = """\
usage: {program} COMMAND [arguments]

Commands:
{commands}

  {program} sweep SWEEP_ID|FILE --agents 8 --time 10:00:00 --gpus 1 --cpus 8 --mem 16G
`{program} COMMAND --help` explains the arguments, --print shows the script; `jade jobs` shows what
becomes of jobs.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade submit``."""
    if not tokens or tokens[0] in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        listed = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
        print(OVERVIEW.format(program=program, commands=listed), end="")
        return 0
    name, *rest = tokens
    if name not in COMMANDS:
        hint = suggest(name, list(COMMANDS))
        if name.endswith((".yml", ".yaml")):
            hint = f" Did you mean: {program} sweep {name}?"
        raise ConfigError(f"There is no command {name!r} of {program}.{hint}")
    command: Any = importlib.import_module(f"jade.commands.submit.{name}")
    code: int = command.main(rest, f"{program} {name}")
    return code
