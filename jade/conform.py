"""Fit configuration values to type annotations, or say why they do not fit."""

import collections.abc
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

NUMBER = int | float
SEQUENCES = (
    list,
    tuple,
    set,
    frozenset,
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.Collection,
    collections.abc.MutableSequence,
    collections.abc.Set,
)
MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class Mismatch(Exception):  # noqa: N818 - never leaves JADE; callers turn it into a message
    """A value does not fit its annotation; the text says what would."""


def expected_type(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    """Tell what a parameter takes: its annotation, else the kind of its default."""
    if parameter.name in hints:
        hint = hints[parameter.name]
        return hint | None if parameter.default is None and _can_unite(hint) else hint
    default = parameter.default
    if isinstance(default, bool):
        return bool
    if isinstance(default, (int, float)):
        # An unannotated ``sigma=1`` does not say that 0.5 is wrong.
        return NUMBER
    if isinstance(default, str):
        return str | None
    if isinstance(default, (list, tuple)):
        return list | None
    if isinstance(default, dict):
        return dict | None
    return Any


def _can_unite(hint: Any) -> bool:
    return isinstance(hint, type) or typing.get_origin(hint) is not None


def conform(value: Any, expected: Any) -> Any:
    """Return ``value`` as ``expected``, converting only where nothing can be lost.

    Raises:
        Mismatch: The value does not fit; the text describes what does.
    """
    if expected in (Any, object, inspect.Parameter.empty):
        return value
    origin = typing.get_origin(expected)
    if origin is typing.Annotated:
        return conform(value, typing.get_args(expected)[0])
    if origin in (typing.Union, types.UnionType):
        return _conform_union(value, expected)
    if origin is typing.Literal:
        return _conform_literal(value, expected)
    kind = origin or expected
    if kind in SEQUENCES:
        return _conform_sequence(value, expected, kind)
    if kind in MAPPINGS:
        return _conform_mapping(value, expected)
    return _conform_plain(value, expected)


def _conform_union(value: Any, expected: Any) -> Any:
    members = typing.get_args(expected)
    # A member of exactly the value's type goes before one that would convert it.
    exact = [member for member in members if member is type(value)]
    for member in [*exact, *members]:
        try:
            return conform(value, member)
        except Mismatch:
            continue
    raise Mismatch(describe(expected))


def _conform_literal(value: Any, expected: Any) -> Any:
    for choice in typing.get_args(expected):
        if value == choice and type(value) is type(choice):
            return value
    raise Mismatch(describe(expected))


def _conform_sequence(value: Any, expected: Any, kind: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise Mismatch(describe(expected))
    items = typing.get_args(expected) or (Any,)
    if kind is tuple and items[-1] is not Ellipsis and typing.get_args(expected):
        if len(items) != len(value):
            raise Mismatch(describe(expected))
    else:
        items = (items[0],) * len(value)
    try:
        fitted = [conform(item, each) for item, each in zip(value, items, strict=True)]
    except Mismatch:
        raise Mismatch(describe(expected)) from None
    return kind(fitted) if kind in (tuple, set, frozenset) else fitted


def _conform_mapping(value: Any, expected: Any) -> Any:
    if not isinstance(value, Mapping):
        raise Mismatch(describe(expected))
    keys, items = typing.get_args(expected) or (Any, Any)
    try:
        return {conform(key, keys): conform(item, items) for key, item in value.items()}
    except Mismatch:
        raise Mismatch(describe(expected)) from None


def _conform_plain(value: Any, expected: Any) -> Any:
    converter = _CONVERTERS.get(expected)
    if converter is not None:
        return converter(value)
    if isinstance(expected, type) and issubclass(expected, enum.Enum):
        return _conform_enum(value, expected)
    # A class of the user or of torch: only its constructor knows what it takes.
    return value


def _conform_enum(value: Any, expected: type[enum.Enum]) -> Any:
    for member in expected:
        if value in (member.name, member.value, member):
            return member
    raise Mismatch(f"one of {', '.join(member.name for member in expected)}")


def _to_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        raise Mismatch("int")
    return int(value)


def _to_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Mismatch("float")
    return float(value)


def _to_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Mismatch("true or false")
    return value


def _to_str(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, (bool, float)):
        raise Mismatch("text (quote it, if text is meant)")
    if not isinstance(value, str):
        raise Mismatch("text")
    return value


def _to_path(value: Any) -> Path:
    return Path(_to_str(value))


def _to_none(value: Any) -> None:
    if value is not None:
        raise Mismatch("null")


_CONVERTERS: dict[Any, Callable[[Any], Any]] = {
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    str: _to_str,
    Path: _to_path,
    None: _to_none,
    type(None): _to_none,
}


def describe(expected: Any) -> str:
    """Render a type as users of configuration files call it."""
    if expected in _NAMES:
        return _NAMES[expected]
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(member) for member in arguments)
    if origin is typing.Literal:
        return "one of " + ", ".join(repr(choice) for choice in arguments)
    if (origin or expected) in SEQUENCES:
        return _describe_list(expected, arguments)
    if (origin or expected) in MAPPINGS:
        inner = f" from {describe(arguments[0])} to {describe(arguments[1])}" if arguments else ""
        return f"mapping{inner}"
    return str(getattr(expected, "__name__", expected))


def _describe_list(expected: Any, arguments: tuple[Any, ...]) -> str:
    if not arguments:
        return "list"
    if typing.get_origin(expected) is tuple and arguments[-1] is not Ellipsis:
        return f"list of {len(arguments)}: {', '.join(describe(each) for each in arguments)}"
    return f"list of {describe(arguments[0])}"


_NAMES = {
    Any: "anything",
    None: "null",
    type(None): "null",
    bool: "true or false",
    str: "text",
    Path: "text",
}
