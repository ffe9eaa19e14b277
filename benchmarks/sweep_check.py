"""How long the check of a sweep takes: 200 points of the VAE example, no two of them alike."""

import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.start import jade_command
from benchmarks.worker import ROOT, environment

TARGET_S = 10.0
SWEEP = """\
program: train.py
method: grid
metric: {name: TestErrorComponents/regularization, goal: minimize}
command:
  - ${env}
  - ${interpreter}
  - ${program}
  - --data_conf=configurations/data/MNIST_valid.yml
  - --eval_conf=configurations/eval/VAE_simple.yml
  - --model_conf=configurations/models/VAE.yml
  - --arch_impl=modules/architectures/simple_MNIST.py
  - --epochs=10
parameters:
  model.params.beta: {values: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]}
  model.z_dim: {distribution: q_uniform, min: 4, max: 84, q: 4}
"""


def measure(*, quick: bool = False) -> list[Figure]:
    """Measure whole fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sweep.yml")
        path.write_text(SWEEP)
        taken = [_time_check(path) for _ in range(2 if quick else 5)]
    name = "jade check, 200 points of the VAE example"
    return [Figure.from_samples("check", name, taken, unit="s", at_most=TARGET_S)]


def _time_check(path: Path) -> float:
    start = time.perf_counter()
    result = subprocess.run(
        [*jade_command(), "check", str(path)],
        cwd=ROOT,
        env=environment(DATA_ROOT="nowhere"),
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    if result.returncode or "200 points checked (all)" not in result.stdout:
        raise RuntimeError(result.stdout + result.stderr)
    return seconds
