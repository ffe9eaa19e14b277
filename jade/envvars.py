"""Expand ``$NAME``, ``${NAME}`` and ``${NAME:-default}`` in values, ``$$`` being a dollar sign."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade.errors import ConfigError
from jade.yaml_file import parse_scalar

VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<name>[A-Za-z_]\w*)"
    r"|\{(?P<braced>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<bad>\{[^}]*\}?))"
)


@dataclass(frozen=True)
class Expanded:
    """A text whose variables were replaced: as text, and read as a value (``4`` is a number)."""

    text: str
    value: Any


def has_variables(value: Any) -> bool:
    """Tell whether a value is text that ``expand_text`` would change."""
    return isinstance(value, str) and VARIABLE.search(value) is not None


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
            return str(match["default"])
        if value is None:
            missing.append(name)
        return ""

    expanded = VARIABLE.sub(replacement, text)
    return Expanded(expanded, parse_scalar(expanded)), missing


def expand(value: Any, environ: Mapping[str, str]) -> Any:
    """Expand every text in a nested value; a variable that is not set is a ConfigError."""
    if isinstance(value, Mapping):
        return {key: expand(item, environ) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [expand(item, environ) for item in value]
    if not has_variables(value):
        return value
    expanded, missing = expand_text(value, environ)
    if missing:
        raise ConfigError(f"{value!r}: the variable {missing[0]} is not set.")
    return expanded.value


def read_environment(environ: Mapping[str, str], env_file: str | None) -> dict[str, str]:
    """Read a ``.env`` file below the real environment, which always wins.

    Without a name the file ``.env`` of the working directory is read, if there is one.
    """
    path = Path(env_file or ".env")
    if not path.is_file():
        if env_file is not None:
            raise ConfigError(f"--env_file {env_file} does not exist.")
        return dict(environ)
    from dotenv import dotenv_values

    from_file = dotenv_values(path, interpolate=False)
    return {**{key: value for key, value in from_file.items() if value is not None}, **environ}
