"""The commands about jobs that were submitted; each one is a file of this folder."""

from jade.commands.family import call

LIST = "list"
# What `jade jobs --help` says of each; the file of a command is imported when it is called.
COMMANDS = {
    LIST: "show what became of jobs that were submitted, with their runs; also without its name",
    "cancel": "let jobs write their checkpoints, then end them",
}


def main(tokens: list[str], program: str) -> int:
    """Run ``jade jobs``."""
    name, rest = (tokens[0], tokens[1:]) if tokens and tokens[0] in COMMANDS else (LIST, tokens)
    shown = program if name == LIST else f"{program} {name}"
    return call(f"jade.commands.jobs.{name}", rest, shown)
