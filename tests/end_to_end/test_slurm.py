"""Jobs on a real SLURM: sweeps by several agents, interruptions of all kinds, broken machines."""

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from slurm_cluster import wait_for
from submitting import (
    FIXED,
    LRS,
    ROOT,
    TRAINER,
    Project,
    environment,
    jade,
    list_runs,
    logs,
    make_project,
    read_result,
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
    mine = {job: facts["node"] for job, facts in cluster.jobs("-j", array).items()}
    requeued = [job for job in mine if mine[job] == "n1"]
    victims = [job for job in mine if mine[job] == "n2"]
    assert len(requeued) == len(victims) == 2
    for job in requeued:
        cluster.call("scontrol", "requeue", job)
    cluster.kill_node("n2")
    # As the controller finds out by itself after a while.
    cluster.call("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=died")
    cluster.start_node("n2")
    wait_for(lambda: int(cluster.details(requeued[0])["Restarts"]) == 1, cluster.describe)
    cluster.wait_until_empty()
    said = logs(project)
    restarts = {job: int(cluster.details(job)["Restarts"]) for job in mine}
    assert min(restarts.values()) >= 1, f"{restarts}\n{said}"
    ended = {job: facts for job, facts in cluster.jobs().items() if job.startswith(f"{array}_")}
    assert [facts["state"] for facts in ended.values()] == ["COMPLETED"] * 4, said
    found = list_runs(runs)
    assert statuses(found) == ["finished"] * 16
    # With another pause, but the same numbers.
    assert results_by_point(found) == reference


# How SLURM makes room for other jobs.
PREEMPTED = ("preempted", "ousted", "unwarned")


class Interrupted:
    """Trainings of one configuration that were interrupted, each in another way, all at once."""

    def __init__(self, project, cluster):
        self.project = project
        self.cluster = cluster
        self.arrays = {}

    def submit(self, name, *arguments):
        # Long enough for all that is done to them; once there is a file `go`, nobody pauses.
        more = ["--model.pause=0.3", "--epochs=100", "--seed=3", "--wandb=disabled"]
        go = {"GO": str(self.project.root / "go")}
        self.arrays[name] = submit(
            self.project, "train", *FIXED, *more, f"--job_name={name}", *arguments, **go
        )

    def job(self, name):
        return f"{self.arrays[name]}_0"

    def details(self, name):
        return self.cluster.details(self.job(name))

    def log(self, name):
        (path,) = self.project.root.glob(f"jobs/{name}-*/logs/*")
        return path.read_text()

    def run(self, name):
        (path,) = self.project.root.glob(f"jobs/{name}-*/submission.json")
        return self.project.root / "experiments" / json.loads(path.read_text())["run"]

    def status(self, name):
        return json.loads((self.run(name) / "status.json").read_text())

    def is_training(self, name):
        return self.run(name).joinpath("metrics.csv").is_file()

    def has_stopped(self, name):
        # Its status may be that of the next attempt by now.
        return "preempted: stopped by a signal" in self.log(name)


@pytest.fixture(scope="module")
def interrupted(started_cluster, tmp_path_factory):
    cluster = started_cluster
    project = make_project(tmp_path_factory.mktemp("interrupted"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**cluster.environ, "WANDB_MODE": "disabled"}.items():
            patch.setenv(name, value)
        scene = Interrupted(project, cluster)
        describe = lambda: logs(project) + cluster.describe()  # noqa: E731
        scene.submit("limit", "--time=1:00", "--sbatch_arg=--nodelist=n1")
        scene.submit("requeued", "--sbatch_arg=--nodelist=n1")
        scene.submit("cancelled", "--sbatch_arg=--nodelist=n1")
        scene.submit("ended", "--sbatch_arg=--nodelist=n1")
        scene.submit("preempted", "--partition=low", "--sbatch_arg=--nodelist=n2")
        # The warning and the end of the job come at once.
        scene.submit("ousted", "--partition=abrupt", "--sbatch_arg=--nodelist=n2")
        # As where SLURM does not warn whom it preempts: all that comes is TERM, at the end.
        unwarned = "--sbatch_arg=--signal=B:CONT"
        scene.submit("unwarned", "--partition=low", "--sbatch_arg=--nodelist=n2", unwarned)
        scene.submit("held", "--sbatch_arg=--hold")
        project.write("modules/models/line.py", "raise RuntimeError('edited too late')\n")
        for name in ("requeued", *PREEMPTED, "cancelled", "ended", "limit"):
            wait_for(lambda name=name: scene.is_training(name), describe)
        script = project.write("high.sh", "#!/bin/bash\nsleep 1\n")
        high = ["--partition=high", "--cpus-per-task=4", "--nodelist=n2", "--output=/dev/null"]
        cluster.call("sbatch", *high, "--mem=500M", str(script))
        cluster.call("scontrol", "requeue", scene.job("requeued"))
        cluster.call("scancel", scene.job("ended"))
        scene.cancelled = jade(project, "jobs", "cancel", scene.arrays["cancelled"])
        for name in ("requeued", *PREEMPTED, "limit", "ended"):
            wait_for(lambda name=name: scene.has_stopped(name), describe)
        (project.root / "go").touch()
        cluster.call("scontrol", "release", scene.job("held"))
        cluster.wait_until_empty()
        yield scene
        cluster.clear()


@pytest.mark.parametrize("name", ["limit", "requeued", *PREEMPTED])
def test_interrupted_training_is_queued_again_and_ends_bit_identical(interrupted, name):
    said = interrupted.log(name)
    assert int(interrupted.details(name)["Restarts"]) >= 1, said
    assert "start 2" in said
    assert "preempted: stopped by a signal" in said
    assert interrupted.details(name)["JobState"] == "COMPLETED", said
    status = interrupted.status(name)
    assert status["status"] == "finished"
    assert status["attempts"] >= 2
    assert read_result(interrupted.run(name)) == read_result(interrupted.run("held"))


def test_time_limit_is_announced_and_the_job_queues_itself_again(interrupted):
    assert "is queued again: its work goes on" in interrupted.log("limit")


def test_cancelled_training_has_written_a_checkpoint_and_is_not_queued_again(interrupted):
    job = interrupted.job("cancelled")
    assert interrupted.cancelled == f"cancelled: {job}\n"
    assert interrupted.details("cancelled")["Restarts"] == "0"
    assert interrupted.details("cancelled")["ExitCode"] == "75:0"
    assert interrupted.status("cancelled")["status"] == "preempted"
    assert (interrupted.run("cancelled") / "checkpoints" / "last.pt").is_file()


@pytest.mark.parametrize(
    ("name", "number"), [("preempted", "USR1"), ("ousted", "USR1"), ("unwarned", "TERM")]
)
def test_preempted_training_is_told_by_what_the_cluster_has_to_say(interrupted, name, number):
    assert f"preempted: stopped by a signal (SIG{number})" in interrupted.log(name)


def test_training_that_scancel_has_ended_has_a_checkpoint_and_goes_on(interrupted):
    assert interrupted.details("ended")["JobState"] == "CANCELLED"
    assert interrupted.details("ended")["Restarts"] == "0"
    run, array = interrupted.run("ended"), interrupted.arrays["ended"]
    assert interrupted.status("ended")["status"] == "preempted"
    environ = interrupted.cluster.environ
    shown = json.loads(jade(interrupted.project, "jobs", array, "--json", **environ))[0]
    assert [(job["state"], job["runs"][0]["status"]) for job in shown["jobs"]] == [
        ("STOPPED", "preempted")
    ]
    # The code of the project is another one by now.
    (copy,) = interrupted.project.root.glob("jobs/ended-*/code")
    jade(Project(copy), "resume", str(run), GO=str(interrupted.project.root / "go"))
    assert read_result(run) == read_result(interrupted.run("held"))


def test_queued_job_runs_the_code_that_was_submitted(interrupted):
    assert "raise" in (interrupted.project.root / "modules/models/line.py").read_text()
    assert interrupted.status("held")["status"] == "finished"
    assert interrupted.status("held")["attempts"] == 1


def test_broken_node_is_reported_once_and_takes_no_more(cluster, tmp_path):
    project = make_project(tmp_path / "project")
    (tmp_path / "n2").mkdir()
    write_sweep(project, "sweep.yml", "--epochs=1", "--data.train.params.root=$DATA/here")
    (tmp_path / "n2" / "here").mkdir()
    array = submit(
        project,
        *("sweep", "sweep.yml", "--agents=2", "--cold", "--count=1", "--no_check"),
        f"--setup=export DATA={tmp_path}/$SLURMD_NODENAME",
    )
    cluster.wait_until_empty()
    said = logs(project)
    assert said.count("n1 cannot run this and takes no more") == 1, said
    assert f"{tmp_path}/n1/here does not exist" in said
    nodes = {job: facts["node"] for job, facts in cluster.jobs().items()}
    assert [nodes[f"{array}_{number}"] for number in range(2)] == ["n1", "n1"]
    shown = json.loads(jade(project, "jobs", array, "--json"))[0]
    assert shown["broken"] == ["n1"]
    assert [(job["state"], job["node"]) for job in shown["jobs"]] == [("DONE", "n2")] * 2
    runs = list_runs(project.root / "experiments" / "sweep" / "runs")
    assert statuses(runs) == ["finished"] * 2


def test_gpus_that_are_not_there_are_found_before_training(cluster, tmp_path):
    project = make_project(tmp_path / "project")
    submit(project, "train", *FIXED, "--epochs=1", "--wandb=disabled", "--gpus=1", "--replace=0")
    cluster.wait_until_empty()
    said = logs(project)
    assert "cuda:0 is not there (found: none). SLURM has given 1 here." in said
    assert "too many machines cannot run this" in said
    assert not list_runs(project.root / "experiments")


def test_sweep_on_nodes_without_their_gpus_is_not_taken_for_done(cluster, tmp_path):
    project = make_project(tmp_path / "project")
    write_sweep(project, "sweep.yml", "--epochs=1")
    array = submit(project, "sweep", "sweep.yml", "--gpus=1", "--replace=1", "--no_check")
    cluster.wait_until_empty()
    said = logs(project)
    shown = json.loads(jade(project, "jobs", array, "--json"))[0]
    assert shown["broken"] == ["n1", "n2"], said
    assert "cuda:0 is not there (found: none). SLURM has given 1 here." in said
    assert "goes on elsewhere" in said
    assert not list_runs(project.root / "experiments" / "sweep" / "runs")


def test_failed_element_is_replaced_within_the_budget(cluster, tmp_path):
    project = make_project(tmp_path / "project")
    start = "def train_step(self, data):\n"
    broken = TRAINER.replace(start, f"{start}            raise RuntimeError('never works')\n")
    project.write("modules/models/line.py", broken)
    array = submit(project, "train", *FIXED, "--epochs=1", "--wandb=disabled", "--replace=1")
    cluster.wait_until_empty()
    said = logs(project)
    assert said.count("RuntimeError: never works") == 2, said
    assert "failure 1 of 1 that are made good" in said
    assert "2 failures are too many" in said
    assert cluster.details(f"{array}_0")["JobState"] == "FAILED"


def test_grid_runs_as_an_array_by_numbers(cluster, tmp_path):
    project = make_project(tmp_path / "project")
    sweep = yaml.safe_load(write_sweep(project, "sweep.yml", "--epochs=1").read_text())
    for name, seeds in (("grid.yml", [5, 6]), ("large.yml", list(range(300)))):
        parameters = {"seed": {"values": seeds}}
        project.write(name, yaml.safe_dump({**sweep, "parameters": parameters}))
    array = submit(project, "grid", "large.yml", "--sbatch_arg=--hold", "--at_a_time=7")
    waiting = cluster.active()
    assert {f"{array}_{number}" for number in range(300)} == set(waiting)
    jade(project, "jobs", "cancel", array)
    submit(project, "grid", "grid.yml")
    cluster.wait_until_empty()
    runs = list_runs(project.root / "experiments")
    assert statuses(runs) == ["finished"] * 2, logs(project)
    assert [run.name[-2:] for run in runs] == ["-0", "-1"]
    tested = submit(project, "test", "experiments", "--job_name=tested")
    cluster.wait_until_empty()
    assert cluster.details(f"{tested}_0")["JobState"] == "COMPLETED", logs(project)
    assert len(list((project.root / "experiments").glob("*/test_*/summary.json"))) == 2


@pytest.fixture
def shipped(cluster, tmp_path):
    """A project with the scripts that JADE ships, and a function that submits one of them."""
    project = make_project(tmp_path / "project")
    shutil.copytree(ROOT / "slurm", project.root / "slurm")
    (tmp_path / "scratch").mkdir()
    places = {"TMPDIR": str(tmp_path / "scratch"), "GO": str(tmp_path / "go")}
    sweep = yaml.safe_load(write_sweep(project, "sweep.yml", "--epochs=1").read_text())

    def sbatch(*arguments):
        environ = {**environment(), **cluster.environ, **places}
        resources = ["--parsable", "--mem=500M", "--cpus-per-task=2", "--time=5"]
        return cluster.call("sbatch", *resources, *arguments, cwd=project.root, env=environ).strip()

    return project, sweep, sbatch


def test_shipped_scripts_run_as_they_are(shipped, cluster, wandb_online, tmp_path):
    project, sweep, sbatch = shipped
    small = {**sweep, "parameters": {"seed": {"values": [1, 2]}}}
    project.write("sweep.yml", yaml.safe_dump(small))
    slow = {"seed": {"value": 1}, "model.pause": {"value": 0.1}, "epochs": {"value": 60}}
    sweep_id = wandb_online.create_sweep(yaml.safe_dump(small))
    slow_id = wandb_online.create_sweep(yaml.safe_dump({**sweep, "parameters": slow}))
    jobs = [
        sbatch(f"--export=ALL,SWEEP_ID={slow_id}", "slurm/wandb_agent.sbatch"),
        sbatch(f"--export=ALL,SWEEP_ID={sweep_id}", "slurm/jade_agent.sbatch", "--devices=cpu"),
        sbatch("--array=0-1", "slurm/local_sweep.sbatch", "sweep.yml", "--devices=cpu"),
        sbatch("slurm/train.sbatch", *FIXED, "--epochs=1", "--wandb=disabled"),
    ]
    scratch = tmp_path / "scratch"
    own = scratch / f"jade-{jobs[0]}_0" / "experiments"
    wait_for(lambda: bool(list(own.glob("*/metrics.csv"))), cluster.describe)
    cluster.call("scancel", "--batch", "--signal=USR1", jobs[0])
    (tmp_path / "go").touch()
    cluster.wait_until_empty()
    said = "\n".join(path.read_text() for path in sorted(project.root.glob("*.log")))
    assert [cluster.details(f"{job}_0")["JobState"] for job in jobs] == ["COMPLETED"] * 4, said
    states = {
        i: [wandb_online.runs[n].state for n in s.runs] for i, s in wandb_online.sweeps.items()
    }
    assert states == {slow_id: ["finished"], sweep_id: ["finished"] * 2}, said
    # W&B's agent was told in time: its run went on when the job was queued again.
    assert cluster.details(f"{jobs[0]}_0")["Restarts"] == "1", said
    (interrupted,) = wandb_online.sweeps[slow_id].runs
    assert wandb_online.runs[interrupted].num_starts == 2
    local = list_runs(project.root / "experiments" / "sweep" / "runs")
    assert statuses(local) == ["finished"] * 2
    assert len(list_runs(project.root / "experiments")) == 1
    # Each has removed what was its own.
    assert list(scratch.iterdir()) == []


def test_shipped_script_without_a_sweep_id_ends_with_2(shipped, cluster):
    project, _, sbatch = shipped
    jobs = sbatch("slurm/jade_agent.sbatch"), sbatch("slurm/wandb_agent.sbatch")
    cluster.wait_until_empty()
    assert [cluster.details(f"{job}_0")["ExitCode"] for job in jobs] == ["2:0"] * 2
    said = "".join(path.read_text() for path in project.root.glob("*.log"))
    assert said.count("sbatch --export=ALL,SWEEP_ID=entity/project/id slurm/") == 2
