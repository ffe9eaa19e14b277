"""Guess what was meant by a value that does not fit, and write it as YAML would have it."""

import types
import typing
from typing import Any

from jade.errors import closest
from jade.scalar import parse_scalar

SWITCHES = {
    **dict.fromkeys(["yes", "on", "y", "true"], "true"),
    **dict.fromkeys(["no", "off", "n", "false"], "false"),
}
NOT_FINITE = {"inf": ".inf", "+inf": ".inf", "-inf": "-.inf", "infinity": ".inf", "nan": ".nan"}


def correction(value: Any, expected: Any) -> str:
    """Render what should be written instead of a value, as text after a sentence."""
    kinds = _members(expected)
    if value is None:
        return " Is the value missing behind the key?"
    if any(_is_list(kind) for kind in kinds):
        return _list_correction(value)
    if not isinstance(value, str):
        return ""
    if any(typing.get_origin(kind) is typing.Literal for kind in kinds):
        return _choice_correction(value, kinds)
    written = None
    if bool in kinds:
        written = SWITCHES.get(value.lower())
    if written is None and (int in kinds or float in kinds):
        written = _number(value)
    return f" Write {written}." if written else ""


def _members(expected: Any) -> tuple[Any, ...]:
    if typing.get_origin(expected) in (typing.Union, types.UnionType):
        return typing.get_args(expected)
    return (expected,)


def _is_list(kind: Any) -> bool:
    return (typing.get_origin(kind) or kind) in (list, tuple)


def _list_correction(value: Any) -> str:
    if isinstance(value, str):
        items = [item for item in value.replace(",", " ").split() if item]
        if not items or any(isinstance(parse_scalar(item), str) for item in items):
            return " Write a list: [first, second]."
        return f" Write [{', '.join(items)}]."
    return f" Write [{value}]." if isinstance(value, (int, float)) else ""


def _choice_correction(value: str, kinds: tuple[Any, ...]) -> str:
    choices = [str(choice) for kind in kinds for choice in typing.get_args(kind)]
    meant = closest(value, choices)
    return f" Did you mean {meant!r}?" if meant else ""


def _number(text: str) -> str | None:
    if text.lower() in NOT_FINITE:
        return NOT_FINITE[text.lower()]
    before, sign, _ = text.partition("#")
    if sign and _is_number(before):
        return f"{before} # with a blank before the comment"
    bare = text.replace("_", "").replace(",", "")
    if bare == text:
        # The text of a number: it was quoted.
        return f"{text} without quotes" if _is_number(text) else None
    return bare if _is_number(bare) else None


def _is_number(text: str) -> bool:
    value = parse_scalar(text)
    return isinstance(value, (int, float)) and not isinstance(value, bool)
