"""Whole runs with W&B online: what it shows is the truth, and a bad network changes no result."""

import json
import shutil
import signal
import subprocess
import sys
import zipfile
from io import BytesIO

import pytest
import torch
from sweeping import FIXED, environment

from jade.cli import main
from jade.run_dir import RunDir
from jade.saved_runs import load_config

SLOW_TRAINER = """
    import time

    from modules.models.line import LineTrainer


    class SlowTrainer(LineTrainer):
        def train_step(self, data):
            super().train_step(data)
            time.sleep(0.02)
"""


@pytest.fixture
def start(project, wandb_online):
    """Start a training as a process of its own."""
    project.write("modules/models/slow.py", SLOW_TRAINER)
    processes = []

    def start(*arguments, **variables):
        process = subprocess.Popen(
            [sys.executable, "-m", "jade", "train", *FIXED, *arguments],
            cwd=project.root,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def finish(process):
    output, _ = process.communicate(timeout=120)
    return output


def only_run(server):
    (run,) = server.runs.values()
    return run


def directory_of(project, run):
    return RunDir(project.root / "experiments" / run.id)


def test_wandb_shows_what_the_run_directory_holds(project, wandb_online, start):
    process = start(
        "--run_name=first",
        "--group=g",
        "--tags=a,b",
        "--notes=why",
        "--job_type=train",
        "--best_metric=Error",
        "--log_loss_every=1 iteration",
        "--artifact",
        DATA="secret",
    )
    output = finish(process)
    assert process.returncode == 0, output
    run = only_run(wandb_online)
    directory = directory_of(project, run)
    assert (run.state, run.exit_code) == ("finished", 0)
    details = (run.display_name, run.group, run.tags, run.notes, run.job_type)
    assert details == ("first", "g", ["a", "b"], "why", "train")
    stored = load_config(directory)
    assert {key: run.config[key] for key in ("model", "data", "eval")} == {
        key: stored[key] for key in ("model", "data", "eval")
    }
    rows = directory.metrics.read_text().splitlines()
    assert [row["iteration"] for row in run.history] == [int(r.split(",")[0]) for r in rows[1:]]
    summary = json.loads(directory.summary.read_text())
    assert {key: run.summary[key] for key in summary} == summary
    assert run.summary["best/Error"] == run.summary["min/Error"]
    assert run.summary["max/Error"] >= run.summary["Error"] >= run.summary["min/Error"]
    for name in ("config.yml", "provenance.json", "metrics.csv", "checkpoints/best.pt"):
        assert run.files[f"jade/{name}"] == (directory.root / name).read_bytes()
    code = zipfile.ZipFile(BytesIO(run.files["jade/code.zip"]))
    assert "modules/models/line.py" in code.namelist()
    status = json.loads(run.files["jade/status.json"])
    assert (status["exit_code"], status["iterations"]) == (0, 6)
    (artifact,) = wandb_online.artifacts.values()
    assert artifact.type == "model"
    # What was only made to be uploaded is gone.
    assert not list(directory.staging.glob("*.zip")) + list(directory.staging.glob("*.jade"))


PRINTING_TRAINER = """
    from modules.models.line import LineTrainer


    class PrintingTrainer(LineTrainer):
        def initialize(self, token: str):
            super().initialize()
            self.token = token

        def train_step(self, data):
            super().train_step(data)
            print("this is no secret:", self.token)
"""


def run_git(project, *arguments):
    command = ["git", "-c", "user.name=u", "-c", "user.email=u@example.org", *arguments]
    done = subprocess.run(command, cwd=project.root, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def test_variables_reach_wandb_as_they_were_written(project, wandb_online, start):
    project.write(
        "data.yml", "train:\n  class: Points\n  params:\n    n: $NUM\ntest: {class: Points}\n"
    )
    project.write("modules/models/printing.py", PRINTING_TRAINER)
    project.write("model.yml", "class: PrintingTrainer\nparams: {token: $TOKEN}\n")
    project.write(".env", "TOKEN=of-former-days\n")
    run_git(project, "init", "--quiet")
    run_git(project, "add", ".")
    run_git(project, "commit", "--quiet", "--message=all, and what should not be here")
    project.write(".env", "TOKEN=hunter22222\n")
    process = start(NUM="8")
    output = finish(process)
    assert process.returncode == 0, output
    assert "this is no secret: hunter22222" in output
    run = only_run(wandb_online)
    assert "this is no secret: $TOKEN" in "\n".join(run.output)
    assert "hunter22222" not in "\n".join(run.output)
    assert not [name for name, data in run.files.items() if b"hunter22222" in data]
    assert run.commit == run_git(project, "rev-parse", "HEAD")
    assert run.config["data"]["train"]["params"]["n"] == "$NUM"
    directory = directory_of(project, run)
    assert load_config(directory)["data"]["train"]["params"]["n"] == "$NUM"
    assert "n: 8" in directory.expanded_config.read_text()
    assert "jade/config_expanded.yml" not in run.files


def test_error_that_quotes_a_variable_does_not_carry_it_to_wandb(project, wandb_online, start):
    project.write(
        "modules/data/points.py",
        """
        from torch.utils.data import Dataset


        class Points(Dataset):
            def __init__(self, password: str = "x", n: int = 10, seed: int = 0):
                raise ValueError(f"the database refuses {password}")
        """,
    )
    project.write(
        "data.yml",
        "train: {class: Points, params: {password: $DB_PASSWORD}}\ntest: {class: Points}\n",
    )
    process = start(DB_PASSWORD="hunter22222")
    output = finish(process)
    assert process.returncode == 1
    assert "the database refuses hunter22222" in output
    run = only_run(wandb_online)
    directory = directory_of(project, run)
    assert "hunter22222" in directory.log.read_text()
    assert b"the database refuses $DB_PASSWORD" in run.files["jade/run.log"]
    assert (
        "the database refuses $DB_PASSWORD" in json.loads(run.files["jade/status.json"])["reason"]
    )
    assert not [name for name, data in run.files.items() if b"hunter22222" in data]
    # Whoever looks at the run there sees what it died of.
    assert "ValueError: the database refuses $DB_PASSWORD" in run.output[-1]
    assert "hunter22222" not in "\n".join(run.output)


def test_failed_run_is_failed_on_wandb_too(project, wandb_online, start):
    project.write(
        "modules/models/bad.py",
        """
        from modules.models.line import LineTrainer


        class BadTrainer(LineTrainer):
            def train_step(self, data):
                if self.iterations == 3:
                    raise ValueError("my own mistake")
                super().train_step(data)
        """,
    )
    process = start("--model.class=BadTrainer")
    output = finish(process)
    assert process.returncode == 1
    assert "my own mistake" in output
    run = only_run(wandb_online)
    assert (run.state, run.exit_code) == ("failed", 1)


@pytest.mark.parametrize(
    "variables", [{"WANDB_ENTITY": ""}, {"WANDB_ENTITY": "", "WANDB_USER": "me"}]
)
def test_entity_and_project_come_from_variables(project, wandb_online, start, variables):
    wandb_online.world.entities.add("me")
    process = start(**variables, WANDB_PROJECT="other")
    finish(process)
    run = only_run(wandb_online)
    assert run.project == "other"
    assert run.entity == variables.get("WANDB_USER", wandb_online.world.default_entity)


def test_code_of_the_user_that_uses_wandb_itself_finds_the_run(project, wandb_online, start):
    project.write(
        "modules/models/talking.py",
        """
        import wandb

        from modules.models.line import LineTrainer


        class TalkingTrainer(LineTrainer):
            def initialize(self, token: str = "", **params):
                super().initialize(**params)
                self.token = token

            def on_end(self):
                wandb.run.summary["mine"] = 3
                print(f"this is no secret: {self.token}")
                print("and this is none, either")
        """,
    )
    process = start("--model.class=TalkingTrainer", "--model.token=$TOKEN", TOKEN="hunter22222")
    output = finish(process)
    assert process.returncode == 0, output
    assert "this is no secret: hunter22222\nand this is none, either\n" in output
    run = only_run(wandb_online)
    assert run.summary["mine"] == 3
    assert run.files["jade/metrics.csv"]
    shown = "\n".join(run.output)
    assert "this is no secret: $TOKEN" in shown
    assert "and this is none, either" in shown
    assert "hunter22222" not in shown
    assert not [name for name, data in run.files.items() if b"hunter22222" in data]


def test_checkpoints_reach_the_server_while_the_run_goes_on(project, wandb_online, start):
    process = start("--model.class=SlowTrainer", "--epochs=1000", "--backup_every=5 iterations")
    wandb_online.wait_until(
        lambda: any("jade/checkpoints/last.pt" in run.files for run in wandb_online.runs.values())
    )
    run = only_run(wandb_online)
    assert run.state == "running"
    uploaded = torch.load(BytesIO(run.files["jade/checkpoints/last.pt"]), weights_only=True)
    assert uploaded["clock"]["iterations"] > 0
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert process.returncode == 75
    # The one of the end took its place; of the many in between none was sent.
    last = directory_of(project, run).last_checkpoint
    assert run.files["jade/checkpoints/last.pt"] == last.read_bytes()
    assert run.num_uploads["jade/checkpoints/last.pt"] <= 3
    assert run.state == "preempted"
    # Each start of a run would leave whole checkpoints behind.
    assert copies_in(directory_of(project, run)) == []


def test_server_that_goes_away_and_returns_loses_nothing(project, wandb_online, start):
    process = start("--model.class=SlowTrainer", "--epochs=80", "--log_loss_every=1 iteration")
    wandb_online.wait_until(lambda: wandb_online.runs)
    run = only_run(wandb_online)
    directory = directory_of(project, run)
    wandb_online.close_door()
    # Training goes on to its end without it.
    wandb_online.wait_until(lambda: directory.summary.is_file())
    wandb_online.open_door()
    output = finish(process)
    assert process.returncode == 0, output
    assert run.state == "finished"
    rows = directory.metrics.read_text().splitlines()[1:]
    assert [row["iteration"] for row in run.history] == [int(row.split(",")[0]) for row in rows]
    assert run.files["jade/metrics.csv"] == directory.metrics.read_bytes()


def test_server_that_stays_away_holds_up_nothing_and_the_run_can_be_synced(
    project, wandb_online, start
):
    process = start(
        "--model.class=SlowTrainer",
        "--epochs=40",
        "--log_loss_every=1 iteration",
        WANDB_FINISH_TIMEOUT="1",
    )
    wandb_online.wait_until(lambda: wandb_online.runs)
    run = only_run(wandb_online)
    wandb_online.close_door()
    output = finish(process)
    assert process.returncode == 0, output
    assert f"`jade sync experiments/{run.id}`" in " ".join(output.split())
    directory = directory_of(project, run)
    assert directory.read_status()["status"] == "finished"
    wandb_online.open_door()
    assert main(["sync", run.id]) == 0
    rows = directory.metrics.read_text().splitlines()[1:]
    assert [row["iteration"] for row in run.history] == [int(row.split(",")[0]) for row in rows]
    assert run.state == "finished"
    assert run.summary["run/status"] == "finished"


def resume(project, run_id, *arguments, **variables):
    """Continue a run in a process of its own, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "jade", "resume", run_id, *arguments],
        cwd=project.root,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def iterations_of(directory):
    rows = directory.metrics.read_text().splitlines()[1:]
    return [int(row.split(",")[0]) for row in rows]


def copies_in(directory):
    """What stands in W&B's own folder for nothing but being uploaded."""
    return list(directory.root.glob("wandb/run-*/files/jade/**/*.pt"))


def test_run_that_is_killed_while_the_server_is_away_and_goes_on_at_once_is_whole(
    project, wandb_online, start
):
    options = ("--backup_every=5 iterations", "--log_loss_every=1 iteration")
    process = start("--model.class=SlowTrainer", "--epochs=60", *options)
    wandb_online.wait_until(lambda: wandb_online.runs)
    run = only_run(wandb_online)
    directory = directory_of(project, run)
    wandb_online.close_door()
    wandb_online.wait_until(
        lambda: directory.last_checkpoint.is_file() and len(iterations_of(directory)) > 60
    )
    process.kill()
    process.wait()
    # The process that spoke with W&B is still there, and now sends what it has.
    wandb_online.open_door()
    resume(project, run.id)
    assert [row["iteration"] for row in run.history] == iterations_of(directory)
    assert run.state == "finished"
    assert copies_in(directory) == []


def test_run_that_began_offline_and_goes_on_online_is_whole_on_wandb(project, wandb_online, start):
    options = ("--model.class=SlowTrainer", "--epochs=1000", "--log_loss_every=1 iteration")
    process = start(*options, WANDB_MODE="offline")
    experiments = project.root / "experiments"
    wandb_online.wait_until(lambda: list(experiments.glob("*/metrics.csv")))
    (metrics,) = experiments.glob("*/metrics.csv")
    wandb_online.wait_until(lambda: metrics.read_text().count("\n") > 10)
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert wandb_online.runs == {}
    output = resume(project, metrics.parent.name, "--additional=6 iterations")
    run = only_run(wandb_online)
    assert [row["iteration"] for row in run.history] == iterations_of(directory_of(project, run))
    assert "W&B gets what it lacks" in output


def test_run_that_is_named_on_wandb_goes_on_there_whatever_the_variables_say(
    project, wandb_online, start
):
    finish(start("--log_loss_every=1 iteration"))
    run = only_run(wandb_online)
    shutil.rmtree(project.root / "experiments")
    name = f"{run.entity}/{run.project}/{run.id}"
    output = resume(project, name, "--total=3 epochs", WANDB_PROJECT="other", WANDB_ENTITY="")
    assert only_run(wandb_online) is run
    assert [row["iteration"] for row in run.history] == list(range(10))
    # That JADE has asked W&B itself is no reason to have it in this process.
    assert "wandb: " not in output


@pytest.mark.parametrize("status", [500, 429])
def test_server_that_fails_now_and_then_loses_nothing(project, wandb_online, start, status):
    process = start("--epochs=5", "--log_loss_every=1 iteration")
    wandb_online.faults.fail(status, count=2, match="file_stream")
    wandb_online.faults.fail(status, count=1, match="put")
    output = finish(process)
    assert process.returncode == 0, output
    run = only_run(wandb_online)
    directory = directory_of(project, run)
    assert wandb_online.faults.num_failed == 3
    assert run.state == "finished"
    rows = directory.metrics.read_text().splitlines()[1:]
    assert len(run.history) == len(rows)
    assert run.files["jade/checkpoints/last.pt"] == directory.last_checkpoint.read_bytes()


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("none", set()),
        ("last", {"last.pt"}),
        ("all", {"last.pt", "best.pt", "checkpoint_3.pt", "checkpoint_6.pt"}),
    ],
)
def test_checkpoints_that_are_asked_for_reach_wandb(
    project, wandb_online, arguments, level, expected
):
    given = ["--best_metric=Error", "--checkpoint_every=1 epoch", f"--upload={level}"]
    assert main([*arguments, "--wandb=online", *given]) == 0
    run = only_run(wandb_online)
    start = "jade/checkpoints/"
    assert {n.removeprefix(start) for n in run.files if n.startswith(start)} == expected
    assert "jade/config.yml" in run.files
    assert "jade/metrics.csv" in run.files


