"""Check a configuration, or all points of a sweep file, without running anything."""

from pathlib import Path
from typing import TYPE_CHECKING

from jade.commands import COMMANDS
from jade.commands.base import importing_for_good, make_run_parser, parse, read_configuration
from jade.commands.sweep_view import check, show_report
from jade.errors import ConfigError, raise_all, suggest

if TYPE_CHECKING:
    from jade.config import Configuration
    from jade.sweep import Sweep


def main(tokens: list[str], program: str) -> int:
    """Run ``jade check``."""
    parser = make_run_parser(program, COMMANDS["check"])
    parser.add_argument_group("a sweep: jade check SWEEP.yml").add_argument(
        "--samples",
        type=_to_count,
        metavar="N",
        help="check N random points of a search (default: 50), at most N of a grid (default: 2000)",
    )
    parsed = parse(parser, tokens)
    if parsed is None:
        return 0
    sweep = _find_sweep(parsed[1])
    if sweep is not None:
        others = _without_samples([token for token in tokens if token != str(sweep.path)])
        return _check_sweep(sweep, others, parsed[0].samples)
    if parsed[0].samples is not None:
        raise ConfigError("--samples is for sweeps: jade check SWEEP.yml --samples N.")
    with importing_for_good():
        return _check_run(read_configuration(*parsed))


def _to_count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"--samples takes a whole number above 0, not {text!r}.")
    return int(text)


def _without_samples(tokens: list[str]) -> list[str]:
    """Leave out the one flag that a run does not have."""
    kept = [token for token in tokens if not token.startswith("--samples=")]
    if "--samples" in kept:
        place = kept.index("--samples")
        del kept[place : place + 2]
    return kept


def _check_run(configuration: "Configuration") -> int:
    from jade.check import find_problems
    from jade.envvars import exported
    from jade.meta_build import MetaBuilder
    from jade.resolve import resolve
    from jade.stopping import decisive_metrics

    with exported(configuration.environ):
        resolved = resolve(configuration, look_further=find_problems)
        decisive = decisive_metrics(resolved.settings)
        built = MetaBuilder().build(resolved, with_metrics=bool(decisive))
    if built.failure is not None:
        raise ConfigError(f"This cannot be run. {built.failure.text}")
    known = sorted({*resolved.evaluations, *built.metrics})
    raise_all(
        [
            f"{resolved.configuration.where((key,))}: nothing logs {name!r}.{suggest(name, known)}"
            for key, name in decisive.items()
            if built.lacks(name)
        ]
    )
    for text in (*configuration.warnings, *configuration.notices):
        print(f"note: {text}")
    for text in built.untried:
        print(f"note: not tried: {text}")
    size = "" if built.num_parameters is None else f", {built.num_parameters:,} parameters"
    print(f"model: {resolved.model.target.__name__}{size}")
    for title, family in (("data", resolved.data), ("eval", resolved.evaluations)):
        described = ", ".join(f"{name} ({item.target.__name__})" for name, item in family.items())
        print(f"{title}: {described or 'none'}")
    print("no problems found")
    return 0


def _find_sweep(rest: list[str]) -> "Sweep | None":
    from jade.sweep import load_sweep

    files = [token for token in rest if token.endswith((".yml", ".yaml"))]
    return load_sweep(Path(files[0])) if len(files) == 1 else None


def _check_sweep(sweep: "Sweep", others: list[str], num_samples: int | None) -> int:
    report = check(sweep, others, num_samples)
    # `wandb sweep` would take these for something else.
    report.problems[:0] = sweep.misread
    show_report(sweep, report)
    return 0
