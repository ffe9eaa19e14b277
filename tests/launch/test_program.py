"""Which commands are programs of this Python."""

import os
import sys
from pathlib import Path

import pytest

from jade.launch.program import FILE, MODULE, make_program

HERE = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text("")
    script = tmp_path / "script"
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "kind", "entry", "arguments"),
    [
        ([sys.executable, "train.py", "--a=1"], FILE, "train.py", ["--a=1"]),
        (["/usr/bin/env", sys.executable, "train.py"], FILE, "train.py", []),
        (["python", "-u", "train.py", "-u"], FILE, "train.py", ["-u"]),
        (["python", "-m", "jade", "train"], MODULE, "jade", ["train"]),
        (["FOLDER/script", "x"], FILE, "FOLDER/script", ["x"]),
    ],
)
def test_programs_of_this_python_are_recognised(folder, command, kind, entry, arguments):
    command = [word.replace("FOLDER", str(folder)) for word in command]

    program = make_program(command, HERE, str(folder))

    assert (program.kind, program.entry) == (kind, entry.replace("FOLDER", str(folder)))
    assert program.arguments == arguments


@pytest.mark.parametrize(
    "command",
    [
        ["bash", "run.sh"],
        ["FOLDER/other"],
        ["python", "-c", "pass"],
        ["python", "-W", "error", "train.py"],
        ["python", "missing.py"],
        ["env", "-i", "python", "train.py"],
        ["no-such-program"],
        ["/usr/bin/env"],
    ],
)
def test_others_are_left_as_they_are(folder, command):
    command = [word.replace("FOLDER", str(folder)) for word in command]

    program = make_program(command, HERE, str(folder))

    assert program.kind is None
    assert program.command == command


def test_a_python_of_another_environment_is_not_this_one(folder, tmp_path):
    other = tmp_path / "venv" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.symlink_to(Path(sys.executable).resolve())

    assert make_program([str(other), "train.py"], HERE, str(folder)).kind is None


def test_env_puts_variables_around_a_program(folder):
    program = make_program(["env", "A=1", "B=x=y", "python", "train.py"], HERE, str(folder))

    assert (program.environ["A"], program.environ["B"]) == ("1", "x=y")
