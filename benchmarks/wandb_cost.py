"""What W&B costs: until the first step of a run, and at a step that logs many numbers."""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import tiny
from benchmarks.figures import Figure
from benchmarks.start import run_and_read_all, time_until_told, train_command
from benchmarks.worker import ROOT

FIRST_STEP_TARGET_S = 0.1
STEP_TARGET_US = 20.0
EPOCHS = 20

sys.path.insert(0, str(ROOT / "tests"))


def measure_start(*, quick: bool = False) -> list[Figure]:
    """Measure from the start of a process to its first step, with W&B offline and without it."""
    with tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder:
        data = Path(folder, "digits.pt")
        tiny.save_digits(data)
        commands = {
            mode: [*_train(folder, "FirstStepTrainer", mode), "--epochs=1"]
            for mode in ("disabled", "offline")
        }
        times: dict[str, list[float]] = {mode: [] for mode in commands}
        for command in commands.values():
            time_until_told(command, data, WANDB_MODE="")
        for _ in range(4 if quick else 20):
            for mode, command in commands.items():
                times[mode].append(time_until_told(command, data, WANDB_MODE=""))
    pairs = zip(times["offline"], times["disabled"], strict=True)
    return [
        Figure.from_samples(
            "wandb",
            "first step with W&B offline, beyond W&B disabled",
            [offline - disabled for offline, disabled in pairs],
            unit="s",
            at_most=FIRST_STEP_TARGET_S,
            note=f"{statistics.median(times['disabled']):.3f} s without W&B",
        )
    ]


def measure_step(*, quick: bool = False) -> list[Figure]:
    """Log 20 numbers at every step, to W&B online (a server on this machine) and without it."""
    from wandb_server import WandbServer

    times: dict[str, list[list[float]]] = {"disabled": [], "online": []}
    with (
        tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder,
        WandbServer() as server,
    ):
        data = Path(folder, "digits.pt")
        tiny.save_digits(data)
        variables = {"JADE_BENCHMARK_DATA": str(data), **server.environ(Path(folder, "home"))}
        for _ in range(3 if quick else 9):
            for mode, taken in times.items():
                command = [
                    *_train(folder, "TalkativeTrainer", mode),
                    f"--epochs={EPOCHS}",
                    "--log_loss_every=1 iteration",
                ]
                taken.append(run_and_read_all(command, **{**variables, "WANDB_MODE": mode}))
        num_rows = {len(run.history) for run in server.runs.values()}
    pairs = list(zip(times["online"], times["disabled"], strict=True))
    cpu = statistics.median(online[1] - disabled[1] for online, disabled in pairs)
    return [
        Figure.from_samples(
            "wandb",
            "step that logs 20 numbers, W&B online beyond disabled",
            [online[0] - disabled[0] for online, disabled in pairs],
            unit="us",
            at_most=STEP_TARGET_US,
            note=f"cpu of training {cpu:.1f} us; "
            f"{statistics.median(row[0] for row in times['disabled']):.0f} us without W&B; "
            f"{', '.join(map(str, sorted(num_rows)))} rows arrived",
        )
    ]


def measure(*, quick: bool = False) -> list[Figure]:
    """Measure both."""
    return [*measure_start(quick=quick), *measure_step(quick=quick)]


def _train(folder: str, trainer: str, mode: str) -> Sequence[str]:
    command = [part for part in train_command(folder, trainer) if part != "--wandb=disabled"]
    return [*command, f"--wandb={mode}"]
