"""Describe a program that is to be started, and find out whether it is one for this Python."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ENV = "env"
MODULE, FILE = "module", "file"
# Of Python's own options, those that a process which runs already can fulfil.
HARMLESS_OPTIONS = ("-u",)
LONGEST_SHEBANG = 256
# What is reported for a program of which nobody can say how it ended: no exit code, no signal.
LOST = -256


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to start, and with what around it.

    Attributes:
        kind: Of the entry if it is a Python program: ``file`` or ``module``.
        entry: The file or the module.
        arguments: What follows the entry; the whole command if it is another program.
        num_threads: How many threads torch uses, if that is not left to torch.
        cores: Which cores it may use, if not all.
    """

    arguments: Sequence[str]
    environ: Mapping[str, str]
    folder: str
    kind: str | None = None
    entry: str | None = None
    num_threads: int | None = None
    cores: Sequence[int] = ()

    @property
    def command(self) -> list[str]:
        """The command that does the same in a process which Python starts anew."""
        if self.kind == MODULE:
            return [sys.executable, "-m", str(self.entry), *self.arguments]
        if self.kind == FILE:
            return [sys.executable, str(self.entry), *self.arguments]
        return list(self.arguments)

    def as_ordinary(self) -> "Program":
        """Describe the same as a process that Python starts anew."""
        return Program(
            arguments=self.command, environ=self.environ, folder=self.folder, cores=self.cores
        )


def make_program(
    command: Sequence[str], environ: Mapping[str, str], folder: str, cores: Sequence[int] = ()
) -> Program:
    """Describe a command; one for this Python becomes a program that can be forked."""
    tokens, added = _strip_env(command)
    around = {**environ, **added}
    if not tokens:
        return Program(arguments=command, environ=environ, folder=folder, cores=cores)
    entry = _find_entry(tokens, around, folder)
    if entry is None:
        return Program(arguments=command, environ=environ, folder=folder, cores=cores)
    kind, name, rest = entry
    return Program(
        kind=kind, entry=name, arguments=rest, environ=around, folder=folder, cores=cores
    )


def _strip_env(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Take ``/usr/bin/env NAME=value`` off a command; nothing is left if it has options."""
    tokens = list(command)
    if not tokens or Path(tokens[0]).name != ENV:
        return tokens, {}
    del tokens[0]
    added = {}
    while tokens and "=" in tokens[0] and not tokens[0].startswith("-"):
        name, _, value = tokens.pop(0).partition("=")
        added[name] = value
    return ([] if tokens and tokens[0].startswith("-") else tokens), added


def _find_entry(
    tokens: list[str], environ: Mapping[str, str], folder: str
) -> tuple[str, str, list[str]] | None:
    first = shutil.which(tokens[0], path=environ.get("PATH"))
    if first is None:
        return None
    if not _is_this_python(first):
        return (FILE, first, tokens[1:]) if _is_script_of_this_python(first, environ) else None
    rest = tokens[1:]
    while rest and rest[0] in HARMLESS_OPTIONS:
        del rest[0]
    if len(rest) > 1 and rest[0] == "-m":
        return MODULE, rest[1], rest[2:]
    if rest and not rest[0].startswith("-") and Path(folder, rest[0]).is_file():
        return FILE, rest[0], rest[1:]
    return None


def _is_this_python(path: str) -> bool:
    """Tell whether a command is the interpreter of this process, in the same environment."""
    given, own = Path(path), Path(sys.executable)
    is_same_place = given.parent.resolve() == own.parent.resolve()
    return is_same_place and given.resolve() == own.resolve()


def _is_script_of_this_python(path: str, environ: Mapping[str, str]) -> bool:
    """Tell whether a file begins with ``#!`` and this Python, as the command ``jade`` does."""
    try:
        with Path(path).open("rb") as file:
            line = file.readline(LONGEST_SHEBANG)
    except OSError:
        return False
    if not line.startswith(b"#!"):
        return False
    tokens = os.fsdecode(line[2:]).split()
    if len(tokens) == 2 and Path(tokens[0]).name == ENV:
        tokens = [shutil.which(tokens[1], path=environ.get("PATH")) or ""]
    return len(tokens) == 1 and _is_this_python(tokens[0])
