"""Explain frequent mistakes behind exceptions that user code raises."""

import builtins
import inspect
import re
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from jade.errors import suggest

UNEXPECTED = re.compile(
    r"(?:(?P<owner>[\w.]+)\.)?(?P<name>\w+)\(\) got an unexpected keyword argument '(?P<key>\w+)'"
)
NO_LENGTH = re.compile(r"object of type '(?P<name>\w+)' has no len\(\)")
NO_NAME = re.compile(r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'")
NO_MODULE = re.compile(r"No module named '(?P<module>core(\.\w+)*|jade\.\w+)'")
EMPTY = re.compile(r"num_samples should be a positive integer value, but got num_samples=0")
UNCOLLATABLE = re.compile(r"default_collate: batch must contain .* found <class '(?P<name>[^']+)'>")


def explain(error: BaseException) -> str | None:
    """Return one sentence of help for an exception, or None when nothing is known about it."""
    for pattern, explanation in _EXPLANATIONS:
        match = pattern.search(str(error))
        if match is not None:
            return explanation(match, error)
    return None


def _explain_keyword(match: re.Match[str], error: BaseException) -> str | None:
    called = (match["owner"] or "").rpartition(".")[2] or match["name"]
    target = _find_name(called, error.__traceback__)
    if target is None:
        return None
    try:
        names = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return None
    return f"{called} takes no {match['key']!r}.{suggest(match['key'], names)}"


def _find_name(name: str, trace: TracebackType | None) -> Callable[..., Any] | None:
    """Look a called name up in the frames of a traceback, the innermost first."""
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in reversed(frames):
        found = frame.f_locals.get(name, frame.f_globals.get(name))
        if callable(found):
            return found  # type: ignore[no-any-return]
    return None


def _explain_length(match: re.Match[str], _error: BaseException) -> str | None:
    if hasattr(builtins, match["name"]):
        return None
    return (
        f"{match['name']} needs a method __len__(self) that returns its number of samples: "
        "shuffling and epochs depend on it."
    )


def _explain_collate(match: re.Match[str], _error: BaseException) -> str:
    return (
        f"A batch cannot be made of {match['name']}: convert samples to tensors, for instance with "
        "a transform in the data configuration: transform: {class: ToTensor}."
    )


def _explain_empty(_match: re.Match[str], _error: BaseException) -> str:
    return "The dataset has no samples, so there is nothing to shuffle: does its path exist?"


def _explain_name(match: re.Match[str], _error: BaseException) -> str | None:
    module = sys.modules.get(match["module"])
    if module is None:
        return None
    public = [name for name in dir(module) if not name.startswith("_")]
    return suggest(match["name"], public).strip()


def _explain_module(_match: re.Match[str], _error: BaseException) -> str:
    return "Write: from jade.trainer import Trainer, or: from jade.eval import Evaluation."


_EXPLANATIONS = (
    (NO_NAME, _explain_name),
    (NO_MODULE, _explain_module),
    (UNEXPECTED, _explain_keyword),
    (NO_LENGTH, _explain_length),
    (EMPTY, _explain_empty),
    (UNCOLLATABLE, _explain_collate),
)
