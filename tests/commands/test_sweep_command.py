"""jade sweep push, with the real client and a server on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from jade.cli import main

SWEEP = """
    program: train.py
    method: grid
    command:
      - ${env}
      - ${interpreter}
      - ${program}
      - --model_conf=model.yml
      - --data_conf=data.yml
      - --arch_impl=modules/architectures/small.py
      - --epochs=1
      - ${args}
    parameters:
      model.lr: {values: [1e-3, 0.1]}
      model.batch_size: {value: 2}
"""


@pytest.fixture
def push(project, capsys):
    """Push a sweep file, and return the exit code and what was printed."""
    project.write(
        "train.py", "import sys\nfrom jade.cli import train_main\nsys.exit(train_main())\n"
    )
    project.write("sweep.yml", SWEEP)

    def push(*arguments):
        code = main(["sweep", "push", *(arguments or ["sweep.yml"])])
        out, err = capsys.readouterr()
        return code, out + err

    return push


def test_push_checks_registers_and_prints_the_agent_commands(push, wandb_online):  # W5
    code, text = push()
    assert code == 0, text
    ((name, sweep),) = wandb_online.sweeps.items()
    assert "2 points checked (all); networks of 3 parameters" in text
    assert f"  wandb agent team/project/{name}\n  jade agent team/project/{name}\n" in text
    assert f"{wandb_online.base_url}/team/project/sweeps/{name}" in text
    assert sweep.config["command"] == yaml.safe_load(SWEEP)["command"]


def test_pushed_numbers_are_those_of_our_reading(push, wandb_online):
    code, text = push("sweep.yml", "--no_check")
    assert code == 0, text
    (sweep,) = wandb_online.sweeps.values()
    assert sweep.config["parameters"]["model.lr"] == {"values": [0.001, 0.1]}
    assert "note: sweep.yml:14: `wandb sweep` reads 0.001 as '1e-3'; write 0.001." in text
    assert "points checked" not in text


def test_entity_project_and_name_are_chosen(push, project, wandb_online):
    assert push("sweep.yml", "--no_check", "--project=p", "--entity=user", "--name=mine")[0] == 0
    project.write("named.yml", SWEEP + "    project: of-the-file\n    entity: user\n")
    assert push("named.yml", "--no_check")[0] == 0
    assert push("sweep.yml", "--no_check")[0] == 0
    places = {(sweep.entity, sweep.project) for sweep in wandb_online.sweeps.values()}
    # What one sweep was given is not left behind for the next one.
    assert places == {("user", "p"), ("user", "of-the-file"), ("team", "project")}
    assert sorted(str(s.config.get("name")) for s in wandb_online.sweeps.values())[-1] == "mine"
    assert (os.environ["WANDB_ENTITY"], os.environ["WANDB_PROJECT"]) == ("team", "project")


def test_our_own_section_stays_at_home(push, project, wandb_online):
    project.write("own.yml", SWEEP + "    jade: {repetitions: 3}\n")
    assert push("own.yml", "--no_check")[0] == 0
    (sweep,) = wandb_online.sweeps.values()
    assert "jade" not in sweep.config


def test_folder_is_pushed_as_a_whole_or_not_at_all(push, project, wandb_online):  # W5
    project.write("sweeps/a.yml", SWEEP)
    project.write("sweeps/model.yml", "class: X\n")
    project.write("sweeps/b.yml", SWEEP.replace("model.lr", "model.lrr"))
    code, text = push("sweeps")
    assert code == 2
    assert "Did you mean 'model.params.lr'?" in text
    assert wandb_online.sweeps == {}
    project.write("sweeps/b.yml", SWEEP)
    code, text = push("sweeps", "--no_check")
    assert code == 0
    assert text.count("wandb agent team/project/") == len(wandb_online.sweeps) == 2


def test_real_agent_runs_what_was_pushed(push, project, wandb_online):
    assert push()[0] == 0
    (name,) = wandb_online.sweeps
    agent = subprocess.run(
        wandb_online.agent_command(name),
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert agent.returncode == 0, agent.stderr
    configs = [run.config for run in wandb_online.runs.values()]
    swept = sorted(config["model"]["params"]["lr"] for config in configs)
    assert swept == [0.001, 0.1], agent.stderr


def test_key_from_the_env_file_counts(push, project, wandb_online, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY")
    project.write(".env", f"WANDB_API_KEY={wandb_online.api_key}\n")
    assert push("sweep.yml", "--no_check")[0] == 0


def test_wrong_key_is_to_be_mended(push, wandb_online):
    wandb_online.api_key = "f" * 40
    code, text = push("sweep.yml", "--no_check")
    assert code == 2
    assert f"W&B at {wandb_online.base_url} does not accept the API key: run `wandb login" in text


def test_unknown_entity_is_to_be_mended(push, wandb_online):
    code, text = push("sweep.yml", "--no_check", "--entity=nobody")
    assert code == 2
    assert "refuses the sweep in nobody/project. Are the names right" in text
    assert "entity nobody not found" in text
    assert wandb_online.sweeps == {}


def test_sweep_that_the_server_refuses_is_to_be_mended(push, wandb_online):
    wandb_online.faults.fail(403, match="UpsertSweep")
    assert push("sweep.yml", "--no_check")[0] == 2


def test_sweep_is_registered_even_if_its_address_cannot_be_asked_for(push, wandb_online):
    wandb_online.faults.fail(400, match="GetSweep")
    code, text = push("sweep.yml", "--no_check")
    assert code == 0
    (name,) = wandb_online.sweeps
    assert f"wandb agent team/project/{name}" in text


def test_server_that_is_away_is_nobodys_mistake(push, wandb_online):
    wandb_online.close_door()
    code, text = push("sweep.yml", "--no_check")
    assert code == 1
    assert f"W&B cannot be reached at {wandb_online.base_url}: " in text


@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_nothing_is_pushed_while_wandb_is_off(push, monkeypatch, mode):
    monkeypatch.setenv("WANDB_MODE", mode)
    code, text = push()
    assert code == 2
    assert f"W&B is {mode} here" in text
    assert "Set WANDB_MODE=online." in text


def test_push_without_a_login_says_how_to_get_one(push, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    code, text = push()
    assert code == 2
    assert "There is no login for http://127.0.0.1:9: run `wandb login`" in text


def test_push_without_wandb_says_how_to_install_it(push, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, text = push()
    assert code == 2
    assert "pip install 'jade-trainer[wandb]'" in text


def test_proxy_is_left_to_the_client():
    from jade.sweep_registration import require_account

    environ = {"WANDB_API_KEY": "x" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"}
    assert require_account({**environ, "HTTP_PROXY": "http://127.0.0.1:8"}) == "http://127.0.0.1:9"


def test_wrong_file_is_refused_before_wandb_is_touched(push, project, monkeypatch):
    assert "sweep.yml does not exist" in push("no/sweep.yml")[1]
    assert push("modules")[1].startswith("jade: error: There is no sweep file in modules")
    project.write("x.yml", "program: train.py\n")
    code, text = push("x.yml")
    assert code == 2
    assert "the sweep has no method" in text
    assert "the sweep has no parameters" in text


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 0, "push    check a sweep file, register it with W&B"),
        (["push", "--help"], 0, "a sweep file, or a folder of them"),
        (["sweep.yml"], 2, "jade sweep run sweep.yml, or jade sweep push sweep.yml?"),
        (["puhs"], 2, "There is no command 'puhs' of jade sweep. Did you mean 'push'?"),
    ],
)
def test_overview_and_mistakes_of_the_command(capsys, arguments, code, text):
    assert main(["sweep", *arguments]) == code
    out, err = capsys.readouterr()
    assert text in out + err


# In a job of a cluster


RUN = [
    "--data_conf=data.yml",
    "--eval_conf=eval.yml",
    "--arch_impl=modules/architectures/small.py",
    "--epochs=1",
    "--no_check",
]


@pytest.fixture
def run_in_job(project, capsys, monkeypatch):
    """Run a sweep of the values of a setting as a job does; return the exit code and complaints."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "0")
    project.write("train.py", "")

    def run(values, *arguments):
        parameters = {"model_conf": {"values": values}}
        sweep = {"program": "train.py", "method": "grid", "parameters": parameters}
        project.write("sweep.yml", yaml.safe_dump(sweep))
        code = main(["sweep", "run", "sweep.yml", *RUN, *arguments])
        return code, capsys.readouterr().err

    return run


def test_machine_without_its_gpu_is_to_blame_and_not_the_sweep(run_in_job, monkeypatch):
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "1")
    code, said = run_in_job(["model.yml"], "--devices=cuda:0")
    assert code == 69
    assert "cuda:0 is not there (found: none). SLURM has given 1 here." in said


def test_device_that_nobody_knows_is_to_be_mended_in_a_job_as_well(run_in_job):
    code, said = run_in_job(["model.yml"], "--devices=gpu")
    assert code == 2
    assert "there is no device 'gpu'" in said


def test_machine_that_lacks_a_file_of_some_points_takes_none(run_in_job):
    code, said = run_in_job(["model.yml", "nowhere.yml"], "--devices=cpu")
    assert code == 69
    assert "nowhere.yml" in said


def test_arguments_for_all_runs_count_when_a_machine_is_examined(run_in_job):
    code, said = run_in_job(["model.yml"], "--devices=cpu", "--data.train.params.root=/no/where")
    assert code == 69
    assert "/no/where does not exist" in said
