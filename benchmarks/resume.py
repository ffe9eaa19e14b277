"""How long until a run that goes on does its first step, over one that starts."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import tiny
from benchmarks.contenders import PROJECT
from benchmarks.figures import Figure
from benchmarks.start import run_and_read, train_command
from benchmarks.worker import environment

TARGET = 1.5
ROUNDS, QUICK_ROUNDS = 15, 3
TRAINER = "ResumedTrainer"


def measure(*, quick: bool = False) -> list[Figure]:
    """Start processes in turn, and add to a fresh start what reading the checkpoint takes."""
    with tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder:
        data = Path(folder, "digits.pt")
        tiny.save_digits(data)
        run = _leave_run(folder, data)
        fresh = [*train_command(str(Path(folder, "fresh")), TRAINER), "--epochs=1"]
        resumed = [sys.executable, "-m", "jade", "resume", str(run), "--total=2 epochs"]
        load_s = _time_load(run / "checkpoints" / "last.pt")
        _time_first_step(fresh, data), _time_first_step(resumed, data)
        pairs = [
            (_time_first_step(resumed, data), _time_first_step(fresh, data))
            for _ in range(QUICK_ROUNDS if quick else ROUNDS)
        ]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    return [
        Figure.from_samples(
            "resume",
            "first step of a resumed run, over a fresh one and the load",
            [one / (other + load_s) for one, other in pairs],
            unit="x",
            at_most=TARGET,
            note=f"{ours:.2f} s over {theirs:.2f} s and {load_s * 1e3:.0f} ms",
        )
    ]


def _leave_run(folder: str, data: Path) -> Path:
    """Train one epoch, and return the run directory."""
    root = Path(folder, "left")
    subprocess.run(
        [*train_command(str(root), TRAINER), "--epochs=1"],
        cwd=PROJECT,
        env=environment(JADE_BENCHMARK_DATA=str(data), JADE_BENCHMARK_TRAINS="1"),
        capture_output=True,
        check=True,
    )
    return next(root.iterdir())


def _time_first_step(command: list[str], data: Path) -> float:
    started = time.time()
    return run_and_read(command, JADE_BENCHMARK_DATA=str(data)) - started


def _time_load(path: Path) -> float:
    from jade import checkpoint

    times = []
    for _ in range(5):
        started = time.perf_counter()
        checkpoint.load(path)
        times.append(time.perf_counter() - started)
    return statistics.median(times)
