"""The command line: find the command, call it, turn an error into an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from jade import __version__
from jade.commands import COMMANDS
from jade.commands.family import asks_for_help, call, list_commands
from jade.errors import ConfigError, JadeError, suggest
from jade.leaving import end_program

OVERVIEW = """\
JADE trains PyTorch models from configuration files.

  jade train --model_conf M.yml --data_conf D.yml --eval_conf E.yml --arch_impl A.py --epochs 10

Commands:
{commands}

`jade COMMAND --help` explains the arguments, `jade --version` tells the version.
"""


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


def jade_program() -> NoReturn:
    """Be the program ``jade``."""
    end_program(main)


def train_program() -> NoReturn:
    """Be the program ``train.py``."""
    end_program(train_main)


def _answer(tokens: list[str], program: str | None) -> int:
    if asks_for_help(tokens):
        print(OVERVIEW.format(commands=list_commands(COMMANDS)), end="")
        return 0
    name, *rest = tokens
    if name == "--version":
        print(f"jade {__version__}")
        return 0
    if name not in COMMANDS:
        what = "Which command?" if name.startswith("-") else f"There is no command {name!r}."
        raise ConfigError(f"{what}{suggest(name, list(COMMANDS))} See jade --help.")
    # Imported when it is called: `jade --help` answers at once.
    return call(f"jade.commands.{name.replace('-', '_')}", rest, program or f"jade {name}")


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


if __name__ == "__main__":
    jade_program()
