"""The commands about grids, whose runs have numbers; each one is a file of this folder."""

import importlib
from typing import Any

from jade.errors import ConfigError, suggest

# What `jade grid --help` says of each; the file of a command is imported when it is called.
COMMANDS = {
    "count": "print how many runs a grid has",
    "list": "list the runs of a grid with their numbers",
    "run": "run one of them, by its number",
}
# What other commands do as well.
SAME = {
    "test": "test every run below a folder: jade test",
    "analyze": "compare the runs below a folder: jade analyze",
}
# How the flags of other commands are called here, too.
FLAGS = {"--max_concurrent": "--workers", "--max-concurrent": "--workers"}
OVERVIEW = """\
usage: {program} COMMAND [arguments]

Commands:
{commands}

A grid is a sweep file with method: grid (or random, with a run_cap), or a file with grid_tasks.
Its runs have the numbers 0 to N - 1, as in the array of a cluster:
  N=$({program} count FILE); sbatch --array=0-$((N - 1)) ... {program} run FILE --index ...
`{program} COMMAND --help` explains the arguments; `jade sweep run FILE` runs all of it here.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade grid``."""
    known = {**COMMANDS, **SAME}
    if not tokens or tokens[0] in ("-h", "--help", "help"):
        width = max(map(len, known))
        listed = "\n".join(f"  {name:<{width}}  {text}" for name, text in known.items())
        print(OVERVIEW.format(program=program, commands=listed), end="")
        return 0
    name, *rest = tokens
    if name not in known:
        raise ConfigError(f"There is no command {name!r} of {program}.{suggest(name, known)}")
    folder = "jade.commands" if name in SAME else "jade.commands.grid"
    command: Any = importlib.import_module(f"{folder}.{name}")
    code: int = command.main([_rename(token) for token in rest], f"{program} {name}")
    return code


def _rename(token: str) -> str:
    name, equals, value = token.partition("=")
    return f"{FLAGS.get(name, name)}{equals}{value}"
