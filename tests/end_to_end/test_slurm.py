"""Jobs on a real SLURM: sweeps by several agents, interruptions of all kinds, broken machines."""

import json
import os
from pathlib import Path

import pytest
from slurm_cluster import wait_for
from submitting import (
    FIXED,
    LRS,
    jade,
    list_runs,
    logs,
    make_project,
    results_by_point,
    statuses,
    submit,
    write_sweep,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """What a sweep without faults ends with: its points, one after the other, in this process."""
    from jade.cli import main

    project = make_project(tmp_path_factory.mktemp("reference"))
    before = Path.cwd()
    os.chdir(project.root)
    try:
        for lr in LRS:
            for seed in (1, 2):
                more = [f"--model.lr={lr!r}", f"--seed={seed}", "--epochs=4", "--wandb=disabled"]
                assert main(["train", *FIXED, *more]) == 0
    finally:
        os.chdir(before)
    return results_by_point(list_runs(project.root / "experiments"))


def test_agents_on_two_nodes_share_a_sweep_on_wandb(cluster, wandb_online, tmp_path, reference):
    project = make_project(tmp_path / "project")
    text = write_sweep(project, "sweep.yml", "--epochs=4").read_text()
    sweep = wandb_online.create_sweep(text)
    array = submit(project, "sweep", sweep, "--agents=4", "--cpus=2", "--time=10:00")
    waiting = cluster.active()
    cluster.wait_until_empty()
    assert waiting == [f"{array}_{number}" for number in range(4)]
    said = logs(project)
    ended = {job: facts for job, facts in cluster.jobs().items() if job.startswith(f"{array}_")}
    assert [facts["state"] for facts in ended.values()] == ["COMPLETED"] * 4, said
    assert {facts["node"] for facts in ended.values()} == {"n1", "n2"}
    (served,) = wandb_online.sweeps.values()
    assert [wandb_online.runs[name].state for name in served.runs] == ["finished"] * 16, said
    assert results_by_point(list_runs(project.root / "experiments")) == reference
    shown = json.loads(jade(project, "jobs", array, "--json"))
    assert [job["state"] for job in shown[0]["jobs"]] == ["DONE"] * 4
    assert sum(len(job["runs"]) for job in shown[0]["jobs"]) == 16
    # Scratch folders of jobs that have ended in order are gone.
    assert not list(Path(os.environ.get("TMPDIR", "/tmp")).glob(f"jade-{array}_*"))


def test_sweep_survives_requeues_and_a_dead_node(cluster, tmp_path, reference):
    project = make_project(tmp_path / "project with blanks")
    write_sweep(project, "sweep.yml", "--epochs=4", "--backup_every=1 iterations", pause=0.1)
    array = submit(project, "sweep", "sweep.yml", "--agents=4", "--cpus=2", "--time=10:00")
    runs = project.root / "experiments" / "sweep" / "runs"
    wait_for(lambda: len(list_runs(runs)) >= 4, lambda: logs(project) + cluster.describe())
    cluster.call("scontrol", "requeue", f"{array}_0")
    cluster.call("scontrol", "requeue", f"{array}_3")
    (victim, *_) = [j for j, facts in cluster.jobs().items() if facts["node"] == "n2"]
    cluster.kill_node("n2")
    cluster.start_node("n2")
    wait_for(lambda: int(cluster.details(f"{array}_0")["Restarts"]) == 1, cluster.describe)
    cluster.wait_until_empty()
    said = logs(project)
    restarts = {number: cluster.details(f"{array}_{number}")["Restarts"] for number in range(4)}
    assert restarts[0] == restarts[3] == "1", said
    assert cluster.details(victim)["Restarts"] == "1"
    ended = {job: facts for job, facts in cluster.jobs().items() if job.startswith(f"{array}_")}
    assert [facts["state"] for facts in ended.values()] == ["COMPLETED"] * 4, said
    found = list_runs(runs)
    assert statuses(found) == ["finished"] * 16
    # With another pause, but the same numbers.
    assert results_by_point(found) == reference
