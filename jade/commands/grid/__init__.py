"""The commands about grids, whose runs have numbers; each one is a file of this folder."""

from jade.commands.family import asks_for_help, call, print_overview, unknown_command

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
MORE = """\
A grid is a sweep file with method: grid (or random, with a run_cap), or a file with grid_tasks.
Its runs have the numbers 0 to N - 1, as in the array of a cluster:
  N=$({program} count FILE); sbatch --array=0-$((N - 1)) ... {program} run FILE --index ...
`{program} COMMAND --help` explains the arguments; `jade sweep run FILE` runs all of it here.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade grid``."""
    known = {**COMMANDS, **SAME}
    if asks_for_help(tokens):
        print_overview(program, known, MORE)
        return 0
    name, *rest = tokens
    if name not in known:
        raise unknown_command(name, known, program, for_file=("run",))
    folder = "jade.commands" if name in SAME else "jade.commands.grid"
    return call(f"{folder}.{name}", [_rename(token) for token in rest], f"{program} {name}")


def _rename(token: str) -> str:
    name, equals, value = token.partition("=")
    return f"{FLAGS.get(name, name)}{equals}{value}"
