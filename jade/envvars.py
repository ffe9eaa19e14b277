"""Expand ``$NAME``, ``${NAME}`` and ``${NAME:-default}`` in values, ``$$`` being a dollar sign."""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade.errors import ConfigError, closest
from jade.scalar import parse_scalar

# A default may hold variables itself: ${SCRATCH:-${HOME}/data}.
VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<name>[A-Za-z_]\w*)"
    r"|\{(?P<braced>[A-Za-z_]\w*)(?::-(?P<default>(?:[^{}]|\$\{[^{}]*\})*))?\}"
    r"|(?P<bad>\{[^}]*\}?))"
)


@dataclass(frozen=True)
class Expanded:
    """A text whose variables were replaced: as text, and read as a value (``4`` is a number)."""

    text: str
    value: Any


def has_variables(value: Any) -> bool:
    """Tell whether a value is text that ``expand_text`` would change."""
    return isinstance(value, str) and VARIABLE.search(value) is not None


def names_in(text: str) -> set[str]:
    """Return the names of the variables that a text refers to."""
    found = {match["name"] or match["braced"] for match in VARIABLE.finditer(text)}
    return {name for name in found if name}


def expand_text(text: str, environ: Mapping[str, str]) -> tuple[Expanded, list[str]]:
    """Replace the variables of a text; also return the names that are not set."""
    missing: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        if match["bad"]:
            raise ConfigError(
                f"{text!r}: {match[0]!r} is not a variable; write ${{NAME}}, ${{NAME:-default}}, "
                "or $$ for a dollar sign."
            )
        name = match["name"] or match["braced"]
        value = environ.get(name)
        if value:
            return value
        if match["default"] is not None:
            return VARIABLE.sub(replacement, match["default"])
        if value is None:
            missing.append(name)
        return ""

    expanded = VARIABLE.sub(replacement, text)
    return Expanded(expanded, parse_scalar(expanded)), missing


def similar_variable(name: str, environ: Mapping[str, str]) -> str:
    """Render the variable that was probably meant, as text after a sentence."""
    meant = closest(name, environ)
    return f" Is {meant} meant, which is set?" if meant else ""


def read_environment(
    environ: Mapping[str, str], env_file: str | None, asked_by: str = "--env_file"
) -> dict[str, str]:
    """Read a ``.env`` file below the real environment, which always wins.

    Without a name the file ``.env`` of the working directory is read, if there is one.
    """
    path = Path(env_file or ".env")
    if not path.is_file():
        if env_file is None:
            return dict(environ)
        what = "is a directory" if path.is_dir() else "does not exist"
        raise ConfigError(f"{asked_by}: {env_file} {what}; a file with lines NAME=value is needed.")
    from dotenv import dotenv_values
    from dotenv.parser import parse_stream

    try:
        if env_file is not None:
            with path.open(encoding="utf-8") as file:
                wrong = [str(part.original.line) for part in parse_stream(file) if part.error]
            if wrong:
                lines = f"{path}:{', '.join(wrong)}"
                raise ConfigError(f"{asked_by}: not of the form NAME=value: {lines}.")
        from_file = dotenv_values(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{asked_by}: {path} cannot be read: {error}.") from error
    return {**{key: value for key, value in from_file.items() if value is not None}, **environ}


@contextlib.contextmanager
def exported(environ: Mapping[str, str]) -> Iterator[None]:
    """Show what a file .env says to libraries and worker processes, which look nowhere else."""
    added = {name: value for name, value in environ.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
