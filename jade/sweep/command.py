"""Read the command of a sweep: the program, its own arguments, and what agents fill in."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade.errors import suggest

PROGRAM = "${program}"
DEFAULT_COMMAND = ("${env}", "${interpreter}", PROGRAM, "${args}")
ARGUMENTS = ("args", "args_no_equals", "args_no_hyphens", "args_no_boolean_flags")
JSON_ARGUMENTS = ("args_json", "args_json_file")
MACROS = ("env", "interpreter", "program", *ARGUMENTS, *JSON_ARGUMENTS)
# W&B knows these, too; the program would get '+key=value'.
HYDRA = ("args_append_hydra", "args_override_hydra")
MACRO = re.compile(r"\$\{([^}]*)\}")
VARIABLE = re.compile(r"\$\{envvar:([^}]*)\}")


@dataclass(frozen=True)
class Command:
    """What an agent runs for each point.

    Attributes:
        program: The file, or None if the command itself names what is run.
        tokens: The whole command, with what agents fill in as ``${...}``.
    """

    program: str | None
    tokens: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        """What stands behind the program, without what comes from the parameters."""
        programs = (place for place, token in enumerate(self.tokens) if _names_program(token))
        tokens = self.tokens[next(programs, len(self.tokens)) + 1 :]
        return [token for token in tokens if not MACRO.fullmatch(token)]

    def filled_in(self, environ: Mapping[str, str]) -> list[str]:
        """Return the arguments with environment variables in place, as an agent does it."""
        return [
            VARIABLE.sub(lambda match: environ.get(match[1], match[1]), token)
            for token in self.arguments
        ]

    def problems(self, folder: Path, environ: Mapping[str, str]) -> Iterator[str]:
        """Find what would keep an agent in a folder from running the program."""
        if self.program is not None and not (folder / self.program).exists():
            neighbours = [path.name for path in folder.glob("*.py")]
            hint = suggest(Path(self.program).name, neighbours)
            yield f"the program {self.program} does not exist in the working directory.{hint}"
        for token in self.tokens:
            for name in VARIABLE.findall(token):
                if name not in environ:
                    yield f"the command needs the environment variable {name}, which is not set."


def read_command(program: Any, command: Any, problems: list[str]) -> Command:
    """Read the keys ``program`` and ``command``, and note what is wrong with them."""
    if program is not None and not isinstance(program, str):
        problems.append(f"program must name a file, not {program!r}.")
        program = None
    if command is None:
        if program is None:
            problems.append("there is no program and no command: what should agents run?")
        return Command(program, DEFAULT_COMMAND)
    if not isinstance(command, list) or not command:
        problems.append(f"command must be a list of words, not {command!r}.")
        return Command(program, DEFAULT_COMMAND)
    tokens = tuple(str(token) for token in command)
    problems += _macro_problems(tokens)
    problems += _program_problems(program, tokens)
    return Command(program, tokens)


def _macro_problems(tokens: Sequence[str]) -> Iterator[str]:
    for token in tokens:
        for name in MACRO.findall(token):
            if name in HYDRA:
                yield f"command: ${{{name}}} is in Hydra's form; write ${{args}}."
            elif name in MACROS and token != f"${{{name}}}":
                yield f"command: W&B fills ${{{name}}} in only where it stands alone: {token!r}."
            elif name not in MACROS and not name.startswith("envvar:"):
                yield f"command: W&B knows no ${{{name}}}.{suggest(name, [*MACROS, 'envvar:NAME'])}"


def _program_problems(program: str | None, tokens: Sequence[str]) -> Iterator[str]:
    if PROGRAM in tokens:
        if program is None:
            yield "command: ${program} stands for nothing: there is no key program."
        return
    if program is not None:
        yield f"command without ${{program}}: {program} would not be run."
    elif not any(map(_names_program, tokens)):
        yield "command without ${program}: there is nothing that it runs."


def _names_program(token: str) -> bool:
    """Tell whether what follows are arguments of a training: `train.py ...`, `jade train ...`."""
    is_file = token.endswith(".py") and not token.startswith("-")
    return token in (PROGRAM, "train") or is_file
