"""Show a configuration, and wait until somebody agrees with it."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jade.errors import ConfigError

if TYPE_CHECKING:
    from jade.resolve import Resolved

SOURCE_COLUMN = 48


def is_confirmed(question: str) -> bool:
    """Ask a question that takes a yes; without a terminal there is nobody to ask."""
    if not sys.stdin.isatty():
        raise ConfigError("--confirm needs somebody to ask: this is no terminal.")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def with_sources(text: str, resolved: "Resolved") -> Iterator[str]:
    """Write behind each line of a rendered configuration where its value comes from."""
    from jade.overrides import leaves
    from jade.yaml_file import parse

    written = parse(text, "the configuration")
    comments = {
        written.origins[path].line: resolved.origin_of(path) for path, _ in leaves(written.values)
    }
    for number, line in enumerate(text.splitlines(), start=1):
        comment = comments.get(number)
        yield f"{line:<{SOURCE_COLUMN}}  # {comment}" if comment else line


def show_configuration(resolved: "Resolved") -> None:
    """Print a configuration with the source of each value."""
    from jade.yaml_file import render

    print("\n".join(with_sources(render(resolved.frozen), resolved)))
