"""Parse dotted overrides, apply them to nested values, flatten and inflate."""

import ast
import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jade.errors import ConfigError
from jade.origin import KeyPath, Origin
from jade.scalar import parse_scalar

# One part of a dotted key: a bracketed Python literal (a key that is no text), or escaped text.
PART = re.compile(r"\[(?P<literal>[^\]]*)\](?=\.|\Z)|(?P<text>(?:\\.|[^\\.])*)", re.DOTALL)


@dataclass(frozen=True)
class Override:
    """One dotted key with its new value, and who asked for it; ``swept`` if a sweep did."""

    key: str
    value: Any
    origin: Origin
    swept: bool = False

    @property
    def path(self) -> KeyPath:
        return split_key(self.key)


def parse_value(text: str) -> Any:
    """Parse what stands behind ``key=``: a Python literal or YAML, on one line.

    ``wandb agent`` prints Python values (``None``, ``1e-05``, ``{'a': None}``), people write YAML.
    """
    stripped = text.strip()
    if stripped == "None":
        return None
    if stripped[:1] not in ("{", "[", "(", "'", '"'):
        return parse_scalar(stripped) if stripped else ""
    try:
        value = ast.literal_eval(stripped)
    except (ValueError, SyntaxError, MemoryError):
        return _parse_flow(stripped)
    # Python reads {1, 2} as a set, which YAML does not have.
    return _parse_flow(stripped) if isinstance(value, set) else value


def _parse_flow(text: str) -> Any:
    # Imported here, because `jade --help` needs no YAML.
    from jade.yaml_file import parse

    try:
        return parse(text, "value").values
    except ConfigError as error:
        raise ConfigError(f"neither as a Python literal nor as YAML: {error}") from error


def parse_override(text: str, origin: Origin) -> Override:
    """Parse ``key=value``."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{origin}: {text!r} is not of the form key=value.")
    try:
        return Override(key.strip(), parse_value(value), origin)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {key.strip()} is not understood, {error}") from error


def join_key(path: Iterable[Any]) -> str:
    """Render a key path as dotted text, from which ``split_key`` gets the same path."""
    return ".".join(_escape(part) for part in path)


def _escape(part: Any) -> str:
    if not isinstance(part, str):
        return f"[{part!r}]"
    escaped = part.replace("\\", "\\\\").replace(".", "\\.")
    return "\\" + escaped if escaped.startswith("[") else escaped


def split_key(key: str) -> KeyPath:
    """Parse dotted text into a key path."""
    parts: list[Any] = []
    position = 0
    while True:
        match = PART.match(key, position)
        if match is None or (match.end() < len(key) and key[match.end()] != "."):
            raise ConfigError(f"{key!r} is not a dotted key (a backslash escapes one character).")
        parts.append(_read_part(key, match))
        if match.end() == len(key):
            return tuple(parts)
        position = match.end() + 1


def _read_part(key: str, match: re.Match[str]) -> Any:
    if match["literal"] is None:
        return re.sub(r"\\(.)", r"\1", match["text"], flags=re.DOTALL)
    try:
        return ast.literal_eval(match["literal"])
    except (ValueError, SyntaxError) as error:
        raise ConfigError(
            f"{key!r} is not a dotted key: in brackets stands a number, such as [0]."
        ) from error


def flatten(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Flatten nested mappings to dotted keys; lists and empty mappings stay values."""
    flat: dict[str, Any] = {}
    for path, value in leaves(values):
        flat[join_key(path)] = value
    return flat


def leaves(values: Mapping[Any, Any], path: KeyPath = ()) -> Iterable[tuple[KeyPath, Any]]:
    """Yield the path and value of everything that is not a filled mapping."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def inflate(flat: Mapping[str, Any]) -> dict[Any, Any]:
    """Nest dotted keys again: the inverse of ``flatten``."""
    values: dict[Any, Any] = {}
    for key, value in flat.items():
        path = split_key(key)
        target = values
        for part in path[:-1]:
            target = target.setdefault(part, {})
            if not isinstance(target, dict):
                raise ConfigError(f"{key!r} goes through {part!r}, which has a value of its own.")
        if path[-1] in target:
            raise ConfigError(f"{key!r} is given twice.")
        target[path[-1]] = copy.deepcopy(value)
    return values


def find(values: Any, path: KeyPath) -> Any:
    """Find the value at a path; KeyError when there is none. Lists take their index."""
    for part in path:
        if _is_place(values, part):
            values = values[int(part)]
        elif isinstance(values, Mapping) and part in values:
            values = values[part]
        else:
            raise KeyError(part)
    return values


def exists(values: Any, path: KeyPath) -> bool:
    """Tell whether there is a value at a path."""
    try:
        find(values, path)
    except KeyError:
        return False
    return True


def assign(values: dict[Any, Any], path: KeyPath, value: Any) -> None:
    """Set the value at a path, making mappings on the way."""
    target: Any = values
    for depth, part in enumerate(path):
        is_last = depth == len(path) - 1
        if _is_place(target, part):
            part = int(part)
        elif not isinstance(target, dict):
            where = join_key(path[:depth])
            raise ConfigError(f"{join_key(path)!r}: {where} is {target!r}, which has no {part!r}.")
        elif not is_last:
            target.setdefault(part, {})
        if is_last:
            target[part] = copy.deepcopy(value)
        target = target[part]


def _is_place(values: Any, part: Any) -> bool:
    """Tell whether a part of a key names an existing place in a list."""
    return isinstance(values, list) and str(part).isdigit() and int(part) < len(values)


def merge(base: dict[Any, Any], update: Mapping[Any, Any]) -> None:
    """Merge ``update`` into ``base``, key by key; the update wins.

    A description that names another class brings its own parameters: the old ones do not fit it.
    """
    other_class = "class" in base and base["class"] != update.get("class", base["class"])
    if other_class and isinstance(update.get("params"), Mapping):
        base.pop("params", None)
    for key, value in update.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = copy.deepcopy(value)
