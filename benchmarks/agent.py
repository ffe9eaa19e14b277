"""How long agents take between trials, and for a whole grid: `wandb agent` against `jade agent`."""

import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from benchmarks import tiny
from benchmarks.contenders import PROJECT
from benchmarks.figures import Figure
from benchmarks.worker import ROOT, environment

if TYPE_CHECKING:
    from wandb_server import WandbServer

GAP_TARGET, GRID_TARGET = 0.1, 0.2
TIMEOUT_S = 900
NUM_SLOTS = 2
WANDB, JADE = "wandb agent", "jade agent"

sys.path.insert(0, str(ROOT / "tests"))


def measure(*, quick: bool = False) -> list[Figure]:
    """Measure gaps between trials, then whole grids; the contenders take turns."""
    from wandb_server import WandbServer

    with (
        tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder,
        WandbServer() as server,
    ):
        bench = _Bench(Path(folder), server)
        return [
            *_measure_gaps(bench, rounds=1 if quick else 3, num_trials=4 if quick else 6),
            *_measure_grids(bench, num_trials=8 if quick else 32),
        ]


def _measure_gaps(bench: "_Bench", rounds: int, num_trials: int) -> list[Figure]:
    gaps: dict[str, list[float]] = {WANDB: [], JADE: []}
    for _ in range(rounds):
        for name, taken in gaps.items():
            bench.run(name, num_trials, num_slots=1)
            taken += bench.gaps()
    return _compare("from the end of a trial to the first step of the next", gaps, GAP_TARGET)


def _measure_grids(bench: "_Bench", num_trials: int) -> list[Figure]:
    taken = {name: [bench.run(name, num_trials, NUM_SLOTS)] for name in (WANDB, JADE)}
    return _compare(f"grid of {num_trials} trials on {NUM_SLOTS} slots", taken, GRID_TARGET)


def _compare(what: str, samples: dict[str, list[float]], target: float) -> list[Figure]:
    figures = [
        Figure.from_samples("agent", f"{what}, {name}", taken, unit="s")
        for name, taken in samples.items()
    ]
    theirs, ours = (figure.value or 0.0 for figure in figures)
    share = Figure("agent", f"{what}, share", 100 * ours / theirs, "%", at_most=100 * target)
    return [*figures, share]


class _Bench:
    """A project with a tiny model, and agents that run sweeps of it."""

    def __init__(self, folder: Path, server: "WandbServer") -> None:
        self._folder = folder
        self._server = server
        self._times = folder / "times.txt"
        tiny.save_digits(folder / "digits.pt")
        self._environ = environment(
            **server.environ(folder / "home"),
            JADE_BENCHMARK_DATA=str(folder / "digits.pt"),
            JADE_BENCHMARK_TIMES=str(self._times),
            WANDB_DIR=str(folder),
            # The agent of W&B takes whatever python comes first.
            PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin",
        )

    def run(self, name: str, num_trials: int, num_slots: int) -> float:
        """Run a grid with one of the agents, and return how long that took."""
        sweep_id = self._server.create_sweep(self._sweep(num_trials))
        sweep = f"team/project/{sweep_id}"
        command = [sys.executable, "-m", "jade", "agent", sweep, f"--per_device={num_slots}"]
        commands = [command]
        if name == WANDB:
            commands = [[sys.executable, "-m", "wandb", "agent", sweep]] * num_slots
        self._times.write_text("")
        started = time.monotonic()
        processes = [self._start(command) for command in commands]
        for process in processes:
            code = process.wait(TIMEOUT_S)
            if code != 0:
                raise RuntimeError(f"{name} ended with {code}: see {self._folder / 'output.txt'}")
        taken = time.monotonic() - started
        states = [r.state for r in self._server.runs.values() if r.sweep == sweep_id]
        if states != ["finished"] * num_trials:
            raise RuntimeError(f"{name}: the trials are {states}.")
        return taken

    def gaps(self) -> list[float]:
        """Return the times between the end of each trial and the first step of the next one."""
        rows = [line.split(" ", 1) for line in self._times.read_text().splitlines()]
        stamps = [(float(stamp), what) for stamp, what in rows]
        pairs = itertools.pairwise(stamps)
        return [after - before for (before, what), (after, _) in pairs if what == "end"]

    def _start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        with (self._folder / "output.txt").open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=PROJECT,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _sweep(self, num_trials: int) -> str:
        tokens = [
            *("${env}", "${interpreter}", "${program}"),
            *("--model_conf=model.yml", "--data_conf=data.yml", "--model.class=TrialTrainer"),
            *("--epochs=1", f"--seed={tiny.SEED}", "--device=cpu"),
            *(f"--experiments_root={self._folder / 'experiments'}", "${args}"),
        ]
        return yaml.safe_dump(
            {
                "program": str(ROOT / "train.py"),
                "method": "grid",
                "command": tokens,
                "parameters": {"model.params.number": {"values": list(range(num_trials))}},
            }
        )
