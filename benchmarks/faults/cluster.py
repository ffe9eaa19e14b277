"""Queue jobs again at random and let a node die: the sweep ends as if nothing had happened."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.faults.bench import Bench
from benchmarks.faults.verdict import Verdict
from benchmarks.worker import ROOT, environment

MUST_HOLD = "16 results of 4 agents on 2 nodes, each once, the same bits as without faults"
NUM_AGENTS, NUM_REQUEUES, NUM_POINTS = 4, 2, 16
TIMEOUT_S = 900
# A trial takes long enough to be hit.
PAUSE_S = 0.3
LOOK_S = 0.2


def run(bench: Bench) -> Verdict:
    """Run the same grid through W&B and through a shared folder, and disturb both."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "end_to_end")]
    import slurm_cluster

    verdict = Verdict("requeues and a dead node of SLURM", MUST_HOLD)
    reason = slurm_cluster.missing()
    if reason is not None:
        verdict.notes.append(f"left out: {reason}")
        # Nothing was tried, and nothing has failed.
        verdict.add([], Path())
        return verdict
    folder = bench.folder("cluster")
    reference = _run_without_faults(folder / "reference")
    with slurm_cluster.SlurmCluster(folder / "slurm") as cluster:
        for kind in ("folder", "wandb"):
            scene = _Scene(folder / kind, cluster, bench.random)
            problems = scene.run(kind, reference)
            verdict.add(problems, folder / kind, num_cases=scene.num_faults)
            verdict.notes.append(f"{kind}: {scene.num_faults} faults, {scene.seconds:.0f} s")
    bench.done(folder, verdict.problems)
    return verdict


def _run_without_faults(folder: Path) -> dict[Any, Any]:
    """Train all points one after the other, without any cluster."""
    from submitting import list_runs, make_project, results_by_point, write_sweep

    project = make_project(folder)
    write_sweep(project, "sweep.yml", "--epochs=4")
    subprocess.run(
        [sys.executable, "-m", "jade", "sweep", "run", "sweep.yml", "--devices=cpu"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=TIMEOUT_S,
    )
    return results_by_point(list_runs(folder / "experiments" / "sweep" / "runs"))


class _Scene:
    """A sweep on the cluster, and what disturbs it."""

    def __init__(self, folder: Path, cluster: Any, chance: random.Random) -> None:
        from submitting import make_project

        self._project = make_project(folder)
        self._cluster = cluster
        self._chance = chance
        self.num_faults = 0
        self.seconds = 0.0

    def run(self, kind: str, reference: dict[Any, Any]) -> list[str]:
        """Run the sweep, and say what does not hold."""
        from submitting import list_runs, results_by_point, write_sweep
        from wandb_server import WandbServer

        tokens = ["--epochs=4", "--backup_every=1 iterations"]
        path = write_sweep(self._project, "sweep.yml", *tokens, pause=PAUSE_S)
        root = self._project.root
        started = time.monotonic()
        with WandbServer() as server:
            variables = server.environ(root / "account") if kind == "wandb" else {}
            target = server.create_sweep(path.read_text()) if kind == "wandb" else "sweep.yml"
            array = self._submit(target, variables)
            self._disturb(array)
        self.seconds = time.monotonic() - started
        runs = list_runs(root / "experiments" / ("" if kind == "wandb" else "sweep/runs"))
        problems = self._look_at_jobs(array)
        states = {run.name: json.loads((run / "status.json").read_text())["status"] for run in runs}
        if len(runs) != NUM_POINTS or set(states.values()) != {"finished"}:
            problems.append(f"the runs are {states}")
        else:
            found = results_by_point(runs)
            parted = [point for point in reference if found.get(point) != reference[point]]
            problems += [f"the point {point} has another result" for point in parted]
        return problems

    def _submit(self, target: str, variables: dict[str, str]) -> str:
        arguments = [f"--agents={NUM_AGENTS}", "--cpus=2", "--mem=500M", "--time=30:00"]
        done = subprocess.run(
            [sys.executable, "-m", "jade", "submit", "sweep", target, *arguments],
            cwd=self._project.root,
            env={**environment(), **self._cluster.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
            timeout=TIMEOUT_S,
        )
        return done.stdout.split(": ")[1].split()[0]

    def _disturb(self, array: str) -> None:
        """Queue each job again twice, whenever it runs, and let one node die in between."""
        left = {f"{array}_{number}": NUM_REQUEUES for number in range(NUM_AGENTS)}
        is_node_alive = True
        deadline = time.monotonic() + TIMEOUT_S
        while self._cluster.active() and time.monotonic() < deadline:
            time.sleep(self._chance.uniform(LOOK_S, 4.0))
            jobs = self._cluster.jobs("-j", array)
            running = [job for job, facts in jobs.items() if facts["state"] == "RUNNING"]
            hit = [job for job in running if left.get(job)]
            if is_node_alive and sum(left.values()) <= NUM_AGENTS:
                is_node_alive = False
                self._cluster.kill_node("n2")
                time.sleep(self._chance.uniform(0.0, 5.0))
                self._cluster.start_node("n2")
                self.num_faults += 1
            elif hit:
                job = self._chance.choice(hit)
                left[job] -= 1
                self._cluster.call("scontrol", "requeue", job)
                self.num_faults += 1

    def _look_at_jobs(self, array: str) -> list[str]:
        jobs = self._cluster.jobs("-j", array)
        states = {job: facts["state"] for job, facts in jobs.items()}
        if set(states.values()) == {"COMPLETED"}:
            return []
        return [f"the jobs are {states}"]
