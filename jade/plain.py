"""Tell what a configuration file can hold, and turn similar values into it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jade.errors import raise_all
from jade.origin import KeyPath
from jade.overrides import join_key


def is_plain(value: Any) -> bool:
    """Tell whether a value is made of what YAML knows: text, numbers, lists and mappings."""
    if isinstance(value, (list, tuple)):
        return all(is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(k, (str, int)) and is_plain(v) for k, v in value.items())
    return value is None or type(value) in (bool, int, float, str)


def to_plain(value: Any) -> Any:
    """Return a value as YAML can hold it; what it does not know becomes its text."""
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item) for item in value]
    return value if is_plain(value) else str(value)


def require_plain(value: Any, path: KeyPath) -> Any:
    """Copy a value that Python code gives; what no file can hold is a ConfigError."""
    problems: list[str] = []
    copied = _copy(value, path, problems)
    raise_all(problems)
    return copied


def _copy(value: Any, path: KeyPath, problems: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item, (*path, key), problems) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(item, (*path, i), problems) for i, item in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    if is_plain(value):
        return value
    if getattr(value, "shape", None) == () and is_plain(value.item()):
        return value.item()
    problems.append(f"{join_key(path)}: {_complaint(value)}")
    return None


def _complaint(value: Any) -> str:
    if isinstance(value, type):
        return f"write the name of the class: '{value.__module__}.{value.__qualname__}'."
    kind = type(value).__name__
    return (
        f"an object of class {kind} cannot be written down with the run; "
        f"describe it: {{'class': '{kind}', 'params': {{...}}}}."
    )
