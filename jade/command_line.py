"""Turn command-line arguments into overrides: flags, dotted keys, and what agents pass."""

import argparse
import json
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jade.errors import ConfigError
from jade.overrides import Override, parse_override, parse_value
from jade.settings import FIELDS, TYPES
from jade.yaml_file import Origin


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting, spelled with ``_`` or ``-``."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for name, field in FIELDS.items():
        title = field.metadata["group"]
        group = groups.setdefault(title, parser.add_argument_group(title))
        spellings = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        group.add_argument(*spellings, dest=name, **_options(name))
    override = parser.add_argument_group("any other value")
    override.add_argument(
        "--set",
        dest="assignments",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set any value by its dotted key; --model.params.beta=0.1 does the same",
    )


def _options(name: str) -> dict[str, Any]:
    field, kind = FIELDS[name], TYPES[name]
    default = field.default
    shown = f" (default: {default})" if default not in (None, (), False) else ""
    options: dict[str, Any] = {
        "help": field.metadata["help"].replace("%", "%%") + shown,
        "default": argparse.SUPPRESS,
        "metavar": field.metadata["metavar"],
    }
    if kind is bool:
        options.update(nargs="?", const="true", metavar="true|false")
    elif kind == tuple[str, ...]:
        options.update(action="append")
    elif typing.get_origin(kind) is typing.Literal:
        options.update(metavar="{" + ",".join(typing.get_args(kind)) + "}")
    return options


def collect_overrides(namespace: argparse.Namespace, rest: Sequence[str]) -> list[Override]:
    """Return the overrides that flags, ``--set`` and the remaining arguments ask for."""
    overrides = [
        Override(name, _read(name, value), Origin(f"argument --{name}"))
        for name, value in vars(namespace).items()
        if name in FIELDS
    ]
    for text in namespace.assignments:
        overrides.append(parse_override(text, Origin("argument --set")))
    return [*overrides, *_read_rest(list(rest))]


def _read(name: str, value: Any) -> Any:
    """Read the text of a flag; what is text by type stays as it was typed."""
    if isinstance(value, list):
        return [item for text in value for item in text.split(",")] if name == "tags" else value
    is_text = str in (TYPES[name], *typing.get_args(TYPES[name]))
    if is_text or typing.get_origin(TYPES[name]) is typing.Literal:
        return None if value in ("null", "None") else value
    return parse_value(value)


def _read_rest(tokens: list[str]) -> Iterator[Override]:
    while tokens:
        token = tokens.pop(0)
        if token.startswith("--"):
            yield _read_flag(token, tokens)
        elif token.startswith("{") or (token.endswith(".json") and Path(token).is_file()):
            yield from _read_json(token)
        elif "=" in token:
            yield parse_override(token, Origin(f"argument {token.partition('=')[0]}"))
        else:
            raise ConfigError(
                f"The argument {token!r} is not understood: write --flag VALUE, or key=value."
            )


def _read_flag(token: str, tokens: list[str]) -> Override:
    key, equals, value = token[2:].partition("=")
    origin = Origin(f"argument --{key}")
    if equals:
        return Override(key, parse_value(value), origin)
    if not tokens or tokens[0].startswith("--"):
        if "." not in key:
            # An unknown flag: the resolver says so, with what was probably meant.
            return Override(key, value=True, origin=origin)
        raise ConfigError(f"{token} needs a value: {token}=VALUE.")
    return Override(key, parse_value(tokens.pop(0)), origin)


def _read_json(token: str) -> Iterator[Override]:
    """Read what ``${args_json}`` and ``${args_json_file}`` of a sweep command become."""
    source = "argument {...}" if token.startswith("{") else f"argument {token}"
    text = token if token.startswith("{") else Path(token).read_text()
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{source} is not JSON: {error}.") from error
    for key, value in values.items():
        yield Override(str(key), value, Origin(source))
