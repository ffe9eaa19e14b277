"""How many tiny trials a local sweep runs a minute, and how quickly points are claimed."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks import claims, tiny
from benchmarks.contenders import PROJECT
from benchmarks.figures import Figure
from benchmarks.worker import ROOT, environment

NUM_SLOTS, NUM_WORKERS, NUM_POINTS = 2, 8, 2000
TIMEOUT_S = 900
NUM_TRIALS = 32
RATE_TARGET, OVERHEAD_TARGET_MS, CLAIM_TARGET_S = 20.0, 65.0, 60.0
OPTUNA_TARGET = 1.0
# Their imports count, as in a sweep that is started by hand; what a server has imported does not.
OPTUNA = "Optuna's own processes, imports included"
FORKS = "a fork each, nothing else"


def measure(*, quick: bool = False) -> list[Figure]:
    """Measure trials and claims; what all trials of a sweep share is left out of their rate."""
    return [*_measure_trials(quick=quick), _measure_claims(NUM_POINTS // (10 if quick else 1))]


def _measure_trials(*, quick: bool) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder:
        bench = _Bench(Path(folder))
        warm, cold, fresh, forks, training = [], [], [], [], []
        peers: dict[str, list[float]] = {OPTUNA: []}
        for _ in range(1 if quick else 3):
            warm.append(_per_trial_s(bench, 8, 40))
            forks.append(bench.run_forks(NUM_TRIALS) / NUM_TRIALS)
            fresh.append(bench.run_bare(8) / 8)
            cold.append(_per_trial_s(bench, 2, 8, "--cold"))
            training.append(bench.training_s())
            for taken in peers.values():
                taken.append(bench.run_optuna(NUM_TRIALS) / NUM_TRIALS)
    named = {
        "jade sweep run": warm,
        "a fresh process each": fresh,
        "jade sweep run --cold": cold,
        FORKS: forks,
        **peers,
    }
    rates = {
        name: Figure.from_samples(
            "sweep",
            f"trials a minute on {NUM_SLOTS} slots, {name}",
            [60 / each for each in taken],
            unit="",
        )
        for name, taken in named.items()
    }
    targets = {
        "a fresh process each": RATE_TARGET,
        OPTUNA: OPTUNA_TARGET,
    }
    ratios = {
        name: [one / other for one, other in zip(named[name], warm, strict=True)]
        for name in targets
        if name in named
    }
    overheads, least = (
        [1000 * (each * NUM_SLOTS - trained) for each, trained in zip(taken, training, strict=True)]
        for taken in (warm, forks)
    )
    trained_ms = 1000 * statistics.median(training)
    return [
        *rates.values(),
        *(
            Figure.from_samples(
                "sweep", f"trials a minute, over {name}", taken, at_least=targets[name]
            )
            for name, taken in ratios.items()
        ),
        Figure.from_samples(
            "sweep",
            "overhead of a trial",
            overheads,
            unit="ms",
            at_most=OVERHEAD_TARGET_MS,
            note=f"its training takes {trained_ms:.1f} ms, {FORKS} {statistics.median(least):.1f}",
        ),
    ]


def _per_trial_s(bench: "_Bench", few: int, many: int, *arguments: str) -> float:
    """Return how much longer a sweep takes for each further trial."""
    return (bench.run(many, *arguments) - bench.run(few, *arguments)) / (many - few)


class _Bench:
    """Sweeps of a tiny model, each trial with a run directory, metrics and a checkpoint."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times = folder / "times.txt"
        self._number = 0
        self._data = str(folder / "digits.pt")
        tiny.save_digits(Path(self._data))

    def run(self, num_trials: int, *arguments: str) -> float:
        """Run a grid, and return how long that took."""
        self._number += 1
        path = self._folder / f"sweep{self._number}.yml"
        path.write_text(self._sweep(num_trials))
        command = [sys.executable, "-m", "jade", "sweep", "run", str(path), "--no_check"]
        started = time.monotonic()
        result = subprocess.run(
            [*command, f"--workers={NUM_SLOTS}", f"--per_device={NUM_SLOTS}", *arguments],
            cwd=PROJECT,
            env=environment(
                JADE_BENCHMARK_DATA=self._data,
                JADE_BENCHMARK_TIMES=str(self._times),
            ),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        taken = time.monotonic() - started
        if result.returncode or f"{num_trials} done" not in result.stdout:
            raise RuntimeError(result.stdout + result.stderr)
        return taken

    def run_bare(self, num_trials: int) -> float:
        """Train by hand, in a process that is started for it, as agents start trials."""
        command = [sys.executable, "-m", "benchmarks.tiny", "memory", self._data, "1"]

        def train(_: int) -> None:
            subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, check=True)

        started = time.monotonic()
        with ThreadPoolExecutor(NUM_SLOTS) as pool:
            list(pool.map(train, range(num_trials)))
        return time.monotonic() - started

    def run_forks(self, num_trials: int) -> float:
        """Return how long trials take that are forked from a process with torch, and only train."""
        counts = [str(num_trials), str(NUM_SLOTS)]
        result = subprocess.run(
            [sys.executable, "-m", "benchmarks.bare_forks", self._data, *counts],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        return float(result.stdout)

    def run_optuna(self, num_trials: int) -> float:
        """Let two processes of Optuna, which import torch first, train on a journal they share."""
        self._number += 1
        journal = str(self._folder / f"optuna{self._number}.log")
        each = str(num_trials // NUM_SLOTS)
        command = [sys.executable, "-m", "benchmarks.optuna_worker", journal, self._data, each]
        started = time.monotonic()
        processes = [
            subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL)
            for _ in range(NUM_SLOTS)
        ]
        codes = [process.wait(TIMEOUT_S) for process in processes]
        if any(codes):
            raise RuntimeError(f"Optuna's processes ended with {codes}")
        return time.monotonic() - started

    def training_s(self) -> float:
        """Return how long the training of one trial takes."""
        num_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return statistics.median(tiny.train_bare(self._data, 1)[1].wall for _ in range(9))
        finally:
            torch.set_num_threads(num_threads)

    def _sweep(self, num_trials: int) -> str:
        tokens = [
            *("${env}", "${interpreter}", "${program}"),
            *("--model_conf=model.yml", "--data_conf=data.yml", "--model.class=TrialTrainer"),
            *("--epochs=1", f"--seed={tiny.SEED}", "--device=cpu"),
            *(f"--experiments_root={self._folder / 'experiments'}", "${args}"),
        ]
        parameters: dict[str, Any] = {"model.params.number": {"values": list(range(num_trials))}}
        return yaml.safe_dump(
            {
                "program": str(ROOT / "train.py"),
                "method": "grid",
                "command": tokens,
                "parameters": parameters,
            }
        )


def _measure_claims(num_points: int) -> Figure:
    """Let several processes claim and finish points that do nothing."""
    from jade.sweep import Point

    with tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder:
        path = str(Path(folder, "journal.log"))
        started = time.monotonic()
        study = claims.open_study(path)
        study.create({})
        study.add_points([Point({"number": number}, {}) for number in range(num_points)])
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.claims", path],
                cwd=ROOT,
                env=environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(NUM_WORKERS)
        ]
        outputs = [process.communicate(timeout=TIMEOUT_S)[0] for process in processes]
        taken = time.monotonic() - started
    claimed = [number for output in outputs for number in json.loads(output)]
    if sorted(claimed) != list(range(num_points)):
        raise RuntimeError("a point was claimed twice, or not at all")
    name = f"{num_points} points claimed and finished by {NUM_WORKERS} processes"
    return Figure("sweep", name, taken, "s", at_most=CLAIM_TARGET_S)
