"""Kill the workers of a local sweep at any instant: in the end each point is done, and once."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from benchmarks import tiny
from benchmarks.contenders import PROJECT
from benchmarks.faults.bench import Bench
from benchmarks.faults.verdict import Verdict
from benchmarks.worker import ROOT, environment

MUST_HOLD = "every point is finished, by one run that logged each step once"
NUM_KILLS, NUM_POINTS, NUM_WORKERS = 100, 200, 2
# Workers are killed between their start and twice the time that one takes for its first point.
LONGEST_LIFE = 3.0
TIMEOUT_S = 1800


def run(bench: Bench) -> Verdict:
    """Kill workers until there have been enough kills, then let one come to the end."""
    verdict = Verdict("SIGKILL of sweep workers", MUST_HOLD)
    folder = bench.folder("sweep")
    sweep = _Sweep(folder, bench.scaled(NUM_POINTS))
    num_early = sweep.kill(bench.scaled(NUM_KILLS), bench.random)
    sweep.finish()
    problems = sweep.problems()
    verdict.add(problems, folder, num_cases=sweep.num_killed)
    bench.done(folder, problems)
    verdict.notes.append(
        f"{sweep.num_killed} kills, {num_early} runs were finished before the last of them, "
        f"{sweep.num_continued} runs were continued"
    )
    return verdict


class _Sweep:
    """A grid of tiny trainings, and workers of it."""

    def __init__(self, folder: Path, num_points: int) -> None:
        self._folder = folder
        self._num_points = num_points
        self._path = folder / "sweep.yml"
        self._runs = folder / "experiments" / "sweep" / "runs"
        self.num_continued = self.num_killed = 0
        tiny.save_digits(folder / "digits.pt")
        self._path.write_text(self._describe())

    def kill(self, num_kills: int, chance: random.Random) -> int:
        """Kill workers one after another; return how many runs were finished by then."""
        started = time.monotonic()
        self._start("--count=1").wait(TIMEOUT_S)
        longest_s = LONGEST_LIFE * (time.monotonic() - started) / NUM_WORKERS
        workers: list[subprocess.Popen[bytes]] = []
        while self.num_killed < num_kills:
            while len(workers) < NUM_WORKERS:
                workers.append(self._start())
            time.sleep(chance.uniform(0, longest_s))
            victim = workers.pop(0)
            if victim.poll() == 0:
                # Everything is done.
                break
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            self.num_killed += 1
        num_done = len(self._finished())
        for worker in workers:
            worker.kill()
            worker.wait()
        return num_done

    def finish(self) -> None:
        """Let a worker do what is left."""
        code = self._start().wait(TIMEOUT_S)
        if code != 0:
            raise RuntimeError(f"the last worker ended with {code}: {self._folder / 'output.txt'}")

    def problems(self) -> list[str]:
        """Say what does not hold."""
        from jade.launch.kept_sweep import open_kept
        from jade.metrics_table import MetricsTable

        views = open_kept(str(self._runs.parent)).study.views()
        states = [view.state for view in views]
        found = []
        if states != ["complete"] * self._num_points:
            found.append(f"the points are {states}")
        finished = self._finished()
        if len(finished) != self._num_points:
            found.append(f"{len(finished)} of {self._num_points} runs are finished")
        for run in finished:
            steps = [row["iteration"] for row in MetricsTable.load(run / "metrics.csv")]
            if steps != sorted(set(steps)):
                found.append(f"{run.name} has logged a step twice")
        return found

    def _finished(self) -> list[Path]:
        from jade.runs import find_runs

        runs = find_runs(self._runs) if self._runs.is_dir() else []
        self.num_continued = sum((run.attempts or 1) > 1 for run in runs)
        return [run.path for run in runs if run.status == "finished"]

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "jade", "sweep", "run", str(self._path), "--no_check"]
        with (self._folder / "output.txt").open("ab") as output:
            return subprocess.Popen(
                [*command, "--per_device=2", "--workers=2", *arguments],
                cwd=PROJECT,
                env=environment(JADE_BENCHMARK_DATA=str(self._folder / "digits.pt")),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _describe(self) -> str:
        tokens = [
            *("${env}", "${interpreter}", "${program}", "--model_conf=model.yml"),
            *(
                "--data_conf=data.yml",
                "--epochs=30",
                "--device=cpu",
                "--log_loss_every=5 iterations",
            ),
            *("--backup_every=20 iterations", f"--experiments_root={self._folder / 'experiments'}"),
        ]
        return yaml.safe_dump(
            {
                "program": str(ROOT / "train.py"),
                "method": "grid",
                "command": [*tokens, "${args}"],
                "parameters": {"seed": {"values": list(range(self._num_points))}},
            }
        )
