"""Check a configuration, or all points of a sweep file, without running anything."""

from pathlib import Path
from typing import TYPE_CHECKING

from jade.command_line import collect_overrides
from jade.commands import COMMANDS
from jade.commands.base import load_configuration, make_run_parser, parse, read_configuration
from jade.errors import ConfigError, raise_all

if TYPE_CHECKING:
    from jade.config import Configuration
    from jade.overrides import Override
    from jade.resolve import Resolved
    from jade.sweep_file import SweepFile


def main(tokens: list[str], program: str) -> int:
    """Run ``jade check``."""
    parser = make_run_parser(program, COMMANDS["check"])
    parsed = parse(parser, tokens)
    if parsed is None:
        return 0
    sweep = _find_sweep(parsed[1])
    if sweep is None:
        return _check_run(read_configuration(*parsed))
    others = [token for token in tokens if token != str(sweep.path)]
    return _check_sweep(
        sweep, collect_overrides(*parser.parse_known_args([*sweep.command, *others]))
    )


def _resolve(configuration: "Configuration") -> "Resolved":
    from jade.check import find_problems
    from jade.envvars import exported
    from jade.resolve import resolve

    with exported(configuration.environ):
        return resolve(configuration, look_further=find_problems)


def _check_run(configuration: "Configuration") -> int:
    resolved = _resolve(configuration)
    for text in (*configuration.warnings, *configuration.notices):
        print(f"note: {text}")
    print(f"model: {resolved.model.target.__name__}")
    for title, family in (("data", resolved.data), ("eval", resolved.evaluations)):
        described = ", ".join(f"{name} ({item.target.__name__})" for name, item in family.items())
        print(f"{title}: {described or 'none'}")
    print("no problems found")
    return 0


def _find_sweep(rest: list[str]) -> "SweepFile | None":
    from jade.sweep_file import load_sweep

    files = [token for token in rest if token.endswith((".yml", ".yaml"))]
    return load_sweep(Path(files[0])) if len(files) == 1 else None


def _check_sweep(sweep: "SweepFile", arguments: "list[Override]") -> int:
    """Check the sweep with every value of every parameter, and say what is odd in the file."""
    problems: list[str] = []
    num_points = 0
    for point in sweep.points():
        num_points += 1
        try:
            resolved = _resolve(load_configuration([*arguments, *point]))
            problem = sweep.metric_problem(resolved.evaluations)
            problems += [problem] if problem else []
        except ConfigError as error:
            problems.append(str(error))
    raise_all(problems)
    for text in sweep.notes:
        print(f"note: {text}")
    swept = ", ".join(parameter.key for parameter in sweep.parameters)
    print(f"{sweep.path}: {swept}; {num_points} points checked, no problems found")
    return 0
