"""`jade doctor` as a process, with the real wandb client."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def examine(folder, *arguments, environ=None):
    done = subprocess.run(
        [sys.executable, "-m", "jade", "doctor", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environ or {})},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    # A table breaks lines where they are too long.
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_all_is_well(project, wandb_online, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    project.write("data.yml", "train:\n  class: Points\n  params: {root: '$DATA_ROOT/data'}\n")
    files = ["--model_conf=model.yml", "--data_conf=data.yml"]
    wandb_online.create_project("project")
    # What a training would find there counts here, too.
    project.write(".env", f"DATA_ROOT={tmp_path}\nWANDB_API_KEY={wandb_online.api_key}\n")
    monkeypatch.delenv("WANDB_API_KEY")

    code, text = examine(project.root, *files)

    assert code == 0, text
    assert "the key is accepted: " in text
    assert "ok entity team." in text
    assert "ok project project." in text
    assert "ok variables set: DATA_ROOT." in text
    assert f"{tmp_path}/data is there" in text
    assert "ok experiments_root experiments can be written" in text
    assert "no problems found" in text
    assert wandb_online.unknown == []


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"WANDB_API_KEY": "f" * 40}, "does not accept the API key"),
        ({"WANDB_API_KEY": "hunter2"}, "has 7 characters, an API key has at least 40"),
        ({"WANDB_ENTITY": "taem"}, "'taem' is none of yours"),
        ({"WANDB_BASE_URL": "http://127.0.0.1:9"}, "Check the network"),
        ({"WANDB_API_KEY": ""}, "there is no API key for http://127.0.0.1"),
    ],
)
def test_what_is_wrong_with_an_account_is_said(tmp_path, wandb_online, environ, message):
    code, text = examine(tmp_path, environ=environ)

    assert code == 1, text
    assert message in text
    assert "hunter2" not in text
    assert "Traceback" not in text


def test_a_project_that_does_not_exist_is_no_problem_but_said(tmp_path, wandb_online):
    wandb_online.create_project("projects")
    code, text = examine(tmp_path)
    assert code == 0, text
    assert "team has no project 'project' yet" in text
    assert "Is 'projects' meant?" in text


@pytest.mark.parametrize("stored", [True, False])
def test_offline_nobody_has_to_be_logged_in(tmp_path, stored):
    """As on a machine without a network, whether a variable says so or `wandb offline`."""
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "settings").write_text(
        f"[default]\nmode = {'offline' if stored else ''}\n"
    )
    code, text = examine(tmp_path, environ={"WANDB_MODE": "" if stored else "offline"})
    assert code == 0, text
    assert "was not asked, and needs no login" in text
    assert ("`wandb offline` says" if stored else "WANDB_MODE says") in text


def test_all_problems_are_said_at_once(project, tmp_path):
    project.write("data.yml", "train:\n  class: Points\n  params: {root: $DATA_ROOT, n: $NUMBER}\n")
    project.write(
        "sweep.yml",
        """
        program: train.py
        method: grid
        command: ['${env}', '${interpreter}', '${program}', '--model_conf=model.yml',
                  '--data_conf=data.yml', '--arch_impl=${envvar:ARCHITECTURE}']
        parameters:
          epochs: {values: [1, 2]}
        """,
    )
    environ = {
        "WANDB_PROJCT": "x",
        "WANDB_ENTITY": "one",
        "WANDB_USER": "two",
        "DATA_ROOT": str(tmp_path / "nowhere"),
    }

    code, text = examine(project.root, "sweep.yml", environ=environ)

    assert code == 1, text
    assert "WANDB_PROJCT is not read. Did you mean 'WANDB_PROJECT'?" in text
    assert "WANDB_ENTITY is 'one', WANDB_USER is 'two'" in text
    assert "needs the environment variable ARCHITECTURE" in text
    assert "the program train.py does not exist" in text

    project.write("train.py", "")
    code, text = examine(project.root, "sweep.yml", environ={**environ, "ARCHITECTURE": "x.py"})

    assert code == 1, text
    assert "nowhere does not exist" in text
    assert "needs NUMBER, which is not set" in text


def test_a_file_that_does_not_exist_is_a_wrong_argument(project):
    code, text = examine(project.root, "--model_conf=modle.yml")

    assert code == 2, text
    assert "Did you mean 'model.yml'?" in text
