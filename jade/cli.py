"""The command line: parse it, call one function, turn an error into an exit code."""

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jade import __version__
from jade.command_line import ArgumentParser, add_settings, collect_overrides
from jade.errors import ConfigError, JadeError, suggest

# Everything else is imported where it is used: `jade --help` answers at once.
if TYPE_CHECKING:
    from jade.config import Configuration
    from jade.overrides import Override
    from jade.resolve import Resolved
    from jade.run import FinishedRun
    from jade.sweep_file import SweepFile

OVERVIEW = """\
JADE trains PyTorch models from configuration files.

  jade train  --model_conf M.yml --data_conf D.yml --eval_conf E.yml --arch_impl A.py --epochs 10
  jade check  (the same arguments)   say what is wrong, without data, network or GPU
  jade config (the same arguments)   show every value and where it comes from

`jade COMMAND --help` explains the arguments, `jade --version` tells the version.
"""
TEACHING = """\
A run needs a trainer (--model_conf), datasets (--data_conf) and an amount (--epochs or
--train_for); most have evaluations (--eval_conf) and architectures (--arch_impl), too.

Any value can be set by its dotted key. `jade config` lists all keys:
  --model.params.beta=0.1    --data.train.params.split=train    --eval.X.evaluate_every='2 epochs'
A short form is enough where only one parameter fits: --model.beta=0.1
Amounts have units: 2 (epochs), '500 iterations', '10 minutes', '0.5 hours'.
Who wins: defaults < default_configs < files < DEVICE, EXPERIMENTS_ROOT < arguments < sweep.
Values may hold $NAME, ${NAME} or ${NAME:-default}; a file .env supplies names, too.

Exit codes: 0 finished, 1 failed, 2 wrong configuration (nothing was started),
            75 stopped by a signal, 130 interrupted; the last checkpoint is written.
"""
SOURCE_COLUMN = 48


