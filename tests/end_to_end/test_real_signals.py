"""C18, U3: real signals to a real process; what it does, what it says, and what it leaves behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jade import checkpoint
from jade.run_dir import RunDir

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60

pytestmark = pytest.mark.slow

TRAINER = """
    import time

    import torch
    from torch.utils.data import DataLoader

    from jade.trainer import Trainer


    class LineTrainer(Trainer):
        def initialize(self, lr: float = 0.1, batch_size: int = 4, pause: float = 0.0):
            open("initializing", "w").close()
            # In small parts: one that is just begun when a signal comes in would not be cut short.
            for _ in range(int(pause * 20)):
                time.sleep(0.05)
            self.net = self.instantiate_architecture("Net", n_out=1)
            self.opt = torch.optim.SGD(self.net.parameters(), lr=lr)
            self.train_loader = DataLoader(self.datasets["train"], batch_size=batch_size)

        def train_step(self, data):
            open("training", "w").close()
            time.sleep(0.01)
            loss = (self.net(data["x"]) - data["y"]).square().mean()
            self.add_loss_item("loss", loss)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            open(f"step {self.iterations}", "w").close()
"""
SLOW_EVALUATION = """
    import time

    from jade.eval import Evaluation


    class SquaredError(Evaluation):
        def initialize(self, evaluate_on):
            pass

        def evaluate(self):
            open("evaluating", "w").close()
            time.sleep(60)
            open("measured", "w").close()
            return 1.0
"""
STUBBORN = TRAINER.replace("time.sleep(0.01)", "time.sleep(60)")


class Process:
    """A run in a process of its own."""

    def __init__(self, project, *flags):
        self.folder = project.root
        flags = [
            "--model_conf=model.yml",
            "--data_conf=data.yml",
            "--eval_conf=eval.yml",
            "--arch_impl=modules/architectures/small.py",
            "--train_for=10 minutes",
            "--log_loss_every=1 iteration",
            "--wandb=disabled",
            *flags,
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error::ResourceWarning", str(ROOT / "train.py"), *flags],
            cwd=project.root,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Tests may be run in the background, where this signal is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def wait_for(self, name):
        deadline = time.monotonic() + TIMEOUT_S
        while not (self.folder / name).exists():
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline, f"no {name}"
            time.sleep(0.01)

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        self.out, self.err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode

    @property
    def directory(self):
        [found] = (self.folder / "experiments").iterdir()
        return RunDir(found)


@pytest.fixture
def start(project):
    started = []

    def start(*flags, trainer=TRAINER):
        project.write("modules/models/line.py", trainer)
        started.append(Process(project, *flags))
        return started[-1]

    yield start
    for item in started:
        if item.process.poll() is None:
            item.process.kill()
            item.process.communicate()


@pytest.mark.parametrize(
    ("number", "exit_code", "status"),
    [
        (signal.SIGTERM, 75, "preempted"),
        (signal.SIGUSR1, 75, "preempted"),
        (signal.SIGINT, 130, "interrupted"),
    ],
)
def test_signal_ends_a_run_after_its_step_with_a_checkpoint(start, number, exit_code, status):
    run = start()
    run.wait_for("step 2")
    run.send(number)
    assert run.end() == exit_code, run.err
    assert "Traceback" not in run.err
    reason = f"stopped by a signal ({signal.Signals(number).name})"
    assert f"{status}: {reason}" in run.out
    written = run.directory.read_status()
    assert (written["status"], written["exit_code"]) == (status, exit_code)
    assert written["reason"] == reason
    kept = checkpoint.load(run.directory.last_checkpoint)
    assert kept["clock"]["iterations"] == written["iterations"] >= 3
    rows = run.directory.metrics.read_text().splitlines()
    assert int(rows[-1].split(",")[0]) == written["iterations"]
    assert (run.folder / f"step {written['iterations'] - 1}").exists()
    assert not (run.folder / f"step {written['iterations']}").exists()


def test_second_signal_ends_a_run_at_once(start):
    run = start(trainer=STUBBORN)
    run.wait_for("training")
    run.send(signal.SIGTERM)
    time.sleep(0.2)
    assert run.process.poll() is None
    began = time.monotonic()
    run.send(signal.SIGTERM)
    assert run.end() == -signal.SIGTERM
    assert time.monotonic() - began < 10


def test_second_interrupt_ends_a_run_at_once_and_is_on_record(start):
    run = start(trainer=STUBBORN)
    run.wait_for("training")
    run.send(signal.SIGINT)
    time.sleep(0.2)
    run.send(signal.SIGINT)
    assert run.end() == 130
    assert run.err.rstrip().endswith("jade: interrupted")
    written = run.directory.read_status()
    assert (written["status"], written["exit_code"]) == ("interrupted", 130)


def test_signal_during_an_evaluation_cuts_it_short_and_it_stays_due(start, project):
    project.write("modules/eval/errors.py", SLOW_EVALUATION)
    run = start("--evaluate_first=false", "--eval.Error.evaluate_every=1 iteration")
    run.wait_for("evaluating")
    run.send(signal.SIGTERM)
    assert run.end() == 75, run.err
    # What was trained is logged, the measurement is not, and nothing was trained after it.
    [header, row] = run.directory.metrics.read_text().splitlines()
    assert header.split(",")[-1] == "loss"
    assert row.startswith("1,")
    assert run.directory.read_status()["iterations"] == 1
    kept = checkpoint.load(run.directory.last_checkpoint)
    assert kept["schedules"]["evaluations"]["Error"]["next_at"] == 1
    assert not (run.folder / "measured").exists()


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_signal_before_training_ends_at_once_and_nothing_is_written(start, number, exit_code):
    run = start("--model.params.pause=60")
    run.wait_for("initializing")
    run.send(number)
    assert run.end() == exit_code
    assert not (run.folder / "experiments").exists()


# Some libraries catch everything while they are imported, and cannot be imported again.
DEAF = """
    import time

    try:
        open("importing", "x").close()
        for _ in range(600):
            time.sleep(0.1)
    except BaseException:
        raise ImportError("cannot load module more than once per process")
"""


def test_signal_that_an_import_takes_for_a_failure_is_still_a_signal(start, project):
    project.write("deaf.py", DEAF)
    run = start(trainer=TRAINER.replace("import torch\n", "import deaf\n    import torch\n", 1))
    run.wait_for("importing")
    run.send(signal.SIGTERM)
    assert run.end() == 75, run.err
    assert not (run.folder / "experiments").exists()


def test_exit_codes_of_a_process_are_those_of_the_outcome(start, project):
    runs = [
        start("--train_for=2 iterations"),
        start("--train_for=2 iterations", "--device=cuda:31", "--experiments_root=none"),
    ]
    assert [run.end() for run in runs] == [0, 2]
    assert runs[0].directory.read_status()["status"] == "finished"
    assert not (project.root / "none").exists()
