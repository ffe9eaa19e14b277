"""Turn command-line arguments into overrides: flags, dotted keys, and what agents pass."""

import argparse
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jade.errors import ConfigError, closest
from jade.origin import Origin
from jade.overrides import Override, parse_override, parse_value
from jade.settings import FIELDS, TYPES

LISTS = [name for name, kind in TYPES.items() if kind == tuple[str, ...]]


class ArgumentParser(argparse.ArgumentParser):
    """A parser that raises its complaints, as everything else in JADE does."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process."""
        raise ConfigError(f"{message[:1].upper()}{message[1:]}.")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting, spelled with ``_`` or ``-``."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for name, field in FIELDS.items():
        title = field.metadata["group"]
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        spellings = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        groups[title].add_argument(*spellings, dest=name, **_options(name))
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
    shown = f" (default: {str(default).lower()})" if default not in (None, (), False) else ""
    options: dict[str, Any] = {
        "help": field.metadata["help"].replace("%", "%%") + shown,
        "default": argparse.SUPPRESS,
        "metavar": field.metadata["metavar"],
    }
    if kind is bool:
        options.update(nargs="?", const="true", metavar="true|false")
    elif name in LISTS:
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
    overrides += [parse_override(t, Origin("argument --set")) for t in namespace.assignments]
    return _join_files([*overrides, *_read_rest(list(rest))])


def _join_files(overrides: list[Override]) -> list[Override]:
    """Make one override of all configuration files: each adds to the others."""
    named = [override.value for override in overrides if override.key == "config"]
    if len(named) < 2:
        return overrides
    files = [file for value in named for file in ([value] if isinstance(value, str) else value)]
    others = [override for override in overrides if override.key != "config"]
    return [Override("config", files, Origin("argument --config")), *others]


def _read(name: str, value: Any) -> Any:
    """Read the text of a flag; what is text by type stays as it was typed."""
    if isinstance(value, list):
        return [item for text in value for item in _read_items(name, text)]
    is_text = str in (TYPES[name], *typing.get_args(TYPES[name]))
    if is_text or typing.get_origin(TYPES[name]) is typing.Literal:
        return None if value in ("null", "None") else value
    return parse_value(value)


def _read_items(name: str, text: str) -> list[Any]:
    """Read one use of a flag that takes a list; an agent passes the whole list as Python has it."""
    if text.startswith("[") and text.endswith("]"):
        items = parse_value(text)
        return items if isinstance(items, list) else [items]
    return text.split(",") if name == "tags" else [text]


def _read_rest(tokens: list[str]) -> Iterator[Override]:
    while tokens:
        token = tokens.pop(0)
        if token.startswith("--"):
            yield _read_flag(token, tokens)
        elif token.startswith("{") or (token.endswith(".json") and Path(token).is_file()):
            yield from _read_json(token)
        elif "=" in token and not token.startswith("-"):
            yield parse_override(token, Origin(f"argument {token.partition('=')[0]}"))
        elif token.endswith((".yml", ".yaml")):
            yield Override("config", [token], Origin("argument"))
        else:
            raise ConfigError(_misunderstood(token))


def _misunderstood(token: str) -> str:
    if token.startswith("-"):
        meant = closest(token.lstrip("-").partition("=")[0].replace("-", "_"), FIELDS)
        hint = f" Did you mean --{meant}?" if meant else ""
        return f"There is no flag {token}: flags begin with two dashes.{hint}"
    return (
        f"The argument {token!r} is not understood: write --flag VALUE, key=value, or a YAML file "
        "as for --config. A value with blanks needs quotes."
    )


def _read_flag(token: str, tokens: list[str]) -> Override:
    key, equals, value = token[2:].partition("=")
    if not key:
        raise ConfigError(f"{token!r} is no argument: a key must follow the dashes.")
    if equals:
        return parse_override(f"{key}={value}", Origin(f"argument --{key}"))
    if not tokens or tokens[0].startswith("--"):
        # So a sweep passes switches that are on: ${args_no_boolean_flags}.
        return Override(key, value=True, origin=Origin(f"argument --{key} without a value"))
    return parse_override(f"{key}={tokens.pop(0)}", Origin(f"argument --{key}"))


def _read_json(token: str) -> Iterator[Override]:
    """Read what ``${args_json}`` and ``${args_json_file}`` of a sweep command become."""
    import json

    source = "argument {...}" if token.startswith("{") else f"argument {token}"
    text = token if token.startswith("{") else Path(token).read_text()
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{source} is not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{source} must hold an object: {{key: value}}.")
    for key, value in values.items():
        yield Override(str(key), value, Origin(source))