class _Help(argparse.RawDescriptionHelpFormatter):
    """Show each flag once, although it can be spelled in two ways."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if len(action.option_strings) > 1 and action.option_strings[0].startswith("--"):
            metavar = self._format_args(action, action.dest.upper())
            return f"{action.option_strings[0]} {metavar}".rstrip()
        return super()._format_action_invocation(action)


def main(arguments: Sequence[str] | None = None, program: str | None = None) -> int:
    """Run the command line and return the exit code."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _answer(tokens, program)
        # Now, while somebody can still say that the reader of a pipe is gone.
        sys.stdout.flush()
        return code
    except JadeError as error:
        print(f"jade: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("jade: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if not (isinstance(error, BrokenPipeError) and _is_reader_gone()):
            _print_user_error(error)
        return 1


def train_main() -> int:
    """Run ``train.py``."""
    return main(["train", *sys.argv[1:]], program="python train.py")


def _answer(tokens: list[str], program: str | None) -> int:
    if not tokens or tokens[0] in ("-h", "--help", "help"):
        print(OVERVIEW, end="")
        return 0
    if tokens[0] == "--version":
        print(f"jade {__version__}")
        return 0
    return _run_command(tokens[0], tokens[1:], program or f"jade {tokens[0]}")


def _is_reader_gone() -> bool:
    """Tell whether nobody reads our output, as after `| head`; what is left of it is dropped."""
    import select

    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    poll = select.poll()
    poll.register(output, 0)
    is_gone = any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    if is_gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return is_gone


def _run_command(name: str, tokens: list[str], program: str) -> int:
    if name not in COMMANDS:
        what = "Which command?" if name.startswith("-") else f"There is no command {name!r}."
        raise ConfigError(f"{what}{suggest(name, COMMANDS)} See jade --help.")
    function, text = COMMANDS[name]
    parser = ArgumentParser(
        prog=program,
        usage=f"{program} --model_conf FILE --data_conf FILE --epochs N [arguments]",
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=TEACHING,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    add_settings(parser)
    if name == "config":
        _add_config_flags(parser)
    try:
        namespace, rest = parser.parse_known_args(tokens)
    except SystemExit:
        # The help was printed.
        return 0
    sweep = _find_sweep(rest) if name == "check" else None
    if sweep is not None:
        others = [token for token in tokens if token != str(sweep.path)]
        namespace, rest = parser.parse_known_args([*sweep.command, *others])
        return _check_sweep(sweep, collect_overrides(namespace, rest))
    from jade.config import Sources, load
    from jade.envvars import exported

    overrides = collect_overrides(namespace, rest)
    configuration = load(Sources(arguments=overrides, environ=dict(os.environ)))
    with exported(configuration.environ):
        return function(configuration, namespace)


def _add_config_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sources",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show where each value comes from",
    )
    parser.add_argument(
        "--expanded", action="store_true", help="show values with variables expanded"
    )


@contextlib.contextmanager
def _importing_for_good() -> Iterator[None]:
    """Keep the garbage collector from what is imported: it would look through it again and again.

    Torch alone is a quarter of a million objects, none of which is garbage before the end.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _train(configuration: "Configuration", _: argparse.Namespace) -> int:
    import logging

    with _importing_for_good():
        from jade.progress import ConsoleHandler
        from jade.run import execute

    handler = ConsoleHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("jade")
    log.addHandler(handler)
    try:
        finished = execute(configuration, command=sys.argv)
    finally:
        log.removeHandler(handler)
    _print_result(finished)
    return finished.exit_code


def _print_result(finished: "FinishedRun") -> None:
    from rich.console import Console
    from rich.table import Table

    title = "Final evaluations" if finished.exit_code == 0 else "Latest evaluations"
    table = Table("metric", "value", title=title)
    for name, value in finished.evaluations.items():
        table.add_row(name, f"{value:.6g}")
    if finished.best and finished.best["value"] is not None:
        best = finished.best
        table.add_section()
        table.add_row(f"best {best['metric']}", f"{best['value']:.6g} (it {best['iteration']})")
    # A pipe has no width: nothing in it should be cut.
    console = Console(width=None if sys.stdout.isatty() else 120)
    if finished.evaluations:
        console.print(table)
    for picture in finished.pictures() if finished.directory.exists() else ():
        print(f"picture: {picture}")
    print(f"{finished.status}: {finished.reason}")
    if finished.directory.exists():
        print(f"run directory: {finished.directory}")
    else:
        print("dry run: everything works, nothing was kept")


def _check(configuration: "Configuration", _: argparse.Namespace) -> int:
    from jade.check import find_problems
    from jade.resolve import resolve

    resolved = resolve(configuration, look_further=find_problems)
    for text in (*configuration.warnings, *configuration.notices):
        print(f"note: {text}")
    print(f"model: {resolved.model.target.__name__}")
    for title, family in (("data", resolved.data), ("eval", resolved.evaluations)):
        described = ", ".join(f"{name} ({item.target.__name__})" for name, item in family.items())
        print(f"{title}: {described or 'none'}")
    print("no problems found")
    return 0


def _find_sweep(rest: list[str]) -> "SweepFile | None":
    from pathlib import Path

    from jade.sweep_file import load_sweep

    files = [token for token in rest if token.endswith((".yml", ".yaml"))]
    return load_sweep(Path(files[0])) if len(files) == 1 else None


def _check_sweep(sweep: "SweepFile", arguments: "list[Override]") -> int:
    """Check the sweep with every value of every parameter, and say what is odd in the file."""
    from jade.check import find_problems
    from jade.config import Sources, load
    from jade.envvars import exported
    from jade.errors import raise_all
    from jade.resolve import resolve

    problems: list[str] = []
    num_points = 0
    for point in sweep.points():
        num_points += 1
        try:
            sources = Sources(arguments=[*arguments, *point], environ=dict(os.environ))
            configuration = load(sources)
            with exported(configuration.environ):
                resolved = resolve(configuration, look_further=find_problems)
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


def _config(configuration: "Configuration", namespace: argparse.Namespace) -> int:
    from jade.resolve import resolve
    from jade.yaml_file import render

    resolved = resolve(configuration)
    for text in (*configuration.warnings, *configuration.notices):
        print(f"# {text}")
    text = render(resolved.expanded if namespace.expanded else resolved.frozen)
    print("\n".join(_with_sources(text, resolved)) if namespace.sources else text.rstrip("\n"))
    return 0


def _with_sources(text: str, resolved: "Resolved") -> Iterator[str]:
    """Write behind each line where its value comes from."""
    from jade.overrides import leaves
    from jade.yaml_file import parse

    written = parse(text, "the configuration")
    comments = {
        written.origins[path].line: resolved.origin_of(path) for path, _ in leaves(written.values)
    }
    for number, line in enumerate(text.splitlines(), start=1):
        comment = comments.get(number)
        yield f"{line:<{SOURCE_COLUMN}}  # {comment}" if comment else line


def _print_user_error(error: Exception) -> None:
    """Print the user's own traceback: the frames of JADE before their last one say nothing."""
    import traceback
    from pathlib import Path

    from jade.hints import explain

    library = str(Path(__file__).parent) + os.sep
    frames = traceback.extract_tb(error.__traceback__)
    own = [index for index, frame in enumerate(frames) if not frame.filename.startswith(library)]
    last = own[-1] if own else -1
    shown = [frame for index, frame in enumerate(frames) if index in own or index > last]
    print("Traceback (most recent call last):", file=sys.stderr)
    print("".join(traceback.format_list(shown)), end="", file=sys.stderr)
    print("".join(traceback.format_exception_only(error)), end="", file=sys.stderr)
    hint = explain(error)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)


COMMANDS = {
    "train": (_train, "train a model"),
    "check": (_check, "check a configuration without running it"),
    "config": (_config, "print the resolved configuration with the source of each value"),
}


if __name__ == "__main__":
    sys.exit(main())
