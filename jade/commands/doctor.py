"""Examine the account, the machine and configurations, and say what to do."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jade.command_line import collect_overrides
from jade.commands import COMMANDS
from jade.commands.base import load_configuration, make_run_parser, parse
from jade.envvars import exported, read_environment
from jade.errors import ConfigError, VariableError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from jade.config import Configuration
    from jade.launch.preflight import Finding
    from jade.sweep import Sweep

WIDE = 1000


def main(tokens: list[str], program: str) -> int:
    """Run ``jade doctor``."""
    parser = make_run_parser(program, COMMANDS["doctor"])
    parser.usage = f"{program} [SWEEP.yml | --model_conf FILE --data_conf FILE ...]"
    parsed = parse(parser, tokens)
    if parsed is None:
        return 0
    # As trainings and agents do: what a file .env says counts here, too.
    with exported(read_environment(os.environ, None)):
        findings = _examine(*parsed)
    _print_table(findings)
    problems = sum(finding.is_problem for finding in findings)
    print("no problems found" if not problems else f"problems: {problems}")
    return 1 if problems else 0


def _examine(namespace: "argparse.Namespace", rest: list[str]) -> "list[Finding]":
    from jade.launch.doctor import examine_all
    from jade.launch.preflight import Finding
    from jade.launch.workplace import load_configurations

    found: list[Finding] = []
    configurations: list[Configuration] = []
    sweep = _find_sweep(rest)
    if sweep is not None:
        problems: list[str] = []
        try:
            configurations = load_configurations(sweep(), dict(os.environ), problems)
        except ConfigError as error:
            problems.append(str(error))
        found += [Finding("sweep", text, "Correct it.") for text in problems]
    elif rest or any(value for name, value in vars(namespace).items() if name != "assignments"):
        try:
            configurations = [load_configuration(collect_overrides(namespace, rest))]
        except VariableError as error:
            found.append(Finding("variables", str(error), "Set it."))
    return list(dict.fromkeys([*examine_all(configurations, dict(os.environ)), *found]))


def _find_sweep(rest: list[str]) -> "Callable[[], Sweep] | None":
    """Find a sweep file among the arguments; it is to be read by whoever reports its problems."""
    from jade.sweep import is_sweep, require_sweep
    from jade.yaml_file import load_mapping

    files = [Path(token) for token in rest if token.endswith((".yml", ".yaml"))]
    if len(files) != 1 or not is_sweep(load_mapping(files[0]).values):
        return None
    return lambda: require_sweep(files[0])


def _print_table(findings: "list[Finding]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "what", "found", box=None, pad_edge=False)
    for finding in findings:
        mark = Text("problem", "bold red") if finding.is_problem else Text("ok", "green")
        text = Text(finding.text)
        if finding.advice:
            text.append(f"\n-> {finding.advice}", "bold")
        table.add_row(mark, finding.topic, text)
    # A pipe has no width: nothing in it should be broken.
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)
