"""How much more memory a run of JADE has resident at its peak than the bare loop."""

import sys
import tempfile
from pathlib import Path

from benchmarks import tiny
from benchmarks.figures import Figure
from benchmarks.start import run_and_read, train_command

TARGET_MB = 15.0
EPOCHS = 5


def measure(*, quick: bool = False) -> list[Figure]:
    """Measure whole fresh processes, in turn.

    The bare loop makes torch import its compiler, which JADE postpones. To show what JADE itself
    needs, it is also compared with a bare loop that postpones it as well.
    """
    with tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder:
        data = Path(folder, "digits.pt")
        tiny.save_digits(data)
        bare = [sys.executable, "-m", "benchmarks.tiny"]
        commands = {
            "bare": [*bare, "memory", str(data), str(EPOCHS)],
            "light": [*bare, "light_memory", str(data), str(EPOCHS)],
            "jade": [*train_command(folder, "MemoryTrainer"), f"--epochs={EPOCHS}"],
        }
        peaks: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(2 if quick else 7):
            for name, command in commands.items():
                peak = run_and_read(command, JADE_BENCHMARK_DATA=str(data))
                peaks[name].append(peak / 1e6)
    figures = [Figure.from_samples("memory", "bare loop", peaks["bare"], unit="MB")]
    for name, title, target in (
        ("bare", "JADE beyond the bare loop", TARGET_MB),
        ("light", "JADE beyond a bare loop without torch's compiler", TARGET_MB),
    ):
        more = [a - b for a, b in zip(peaks["jade"], peaks[name], strict=True)]
        figures.append(Figure.from_samples("memory", title, more, unit="MB", at_most=target))
    return figures
