"""How long a user waits: for the help text, and from the command to the first training step."""

import contextlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import tiny
from benchmarks.contenders import PROJECT
from benchmarks.figures import Figure
from benchmarks.worker import ROOT, Terminal, environment

HELP_TARGET_S = 0.15
FIRST_STEP_TARGET_S = 0.5
TRAIN = [sys.executable, str(ROOT / "train.py")]
# As at the first step: what the end of the process takes is not counted.
IMPORT_TORCH = [
    sys.executable,
    "-c",
    "import os, time, torch; print(time.time(), flush=True); os._exit(0)",
]
HEAVY = ("torch", "wandb")


def jade_command() -> list[str]:
    """Return the installed command ``jade``, or what does the same without it."""
    beside = shutil.which("jade", path=str(Path(sys.executable).parent))
    return [beside] if beside else [sys.executable, "-m", "jade"]


class Samples:
    """What repeated runs of one command took: seconds on the wall, and of all its threads."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def add(self, run: Callable[[], float]) -> None:
        """Call ``run``, which waits for one process and returns its seconds on the wall."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.wall.append(run())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measure_help(*, quick: bool = False) -> list[Figure]:
    """Measure whole fresh processes, in turn."""
    commands = {
        "python alone": [sys.executable, "-c", "pass"],
        "jade --help": [*jade_command(), "--help"],
        "python train.py --help": [*TRAIN, "--help"],
    }
    samples = {name: Samples() for name in commands}
    for name in commands:
        _time_whole(commands[name])  # so that nothing is left to compile
    for _ in range(5 if quick else 25):
        for name, command in commands.items():
            samples[name].add(partial(_time_whole, command))
    figures = []
    for name, taken in samples.items():
        target = None if name == "python alone" else HELP_TARGET_S
        heavy = find_heavy_imports([sys.executable, "-X", "importtime", *_script(commands[name])])
        if heavy:
            raise RuntimeError(f"{name} imports {', '.join(heavy)}.")
        figures.append(
            Figure.from_samples(
                "help",
                name,
                taken.wall,
                unit="s",
                at_most=target,
                note=f"cpu {statistics.median(taken.cpu):.3f} s",
            )
        )
    return figures


def _time_whole(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment())
    return time.perf_counter() - started


def _script(command: Sequence[str]) -> list[str]:
    return list(command[1:]) if command[0] == sys.executable else list(command)


def find_heavy_imports(command: Sequence[str]) -> list[str]:
    """Return which heavy packages a process with ``-X importtime`` imports."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    if "site" not in imported:
        raise RuntimeError("-X importtime has shown nothing.")
    return [name for name in HEAVY if name in imported]


def measure_first_step(*, quick: bool = False) -> list[Figure]:
    """Measure from the start of a process to its first step, and to the end of ``import torch``."""
    with tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder:
        data = Path(folder, "digits.pt")
        tiny.save_digits(data)
        commands = {
            "import torch": IMPORT_TORCH,
            "bare loop": [sys.executable, "-m", "benchmarks.tiny", "first_step", str(data)],
            "JADE": [*train_command(folder, "FirstStepTrainer"), "--epochs=1"],
        }
        samples = {name: Samples() for name in commands}
        for name in commands:
            time_until_told(commands[name], data)
        for _ in range(3 if quick else 15):
            for name, command in commands.items():
                samples[name].add(partial(time_until_told, command, data))
    alone = samples.pop("import torch")
    figures = [Figure.from_samples("start", "import torch", alone.wall, unit="s")]
    for name, taken in samples.items():
        cpu = statistics.median(a - b for a, b in zip(taken.cpu, alone.cpu, strict=True))
        figures.append(
            Figure.from_samples(
                "start",
                f"{name}: first step, beyond import torch",
                [a - b for a, b in zip(taken.wall, alone.wall, strict=True)],
                unit="s",
                at_most=FIRST_STEP_TARGET_S if name == "JADE" else None,
                note=f"cpu {cpu:.3f} s; {statistics.median(taken.wall):.3f} s in all",
            )
        )
    return figures


def time_until_told(command: Sequence[str], data: Path, **variables: str) -> float:
    """Return the seconds from the start of a process to the time of day that it prints."""
    started = time.time()
    return run_and_read(command, JADE_BENCHMARK_DATA=str(data), **variables) - started


def train_command(folder: str, trainer: str) -> list[str]:
    """Return the command line that trains with a class of the benchmarks' project."""
    return [
        *TRAIN,
        "--model_conf=model.yml",
        "--data_conf=data.yml",
        f"--model.class={trainer}",
        f"--seed={tiny.SEED}",
        "--device=cpu",
        "--wandb=disabled",
        f"--experiments_root={folder}",
    ]


def run_and_read(command: Sequence[str], **variables: str) -> float:
    """Run a process with a terminal for its progress; return the number that it prints first."""
    return run_and_read_all(command, **variables)[0]


def run_and_read_all(command: Sequence[str], **variables: str) -> list[float]:
    """Run a process with a terminal for its progress; return the numbers that it prints."""
    terminal = Terminal()
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=terminal.descriptor,
            text=True,
            cwd=PROJECT,
            env=environment(**variables),
        )
    finally:
        terminal.close()
    numbers = []
    for line in done.stdout.splitlines():
        with contextlib.suppress(ValueError):
            numbers.append(float(line))
    if numbers:
        return numbers
    raise RuntimeError(f"{' '.join(command)} has failed:\n{terminal.tail()}")
