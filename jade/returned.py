"""Tell from its source what an evaluation returns, where that is certainly no number."""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from jade.media import KINDS

NOTHING, TEXT, MEDIA = "nothing", "text", "media"
# Annotations of what is no number, by the last part of their names.
NO_NUMBERS = {"None": NOTHING, "str": TEXT, "Media": MEDIA, "Figure": "a figure"}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@functools.lru_cache(maxsize=64)
def what_is_shown(function: Callable[..., Any]) -> str | None:
    """Return what a function returns if it is never a number; None if it may well be one."""
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, SyntaxError, TypeError, ValueError):
        return None
    if not isinstance(definition, ast.FunctionDef) or definition.decorator_list:
        return None
    inner = list(_within(definition))
    if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in inner):
        return None
    if definition.returns is not None:
        annotated = ast.unparse(definition.returns).strip("'\"").rpartition(".")[2]
        return NO_NUMBERS.get(annotated)
    returned = [_kind_of(node.value) for node in inner if isinstance(node, ast.Return)]
    kinds = [kind for kind in returned if kind is not None]
    always_fails = not returned and isinstance(definition.body[-1], ast.Raise)
    if always_fails or len(kinds) < len(returned):
        return None
    return next((kind for kind in kinds if kind != NOTHING), NOTHING)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a function, but not those of functions and classes inside of it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, SCOPES):
            yield from _within(child)


def _kind_of(value: ast.expr | None) -> str | None:
    """Say what an expression is that is no number; None if it may be one."""
    if value is None or (isinstance(value, ast.Constant) and value.value is None):
        return NOTHING
    if isinstance(value, ast.JoinedStr) or (
        isinstance(value, ast.Constant) and isinstance(value.value, str)
    ):
        return TEXT
    if isinstance(value, ast.Call):
        name = getattr(value.func, "attr", getattr(value.func, "id", None))
        return MEDIA if name == "Media" else None
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        kinds = [
            item for key, item in pairs if isinstance(key, ast.Constant) and key.value == "type"
        ]
        kind = kinds[0].value if kinds and isinstance(kinds[0], ast.Constant) else None
        return str(kind) if kind in KINDS else None
    return None
