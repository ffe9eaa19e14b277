"""Prove that every value of a sweep took effect: compare it with the resolved configuration."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jade.origin import KeyPath
from jade.overrides import Override, exists, find, join_key
from jade.scalar import parse_scalar

# Each override with the place that it was applied to, in the order of application.
Applied = Sequence[tuple[KeyPath, Override]]


def find_lost(applied: Applied, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem for each swept value that is not the one in the configuration.

    Args:
        applied: All overrides, swept or not.
        values: The configuration as it was resolved.
    """
    for place, (path, override) in enumerate(applied):
        if not override.swept:
            continue
        if exists(values, path) and _is_same(override.value, find(values, path)):
            continue
        later = [other for where, other in applied[place + 1 :] if _overlap(where, path)]
        key = join_key(path)
        short = "" if key == override.key else f", which means {key},"
        start = f"The sweep's {override.key} = {override.value!r} ({override.origin}){short}"
        yield f"{start} has no effect: {_reason(path, values, later)}"


def _reason(path: KeyPath, values: Mapping[str, Any], later: Sequence[Override]) -> str:
    key = join_key(path)
    if not exists(values, path):
        return f"it was dropped, the configuration has no {key}."
    if not later:
        return f"the configuration has {key} = {find(values, path)!r}."
    other = later[-1]
    return f"{other.key} = {other.value!r} ({other.origin}) replaces it. Keep one of them."


def _overlap(one: KeyPath, other: KeyPath) -> bool:
    """Tell whether one place is the other, or within it."""
    parts = zip(one, other, strict=False)
    return all(str(mine) == str(yours) for mine, yours in parts)


def _is_same(asked: Any, found: Any) -> bool:
    """Tell whether two values mean the same, however a number in them is written."""
    asked, found = _plain(asked), _plain(found)
    if isinstance(asked, dict) and isinstance(found, dict):
        # What else a mapping holds are defaults.
        return all(key in found and _is_same(value, found[key]) for key, value in asked.items())
    if isinstance(asked, list) and isinstance(found, list):
        pairs = zip(asked, found, strict=False)
        return len(asked) == len(found) and all(_is_same(a, b) for a, b in pairs)
    is_nan = asked != asked and found != found
    return is_nan or (asked == found and isinstance(asked, bool) == isinstance(found, bool))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return parse_scalar(value)
    return list(value) if isinstance(value, tuple) else value
