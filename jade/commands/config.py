"""Print the resolved configuration with the source of each value."""

import argparse

from jade.commands import COMMANDS
from jade.commands.base import make_run_parser, parse, read_configuration
from jade.commands.confirmation import with_sources


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
    print("\n".join(with_sources(text, resolved)) if namespace.sources else text.rstrip("\n"))
    return 0
