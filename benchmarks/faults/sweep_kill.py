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
from jade.saved_runs import read_json

MUST_HOLD = "every point is finished, once, by one run that logged each step once"
NUM_KILLS, NUM_POINTS, NUM_WORKERS = 100, 200, 8
# The last kill comes when so much of the sweep is done; each falls within a moment of its turn.
LAST_KILL, JITTER_S, LOOK_S = 0.9, 0.3, 0.05
TIMEOUT_S = 1800


def run(bench: Bench) -> Verdict:
    """Kill workers until there have been enough kills, then let one come to the end."""
    verdict = Verdict("SIGKILL of sweep workers", MUST_HOLD)
    folder = bench.folder("sweep")
    sweep = _Sweep(folder, bench.scaled(NUM_POINTS))
    num_kills = bench.scaled(NUM_KILLS)
    num_early = sweep.kill(num_kills, bench.random)
    sweep.finish()
    problems = sweep.problems()
    if sweep.num_killed < num_kills:
        problems.append(f"there were only {sweep.num_killed} kills of {num_kills}")
    verdict.add(problems, folder, num_cases=sweep.num_killed)
    bench.done(folder, problems)
    verdict.notes.append(
        f"{sweep.num_killed} kills of {NUM_WORKERS} workers, {num_early} runs were finished before "
        f"the last of them and none of these was touched again, {sweep.num_continued} runs were "
        "continued"
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
        # When the record of each run that was finished while workers were killed was written.
        self._records: dict[Path, int] = {}
        tiny.save_digits(folder / "digits.pt")
        self._path.write_text(self._describe())

    def kill(self, num_kills: int, chance: random.Random) -> int:
        """Kill workers as the sweep gets on; return how many runs were finished by then."""
        workers: list[subprocess.Popen[bytes]] = []
        each = LAST_KILL * self._num_points / num_kills
        deadline = time.monotonic() + TIMEOUT_S
        while self.num_killed < num_kills and time.monotonic() < deadline:
            workers = [worker for worker in workers if worker.poll() is None]
            workers += [self._start() for _ in range(NUM_WORKERS - len(workers))]
            self._note_finished()
            if len(self._records) < each * self.num_killed:
                time.sleep(LOOK_S)
                continue
            time.sleep(chance.uniform(0, JITTER_S))
            victim = workers.pop(chance.randrange(len(workers)))
            victim.send_signal(signal.SIGKILL)
            self.num_killed += victim.wait() == -signal.SIGKILL
        num_done = len(self._records)
        for worker in workers:
            worker.kill()
            worker.wait()
        return num_done

    def _note_finished(self) -> None:
        for path in self._runs.glob("*/status.json"):
            if path not in self._records and read_json(path).get("status") == "finished":
                self._records[path] = path.stat().st_mtime_ns

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
        again = [path for path, then in self._records.items() if path.stat().st_mtime_ns != then]
        found += [f"{path.parent.name} was trained again" for path in again]
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

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "jade", "sweep", "run", str(self._path), "--no_check"]
        with (self._folder / "output.txt").open("ab") as output:
            return subprocess.Popen(
                [*command, "--devices=cpu", "--workers=1"],
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
