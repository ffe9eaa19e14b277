"""A verification interrupts real processes by real signals, and says what it has found."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jade.cli import main
from jade.errors import ConfigError
from jade.run_process import RunProcess
from jade.verify import (
    Interruption,
    Verdict,
    check_comparable,
    parse_signals,
)

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 120


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let processes that are started in another folder find JADE."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_signals_are_known_by_their_names():
    assert parse_signals("KILL, sigterm") == (signal.SIGKILL, signal.SIGTERM)


@pytest.mark.parametrize(
    ("text", "message"),
    [("TREM", r"no 'TREM' to send. Did you mean 'TERM'\?"), (" ,", "at least one of KILL")],
)
def test_signals_that_nobody_could_send_are_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_signals(text)


def test_training_for_some_time_is_refused():
    with pytest.raises(ConfigError, match="in 5 minutes, no two trainings do the same"):
        check_comparable({"train_for": "5 minutes"})


@pytest.mark.parametrize(
    ("details", "text"),
    [
        (
            {"iteration": 37, "epoch": 1, "resumed_at": 35, "is_begun": True},
            "killed (SIGKILL) at iteration 37 in epoch 2, resumed at 35: identical",
        ),
        (
            {"iteration": 37, "epoch": 1, "resumed_at": 35, "is_begun": True, "parted_at": 36},
            "killed (SIGKILL) at iteration 37 in epoch 2, resumed at 35: differs from iteration 36 on",
        ),
        ({"is_begun": True}, "killed (SIGKILL) in its start-up, started again: identical"),
        ({"iteration": 9}, "killed (SIGKILL) in its end, and again before it went on"),
    ],
)
def test_interruption_is_told_in_one_line(details, text):
    assert str(Interruption("SIGKILL", 1, **details)) == f"run 1: {text}"


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(is_reproducible=False),
        Verdict(differences=["last.pt"]),
        Verdict(explanations=["self.x"]),
    ],
)
def test_verdict_with_any_finding_is_not_identical(verdict):
    assert Verdict().is_identical
    assert not verdict.is_identical
    assert verdict.to_json()["identical"] is False


# Real processes

TRAINER = """
    import time

    import torch
    from torch.utils.data import DataLoader

    from jade.trainer import Trainer


    class LineTrainer(Trainer):
        def initialize(self, pause: float = 0.005):
            self.pause = pause
            self.warmup = 0
            self.net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.2),
                                           torch.nn.Linear(4, 1))
            self.opt = torch.optim.Adam(self.net.parameters(), lr=0.01)
            self.train_loader = DataLoader(self.datasets["train"], batch_size=4, shuffle=True)
            self.add_attribute_to_store("warmup")

        def train_step(self, data):
            time.sleep(self.pause)
            self.warmup += 1
            loss = (self.net(data["x"]) - data["y"]).square().mean()
            self.add_loss_item("loss", loss)
            self.opt.zero_grad()
            (loss * min(1.0, self.warmup / 100)).backward()
            self.opt.step()
"""
FORGETFUL = TRAINER.replace('self.add_attribute_to_store("warmup")', "pass")


def verify(project, *arguments):
    """Run the command in a process of its own."""
    environ = {**os.environ, "TMPDIR": str(project.root)}
    given = ["--model_conf=model.yml", "--data_conf=data.yml", "--eval_conf=eval.yml"]
    return subprocess.Popen(
        [sys.executable, "-m", "jade", "verify-resume", *given, *arguments],
        cwd=project.root,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.fixture
def line_project(project):
    project.write("model.yml", "class: LineTrainer\n")
    project.write("modules/models/line.py", TRAINER)
    return project


@pytest.mark.slow
def test_training_that_resumes_exactly_is_found_identical(line_project):
    process = verify(line_project, "--train_for=60 iterations", "--kills=3", "--signals=KILL,TERM")
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, out + err
    [reference, backup, *interruptions, verdict] = out.splitlines()
    assert reference == "60 iterations without interruption, twice: identical"
    assert backup.startswith("backup_every is 7 iterations here")
    assert len(interruptions) == 3
    assert any(line.endswith(": identical") for line in interruptions if "resumed at" in line)
    assert verdict.startswith("identical: 3 interruptions")
    # Nothing is left, not even where runs usually are.
    assert not list(line_project.root.glob("jade-verify-*"))
    assert not (line_project.root / "experiments").exists()


@pytest.mark.slow
def test_counter_that_is_never_stored_is_found_and_the_runs_are_kept(line_project):
    line_project.write("modules/models/line.py", FORGETFUL)
    process = verify(
        line_project, "--train_for=60 iterations", "--kills=2", "--signals=TERM", "--verify_seed=4"
    )
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1, out + err
    assert "differs: the training does not end as if it had not been interrupted" in out
    assert "\n- self.warmup: not in checkpoints, and not the same after resuming: call" in out
    [folder] = line_project.root.glob("jade-verify-*")
    assert out.splitlines()[-1] == f"the runs are in {folder}"
    assert (folder / "reference/process-1.txt").is_file()


@pytest.mark.slow
def test_training_that_fails_by_itself_is_shown_with_its_own_message(line_project):
    text = TRAINER.replace("self.warmup += 1", "raise ValueError('the batch is bad')")
    line_project.write("modules/models/line.py", text)
    process = verify(line_project, "--train_for=60 iterations")
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert "The training fails without any interruption" in err
    assert "ValueError: the batch is bad" in err


@pytest.mark.slow
def test_interrupt_ends_all_processes(line_project):
    process = verify(line_project, "--train_for=10000 iterations", "--model.pause=0.05")
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not (found := list(line_project.root.glob("jade-verify-*/*/runs/*/status.json"))):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        child = json.loads(found[0].read_text())["pid"]
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
    finally:
        process.kill()
        process.communicate()


def test_configuration_that_is_wrong_is_refused_before_anything_runs(line_project, capsys):
    given = ["--model_conf=model.yml", "--data_conf=data.yml"]
    assert main(["verify-resume", *given, "--train_for=5 s"]) == 2
    assert main(["verify-resume", *given, "--epochs=1", "--resume=auto"]) == 2
    assert main(["verify-resume", *given, "--epochs=1", "--model.puase=1"]) == 2
    assert main(["verify-resume", *given, "--epochs=1", "--kills=0"]) == 2
    text = capsys.readouterr().err
    for part in ("no two trainings", "make no sense here", "puase", "'0' is not"):
        assert part in text


def test_process_that_does_not_end_in_time_is_ended(tmp_path):
    with RunProcess(["--version"], tmp_path, "one") as process:
        assert process.wait(0) is None
    assert process._process.returncode is not None


@pytest.mark.slow
def test_training_that_no_two_processes_do_alike_is_reported_as_such(line_project):
    text = TRAINER.replace("self.warmup / 100", "time.time() % 1.0")
    line_project.write("modules/models/line.py", text)
    process = verify(line_project, "--train_for=5 iterations", "--json")
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1, out + err
    verdict = json.loads(out)
    assert not verdict["identical"]
    assert not verdict["is_reproducible"]
    assert verdict["interruptions"] == []
    [explanation] = verdict["explanations"]
    assert explanation.startswith("Before the step of iteration 1 differs: ")
    # The first step of Adam is as long whatever the loss is multiplied by, but for rounding.
    assert "self.opt.state" in explanation
    assert Path(verdict["folder"]).is_dir()
