"""Build the command of a trial from that of its sweep, as W&B's own agent does."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from jade.errors import ConfigError, suggest
from jade.sweep.command import DEFAULT_COMMAND, MACRO, VARIABLE
from jade.whole_file import write_whole

JSON_FILE = "${args_json_file}"


@dataclass(frozen=True)
class Order:
    """What W&B wants to be run: a command that it has sent."""

    run_id: str
    program: str | None
    values: Mapping[str, Any]

    @classmethod
    def read(cls, command: Mapping[str, Any]) -> "Order":
        """Read a command of the types ``run`` and ``resume``."""
        arguments = command.get("args") or {}
        values = {str(key): entry["value"] for key, entry in arguments.items()}
        return cls(str(command["run_id"]), command.get("program"), values)


@dataclass(frozen=True)
class ParameterFiles:
    """The files through which a trial learns its values without any loss."""

    yaml_path: Path
    json_path: Path

    @classmethod
    def of(cls, folder: Path, run_id: str) -> "ParameterFiles":
        return cls(folder / f"config-{run_id}.yaml", folder / f"config-{run_id}.json")

    def write(self, values: Mapping[str, Any], tokens: Sequence[str]) -> None:
        """Write the values as the package wandb reads them, and as JSON if the command asks."""
        entries = {key: {"value": value} for key, value in values.items()}
        text = yaml.safe_dump({"wandb_version": 1, **entries}, sort_keys=False, allow_unicode=True)
        write_whole(self.yaml_path, text.encode())
        if JSON_FILE in tokens:
            write_whole(self.json_path, json.dumps(values).encode())


def build(
    tokens: Sequence[str], order: Order, files: ParameterFiles, environ: Mapping[str, str]
) -> list[str]:
    """Fill in the macros of a command.

    Raises:
        ConfigError: A macro is unknown: W&B would leave it out.
    """
    known = _macros(order, files)
    command: list[str] = []
    for token in tokens or DEFAULT_COMMAND:
        text = VARIABLE.sub(lambda match: environ.get(match[1], match[1]), str(token))
        macro = MACRO.fullmatch(text)
        if macro is None:
            command.append(text)
        elif macro[1] in known:
            command += known[macro[1]]
        else:
            hint = suggest(macro[1], [*known, "envvar:NAME"])
            raise ConfigError(f"The command of the sweep: there is no {text}.{hint}")
    return command


def _macros(order: Order, files: ParameterFiles) -> dict[str, list[str]]:
    items = order.values.items()
    plain = [f"{key}={value}" for key, value in items]
    switches = [
        f"--{key}" if value is True else f"--{key}={value}"
        for key, value in items
        if value is not False
    ]
    return {
        "env": ["/usr/bin/env"],
        # Not whatever python comes first in the PATH: that may be of another environment.
        "interpreter": [sys.executable],
        "program": [order.program] if order.program else [],
        "args": [f"--{text}" for text in plain],
        "args_no_hyphens": plain,
        "args_no_equals": [part for key, value in items for part in (f"--{key}", str(value))],
        "args_no_boolean_flags": switches,
        "args_json": [json.dumps(dict(order.values))],
        "args_json_file": [str(files.json_path)],
        "args_append_hydra": [f"+{text}" for text in plain],
        "args_override_hydra": [f"++{text}" for text in plain],
    }
