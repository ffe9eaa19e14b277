"""The commands about sweeps; each one is a file of this folder."""

from jade.commands.family import asks_for_help, call, print_overview, unknown_command

# What `jade sweep --help` says of each; the file of a command is imported when it is called.
COMMANDS = {
    "run": "run a sweep file on this machine, without any server",
    "status": "show how a local sweep stands",
    "stop": "ask the workers of a local sweep to stop, wherever they are",
    "list": "list the local sweeps",
    "push": "check a sweep file, register it with W&B, and print the commands of agents",
}
MORE = """\
`{program} COMMAND --help` explains the arguments; `jade check SWEEP.yml` only checks.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade sweep``."""
    if asks_for_help(tokens):
        print_overview(program, COMMANDS, MORE)
        return 0
    name, *rest = tokens
    if name not in COMMANDS:
        raise unknown_command(name, COMMANDS, program, for_file=("run", "push"))
    return call(f"jade.commands.sweep.{name}", rest, f"{program} {name}")
