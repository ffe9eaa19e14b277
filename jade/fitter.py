"""Fit values to types: expand their variables, convert them, and note what does not fit."""

from pathlib import Path
from typing import Any

from jade.config import Configuration
from jade.conform import Mismatch, conform
from jade.corrections import correction
from jade.envvars import Expanded, expand_text, has_variables
from jade.errors import ConfigError
from jade.origin import KeyPath
from jade.problems import Problems


class Fitter:
    """Fits the values of one configuration."""

    def __init__(self, configuration: Configuration, problems: Problems) -> None:
        self._configuration = configuration
        self._problems = problems

    def fit(self, value: Any, expected: Any, path: KeyPath) -> Any:
        """Return a value expanded and as ``expected``; None when there is a problem with it."""
        expanded = self._expand(value, path)
        if expanded is None and value is not None:
            return None
        try:
            if isinstance(expanded, Expanded):
                return _conform_expanded(expanded, expected)
            return conform(_unwrap(expanded), expected)
        except Mismatch as mismatch:
            given = expanded.text if isinstance(expanded, Expanded) else value
            shown = "null" if given is None else repr(given)
            self._problems.add_at(
                path, f"expected {mismatch}, not {shown}.{correction(given, expected)}"
            )
            return None

    def expand(self, value: Any, path: KeyPath, *, as_text: bool = False) -> Any:
        """Return a value with its variables expanded; None when one is missing."""
        expanded = self._expand(value, path)
        if as_text and isinstance(expanded, Expanded):
            return expanded.text
        return _unwrap(expanded)

    def _expand(self, value: Any, path: KeyPath) -> Any:
        if isinstance(value, dict):
            return {key: self._expand(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._expand(item, (*path, i)) for i, item in enumerate(value)]
        if not has_variables(value):
            return value
        try:
            expanded, missing = expand_text(value, self._configuration.environ)
        except ConfigError as error:
            self._problems.add_at(path, str(error))
            return None
        for name in missing:
            self._problems.add_missing(name, path)
        return None if missing else expanded


def _conform_expanded(expanded: Expanded, expected: Any) -> Any:
    """Fit what a variable was replaced by: as the value that it looks like, else as text."""
    try:
        fitted = conform(expanded.value, expected)
    except Mismatch:
        return conform(expanded.text, expected)
    # As a number and back it may lose something: the text 007, for instance.
    is_text_again = isinstance(fitted, (str, Path)) and not isinstance(expanded.value, str)
    return conform(expanded.text, expected) if is_text_again else fitted


def _unwrap(value: Any) -> Any:
    """Take the values out of what was expanded inside a list or mapping."""
    if isinstance(value, Expanded):
        return value.value
    if isinstance(value, dict):
        return {key: _unwrap(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unwrap(item) for item in value]
    return value
