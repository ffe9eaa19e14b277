"""Tell which parameters a component takes, and of what kind."""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from jade.plain import is_plain, to_plain

VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def entry_point(target: type) -> Callable[..., Any]:
    """Return the function that receives a component's parameters.

    Trainers and evaluations are set up by ``initialize``, everything else by its constructor.
    """
    if getattr(target, "is_set_up_by_initialize", False):
        return typing.cast(Callable[..., Any], target.initialize)  # type: ignore[attr-defined]
    return target


def entry_name(target: type) -> str:
    """Name the function that receives a component's parameters."""
    initialized = getattr(target, "is_set_up_by_initialize", False)
    return f"{target.__name__}.initialize" if initialized else target.__name__


def signature_of(target: type) -> inspect.Signature | None:
    """Return the parameters that a component takes; None when Python cannot tell."""
    entry = entry_point(target)
    try:
        signature = inspect.signature(entry)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())
    if entry is not target:
        parameters = parameters[1:]
    # What it returns is of no interest in a message about its parameters.
    return signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)


def lacks_self(target: type, name: str) -> bool:
    """Tell whether a parameter stands first in ``initialize``, where ``self`` belongs."""
    entry = entry_point(target)
    return entry is not target and next(iter(inspect.signature(entry).parameters), None) == name


def hints_of(target: type) -> dict[str, Any]:
    """Return the annotations of what ``signature_of`` describes, as far as they can be resolved."""
    entry = entry_point(target)
    function = target.__init__ if entry is target else entry  # type: ignore[misc]
    try:
        return typing.get_type_hints(function)
    except Exception:
        raw = getattr(function, "__annotations__", {})
        return {name: hint for name, hint in raw.items() if not isinstance(hint, str)}


def named_parameters(signature: inspect.Signature | None) -> dict[str, inspect.Parameter]:
    """Return the parameters that have a name of their own."""
    if signature is None:
        return {}
    return {name: p for name, p in signature.parameters.items() if p.kind not in VARIADIC}


def takes_anything(signature: inspect.Signature | None) -> bool:
    """Tell whether any name would be accepted."""
    if signature is None:
        return True
    return any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())


def missing_defaults(params: Mapping[str, Any], signature: inspect.Signature) -> dict[str, Any]:
    """Return the defaults that are not given, as far as YAML can express them."""
    return {
        name: to_plain(parameter.default)
        for name, parameter in named_parameters(signature).items()
        if name not in params and is_plain(parameter.default)
    }
