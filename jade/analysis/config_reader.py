"""Read the configurations of many runs, which differ in a few lines, at the price of a few."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jade import yaml_file
from jade.errors import ConfigError
from jade.overrides import flatten, join_key
from jade.scalar import parse_scalar

# A line that says a key and a value by itself, whatever stands around it.
PLAIN_LINE = re.compile(r"( *[\w.\-]+: )([\w.+/-]+(?: [\w.+/]+)*)")
# So many different shapes of configurations are remembered.
MOST_SHAPES = 64


class ConfigReader:
    """Reads configuration files as flat mappings of dotted keys.

    A file that differs from an earlier one only in plain values of the same keys is not parsed:
    its values take the places of the others.
    """

    def __init__(self) -> None:
        self._shapes: dict[int, list[_Shape]] = defaultdict(list)

    def read(self, path: Path) -> dict[str, Any]:
        """Read a file.

        Raises:
            ConfigError: It is damaged.
            OSError: It cannot be read.
        """
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not a text file.") from error
        lines = text.split("\n")
        shapes = self._shapes[len(lines)]
        for shape in shapes:
            filled = shape.fill(lines)
            if filled is not None:
                return filled
        document = yaml_file.parse(text, str(path))
        if not isinstance(document.values, Mapping):
            raise ConfigError(f"{path} holds no mapping.")
        shape = _Shape(lines, document)
        shapes.append(shape)
        del shapes[:-MOST_SHAPES]
        return dict(shape.flat)


class _Shape:
    """A configuration that was parsed, and which of its lines may differ in others."""

    def __init__(self, lines: Sequence[str], document: yaml_file.Document) -> None:
        self._lines = lines
        self.flat = flatten(document.values)
        self._keys: dict[int, str] = {}
        for path, origin in document.origins.items():
            key = join_key(path)
            if origin.line is None or key not in self.flat:
                continue
            match = PLAIN_LINE.fullmatch(lines[origin.line - 1])
            if match and self.flat[key] == _value(match[2]):
                self._keys[origin.line - 1] = key

    def fill(self, lines: Sequence[str]) -> dict[str, Any] | None:
        """Return the values of a file of the same shape; None for one of another shape."""
        changed: dict[str, Any] = {}
        for number, (mine, other) in enumerate(zip(self._lines, lines, strict=True)):
            if mine == other or (mine.startswith("#") and other.startswith("#")):
                continue
            key, match = self._keys.get(number), PLAIN_LINE.fullmatch(other)
            if key is None or match is None or not mine.startswith(match[1]):
                return None
            changed[key] = _value(match[2])
            if changed[key] is NotImplemented:
                return None
        return {**self.flat, **changed}


def _value(text: str) -> Any:
    """Return a plain value as the parser does; NotImplemented for what needs the parser itself."""
    return NotImplemented if text in ("None", "-") else parse_scalar(text)
