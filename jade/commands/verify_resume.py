"""Kill and resume a training, and see whether it ends the same bit by bit."""

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.commands import COMMANDS
from jade.commands.base import importing_for_good, make_run_parser, parse, read_configuration
from jade.errors import ConfigError
from jade.signals import SignalWatch

if TYPE_CHECKING:
    from jade.config import Configuration
    from jade.verify import Options, Verdict

TEACHING = """\
All arguments of jade train describe the training; a short one is enough: --train_for '200
iterations'. It is trained twice without interruption, then as often as it takes for N real signals
to real processes, at random moments: in start-up, training, evaluations, while a checkpoint is
written. Final weights, optimizers, stored values, random numbers and metrics are compared bit by
bit; if something differs, you learn what was not restored, and what to do about it.
W&B is off, and nothing is written but a temporary folder.

Exit codes: 0 identical, 1 something differs, 2 wrong configuration.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade verify-resume``."""
    # So a signal to this process ends those that it has started, too.
    with SignalWatch():
        parsed = parse(_make_parser(program), tokens)
        if parsed is None:
            return 0
        namespace, rest = parsed
        config = _resolve(read_configuration(namespace, rest))
        return _verify(config, _read_options(namespace), namespace)


def _make_parser(program: str) -> argparse.ArgumentParser:
    parser = make_run_parser(program, COMMANDS["verify-resume"])
    parser.epilog = TEACHING
    group = parser.add_argument_group("the verification")
    group.add_argument(
        "--kills", metavar="N", type=_positive, default=8, help="interruptions in all (default: 8)"
    )
    group.add_argument(
        "--signals",
        metavar="NAMES",
        default="KILL,TERM,USR1",
        help="what to interrupt by (default: KILL,TERM,USR1)",
    )
    group.add_argument(
        "--verify_seed",
        "--verify-seed",
        metavar="N",
        type=int,
        default=0,
        help="decides when training is interrupted, and by what (default: 0)",
    )
    group.add_argument(
        "--keep", action="store_true", help="keep the runs, also when they are identical"
    )
    group.add_argument("--json", action="store_true", help="print JSON, with all that is known")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of interruptions")
    return int(text)


def _read_options(namespace: argparse.Namespace) -> "Options":
    from jade.verify import Options, parse_signals

    return Options(namespace.kills, parse_signals(namespace.signals), namespace.verify_seed)


def _resolve(configuration: "Configuration") -> dict[str, Any]:
    """Check the configuration as a run would, and return what a run would write down."""
    with importing_for_good():
        from jade.check import find_problems
    from jade.envvars import exported
    from jade.resolve import resolve
    from jade.seeding import draw_seed

    with exported(configuration.environ):
        resolved = resolve(configuration, look_further=find_problems)
    settings = resolved.settings
    if settings.resume is not None or settings.dry_run:
        raise ConfigError("--resume and --dry_run make no sense here: a whole training is needed.")
    if settings.seed in (None, -1):
        # Drawn, but the same one for all.
        resolved.change(seed=draw_seed())
    return resolved.frozen


def _verify(config: dict[str, Any], options: "Options", namespace: argparse.Namespace) -> int:
    from jade.verify import Verification

    folder = Path(tempfile.mkdtemp(prefix="jade-verify-"))
    is_kept = namespace.keep
    try:
        with _screen(silent=namespace.json) as say:
            verdict = Verification(config, folder, options, say).run()
        is_kept = is_kept or not verdict.is_identical
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)
    kept = folder if is_kept else None
    if namespace.json:
        print(json.dumps({**verdict.to_json(), "folder": kept and str(kept)}, indent=1))
    else:
        _print_verdict(verdict, kept)
    return 0 if verdict.is_identical else 1


@contextlib.contextmanager
def _screen(*, silent: bool) -> Iterator[Callable[[str], None]]:
    """Yield what prints a line; on a terminal something moves meanwhile, below the lines."""
    if silent:
        yield lambda _: None
    elif not sys.stdout.isatty():
        yield lambda text: print(text, flush=True)
    else:
        from rich.console import Console

        console = Console(markup=False, emoji=False, highlight=False)
        with console.status("training ..."):
            yield console.print


def _print_verdict(verdict: "Verdict", kept: Path | None) -> None:
    number = len(verdict.interruptions)
    if verdict.is_identical:
        times = "1 interruption" if number == 1 else f"{number} interruptions"
        print(f"identical: {times}, and the same weights, states, random numbers and metrics")
    elif not verdict.is_reproducible:
        print("not reproducible in the first place: two trainings without interruption differ")
    else:
        print("differs: the training does not end as if it had not been interrupted")
    for text in verdict.differences:
        print(f"  {text}")
    for text in verdict.explanations:
        print(f"- {text}")
    if kept is not None:
        print(f"the runs are in {kept}")
