"""The directories of many runs that never ran, for whatever reads them."""

import json
import math
import random
import time
from pathlib import Path

from jade import yaml_file

METRICS = ("ValidAccuracy", "ValidLoss", "Rec Loss", "Reg Loss")
SWEEP = """\
program: train.py
method: random
metric: {name: ValidAccuracy, goal: maximize}
parameters:
  model.params.lr: {distribution: log_uniform_values, min: 0.0001, max: 0.1}
  model.params.beta: {distribution: uniform, min: 0, max: 1}
  model.params.width: {values: [32, 64, 128, 256]}
  model.params.activation: {values: [relu, gelu, tanh]}
"""


def write_many_runs(
    folder: Path, num_runs: int, *, num_rows: int = 50, num_seeds: int = 2, seed: int = 0
) -> Path:
    """Write the directory of a sweep; every configuration is repeated with some seeds."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sweep.yml").write_text(SWEEP)
    runs = folder / "runs"
    runs.mkdir()
    parameters = {}
    for number in range(num_runs):
        if number % num_seeds == 0:
            parameters = {
                "lr": 10 ** rng.uniform(-4, -1),
                "beta": rng.random(),
                "width": rng.choice([32, 64, 128, 256]),
                "activation": rng.choice(["relu", "gelu", "tanh"]),
            }
        _write_run(runs / f"run{number:05d}", parameters, number % num_seeds, num_rows, rng)
    return folder


def _write_run(folder, parameters, seed, num_rows, rng):
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.pt").write_bytes(b"")
    status = "finished" if rng.random() < 0.95 else rng.choice(["failed", "running", "stopped"])
    if status == "failed":
        num_rows //= 3
    rows = _rows(parameters, num_rows, rng)
    lines = [",".join(["iteration", "epoch", *METRICS])]
    lines += [",".join(map(repr, [100 * (n + 1), n + 1, *row])) for n, row in enumerate(rows)]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    header = [f"Run it again: jade train --config {folder}/config.yml"]
    (folder / "config.yml").write_text(yaml_file.render(_config(parameters, seed), header=header))
    now = time.time()
    record = {
        "status": status,
        "updated": now - rng.uniform(0, 600),
        "started": now - rng.uniform(900, 9000),
        "pid": 2**22 + 1,
        "host": f"node{rng.randint(1, 8):02d}",
        "reason": "RuntimeError: out of memory"
        if status == "failed"
        else f"{num_rows} epochs done",
        "iterations": 100 * num_rows,
        "epochs": num_rows,
        "latest": dict(zip(METRICS, rows[-1], strict=True)),
    }
    (folder / "status.json").write_text(json.dumps(record))
    (folder / "summary.json").write_text(json.dumps({"run/seconds": rng.uniform(60, 900)}))


def _rows(parameters, num_rows, rng):
    quality = 1 - 0.08 * (math.log10(parameters["lr"]) + 2.6) ** 2 - 0.2 * parameters["beta"]
    quality += 0.02 * math.log2(parameters["width"] / 32) - 0.1
    quality -= 0.05 * (parameters["activation"] == "tanh")
    rows = []
    for row in range(1, num_rows + 1):
        share = 1 - math.exp(-4 * row / num_rows)
        accuracy = min(0.999, max(0.05, quality * share + rng.gauss(0, 0.008)))
        loss = 2.3 * (1 - accuracy) + rng.gauss(0, 0.01)
        rows.append([accuracy, loss, 3 * (1 - accuracy), parameters["beta"] * share])
    return rows


def _config(parameters, seed):
    evaluation = {"class": "Accuracy", "params": {"evaluate_on": "valid"}, "evaluate_every": 1}
    return {
        "arch_impl": "modules/architectures/simple.py",
        "epochs": 50,
        "seed": seed,
        "device": "auto",
        "best_metric": None,
        "best_mode": "min",
        "wandb": "disabled",
        "log_loss_every": "100 iterations",
        "model": {
            "class": "ClassifierTrainer",
            "params": {**parameters, "batch_size": 64, "layers": [128, 128]},
        },
        "data": {
            "train": {"class": "Digits", "params": {"split": "train"}},
            "valid": {"class": "Digits", "params": {"split": "valid"}},
        },
        "eval": {"ValidAccuracy": evaluation, "ValidLoss": {**evaluation, "class": "Loss"}},
    }
