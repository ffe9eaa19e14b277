"""Print the resolved configuration with the source of each value."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jade.commands import COMMANDS
from jade.commands.base import make_run_parser, parse, read_configuration

if TYPE_CHECKING:
    from jade.resolve import Resolved

SOURCE_COLUMN = 48


def main(tokens: list[str], program: str) -> int:
    """Run ``jade config``."""
    parser = make_run_parser(program, COMMANDS["config"])
    parser.add_argument(
        "--sources",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show where each value comes from",
    )
    parser.add_argument(
        "--expanded", action="store_true", help="show values with variables expanded"
    )
    parsed = parse(parser, tokens)
    if parsed is None:
        return 0
    namespace, rest = parsed
    from jade.envvars import exported
    from jade.resolve import resolve
    from jade.yaml_file import render

    configuration = read_configuration(namespace, rest)
    with exported(configuration.environ):
        resolved = resolve(configuration)
    for text in (*configuration.warnings, *configuration.notices):
        print(f"# {text}")
    text = render(resolved.expanded if namespace.expanded else resolved.frozen)
    print("\n".join(_with_sources(text, resolved)) if namespace.sources else text.rstrip("\n"))
    return 0


def _with_sources(text: str, resolved: "Resolved") -> Iterator[str]:
    """Write behind each line where its value comes from."""
    from jade.overrides import leaves
    from jade.yaml_file import parse as parse_yaml

    written = parse_yaml(text, "the configuration")
    comments = {
        written.origins[path].line: resolved.origin_of(path) for path, _ in leaves(written.values)
    }
    for number, line in enumerate(text.splitlines(), start=1):
        comment = comments.get(number)
        yield f"{line:<{SOURCE_COLUMN}}  # {comment}" if comment else line
