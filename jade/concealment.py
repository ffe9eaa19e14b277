"""Keep what variables of a configuration stand for out of texts that leave this machine."""

from collections.abc import Iterator, Mapping
from typing import Any

from jade.errors import ConfigError
from jade.run_dir import RunDir
from jade.yaml_file import load_mapping

LEAST_CONCEALED = 6


def find_expanded(directory: RunDir) -> dict[str, str]:
    """Return what variables of the configuration stand for in this run, and how they are written.

    What is short stands in any text by chance, and is no secret.
    """
    try:
        written = load_mapping(directory.config).values
        expanded = load_mapping(directory.expanded_config).values
    except ConfigError:
        return {}
    pairs = _pairs(written, expanded)
    return {new: old for old, new in pairs if old != new and len(new) >= LEAST_CONCEALED}


def _pairs(written: Any, expanded: Any) -> Iterator[tuple[str, str]]:
    """Yield each text with what became of it."""
    if isinstance(written, dict) and isinstance(expanded, dict):
        for key in written.keys() & expanded.keys():
            yield from _pairs(written[key], expanded[key])
    elif isinstance(written, list) and isinstance(expanded, list):
        for old, new in zip(written, expanded, strict=False):
            yield from _pairs(old, new)
    elif isinstance(written, str) and "$" in written:
        yield written, str(expanded)


def conceal(text: str, variables: Mapping[str, str]) -> str:
    """Write variables again where a text has what they stand for; the longest one first."""
    for expanded in sorted(variables, key=len, reverse=True):
        text = text.replace(expanded, variables[expanded])
    return text
