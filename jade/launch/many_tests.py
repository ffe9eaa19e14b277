"""Test many runs, several at a time, each in a process of its own."""

import json
import os
import queue
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.launch.launcher import Launcher
from jade.launch.program import MODULE, Program
from jade.launch.slots import Slot
from jade.runs import RunSummary

# What a test needs, whatever it tests.
WARM_MODULES = (
    "torch",
    "jade.cli",
    "jade.commands.test",
    "jade.tester.single",
    "rich.console",
    "rich.table",
)
TAIL_BYTES, TAIL_LINES = 8192, 12
EXIT_CONFIGURATION = 2


@dataclass(frozen=True)
class TestedRun:
    """A run whose tests have ended.

    Attributes:
        run: The run.
        code: The exit code of the process that has tested it.
        tests: What each of its tests says of itself.
        tail: The last lines that were printed.
    """

    # It has the beginning of a test's name, but is none.
    __test__ = False

    run: RunSummary
    code: int
    tests: Sequence[Mapping[str, Any]] = ()
    tail: Sequence[str] = ()

    @property
    def is_refused(self) -> bool:
        """Whether what was asked for cannot be done."""
        return self.code == EXIT_CONFIGURATION


@dataclass
class _Seat:
    """A slot, and what is being tested there."""

    slot: Slot
    run: RunSummary | None = None
    output: Path = field(default_factory=Path)
    results: Path = field(default_factory=Path)


def run_tests(
    runs: Sequence[RunSummary],
    arguments: Sequence[str],
    slots: Sequence[Slot],
    on_end: Callable[[TestedRun], None],
) -> list[TestedRun]:
    """Test runs, one in each slot at a time; nothing but their results is left behind.

    Args:
        runs: What to test.
        arguments: Of ``jade test``, behind the run.
        slots: Where.
        on_end: Called after each of them.
    """
    with tempfile.TemporaryDirectory(prefix="jade-test-") as folder:
        launcher = Launcher(Path(folder) / "server.log", WARM_MODULES)
        try:
            return _Tests(launcher, arguments, slots, Path(folder)).run(runs, on_end)
        finally:
            launcher.close()


class _Tests:
    def __init__(
        self, launcher: Launcher, arguments: Sequence[str], slots: Sequence[Slot], folder: Path
    ) -> None:
        self._launcher = launcher
        self._arguments = list(arguments)
        self._folder = folder
        self._seats = [_Seat(slot) for slot in slots]
        self._ended: queue.Queue[tuple[str, int]] = queue.Queue()
        launcher.listen(lambda key, code: self._ended.put((key, code)), lambda _: None)

    def run(
        self, runs: Sequence[RunSummary], on_end: Callable[[TestedRun], None]
    ) -> list[TestedRun]:
        waiting, tested = list(runs), list[TestedRun]()
        for number, seat in enumerate(self._seats[: len(waiting)]):
            self._start(number, seat, waiting.pop(0))
        while len(tested) < len(runs):
            key, code = self._ended.get()
            seat = self._seats[int(key)]
            tested.append(_conclude(seat, code))
            on_end(tested[-1])
            if waiting:
                self._start(int(key), seat, waiting.pop(0))
        order = {run.path: place for place, run in enumerate(runs)}
        return sorted(tested, key=lambda item: order[item.run.path])

    def _start(self, number: int, seat: _Seat, run: RunSummary) -> None:
        seat.run = run
        seat.output = self._folder / f"{number}.log"
        seat.results = self._folder / f"{number}.json"
        seat.results.unlink(missing_ok=True)
        program = Program(
            kind=MODULE,
            entry="jade",
            arguments=["test", str(run.path), *self._arguments, f"--json={seat.results}"],
            environ={**os.environ, **seat.slot.environ},
            folder=str(Path.cwd()),
        )
        with seat.output.open("wb") as output:
            self._launcher.start(str(number), program, output.fileno())


def _conclude(seat: _Seat, code: int) -> TestedRun:
    if seat.run is None:
        raise AssertionError("nobody sits here")
    try:
        tests = json.loads(seat.results.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        tests = []
    return TestedRun(seat.run, code, tests, _tail(seat.output))


def _tail(path: Path) -> list[str]:
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return [line for line in lines if line.strip()][-TAIL_LINES:]