def test_upload_that_is_cut_arrives_whole(project, wandb_online, start):
    wandb_online.faults.cut(match="last.pt", count=1)
    process = start()
    output = finish(process)
    assert process.returncode == 0, output
    run = only_run(wandb_online)
    last = directory_of(project, run).last_checkpoint
    assert run.files["jade/checkpoints/last.pt"] == last.read_bytes()


def test_wrong_key_ends_with_2_and_leaves_nothing(project, wandb_online, start):
    process = start(WANDB_API_KEY="f" * 40)
    output = finish(process)
    assert process.returncode == 2
    assert "refuses the key" in output
    assert "Traceback" not in output
    assert list((project.root / "experiments").iterdir()) == []
    assert wandb_online.runs == {}


def test_entity_that_does_not_exist_is_named(project, wandb_online, start):
    process = start(WANDB_ENTITY="nobody")
    output = finish(process)
    assert process.returncode == 2
    assert "Do the entity and project exist" in " ".join(output.split())
    assert "nobody/project" in output
    assert list((project.root / "experiments").iterdir()) == []


def test_run_id_of_another_configuration_is_refused(project, wandb_online, start):
    process = start(WANDB_RUN_ID="same", WANDB_SWEEP_ID=make_sweep_id(wandb_online))
    finish(process)
    assert process.returncode == 0
    before = directory_of(project, wandb_online.runs["same"]).config.read_bytes()
    process = start(
        "--model.lr=0.5", WANDB_RUN_ID="same", WANDB_SWEEP_ID=next(iter(wandb_online.sweeps))
    )
    output = finish(process)
    assert process.returncode == 2
    assert "is one of another configuration" in output
    assert directory_of(project, wandb_online.runs["same"]).config.read_bytes() == before


def test_run_id_of_another_configuration_on_wandb_is_refused(project, wandb_online, start):
    process = start(WANDB_RUN_ID="same")
    finish(process)
    run = wandb_online.runs["same"]
    before = dict(run.config), list(run.history)
    # On another machine, say, where nothing is known of it.
    elsewhere = f"--experiments_root={project.root / 'elsewhere'}"
    process = start("--model.lr=0.5", elsewhere, WANDB_RUN_ID="same")
    output = finish(process)
    assert process.returncode == 2
    assert "same (WANDB_RUN_ID) of another configuration" in " ".join(output.split())
    assert (dict(run.config), list(run.history)) == before
    assert list((project.root / "elsewhere").iterdir()) == []
    process = start(elsewhere, WANDB_RUN_ID="same")
    output = finish(process)
    assert process.returncode == 0, output


def make_sweep_id(server):
    return server.create_sweep("method: grid\nparameters: {seed: {values: [1]}}\n")
