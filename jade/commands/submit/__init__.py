"""The commands that submit jobs to a cluster; each one is a file of this folder."""

from jade.commands.family import asks_for_help, call, print_overview, unknown_command

# What `jade submit --help` says of each; the file of a command is imported when it is called.
COMMANDS = {
    "sweep": "submit agents of a sweep: a sweep on W&B, or a sweep file that needs no server",
    "train": "submit one training, queued again until it is done",
    "grid": "submit the runs of a grid, each as the element of an array with its number",
    "test": "submit tests of a run, or of all runs below a folder",
}
MORE = """\
  {program} sweep SWEEP_ID|FILE --agents 8 --time 10:00:00 --gpus 1 --cpus 8 --mem 16G
`{program} COMMAND --help` explains the arguments, --print shows the script; `jade jobs` shows what
becomes of jobs.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade submit``."""
    if asks_for_help(tokens):
        print_overview(program, COMMANDS, MORE)
        return 0
    name, *rest = tokens
    if name not in COMMANDS:
        raise unknown_command(name, COMMANDS, program, for_file=("sweep",))
    return call(f"jade.commands.submit.{name}", rest, f"{program} {name}")
