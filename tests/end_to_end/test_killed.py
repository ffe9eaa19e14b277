"""S2, S5, U3: real processes that are killed or stopped, with all their workers, and go on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from jade import checkpoint
from jade.run_dir import RunDir

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 90

pytestmark = pytest.mark.slow

TRAINER = """
    import os
    import time
    from pathlib import Path

    import torch
    from torch.utils.data import DataLoader

    from jade.trainer import Trainer


    class LineTrainer(Trainer):
        def initialize(self, size: int = 8):
            self.net = torch.nn.Sequential(
                torch.nn.Linear(2, size), torch.nn.Dropout(0.3), torch.nn.Linear(size, 1)
            )
            self.opt = torch.optim.Adam(self.net.parameters(), lr=0.05)
            self.train_loader = DataLoader(
                self.datasets["train"], batch_size=4, shuffle=True,
                num_workers=int(os.environ.get("WORKERS", "0")),
            )

        def train_step(self, data):
            time.sleep(float(os.environ.get("PAUSE", "0")))
            loss = (self.net(data["x"]) - data["y"]).square().mean()
            self.add_loss_item("loss", loss)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            Path(f"step {self.iterations + 1}").touch()
"""
DATA = """
    import os
    import time

    import numpy as np
    import torch
    from torch.utils.data import Dataset


    class Points(Dataset):
        def __init__(self, n: int = 24, seed: int = 0):
            self.x = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            x = (self.x[index] + torch.randn(2) * 0.1 + np.random.randn() * 0.1).float()
            return {"x": x, "y": x.sum(dim=0, keepdim=True)}
"""
# A measurement with workers of its own, which takes its time.
EVALUATION = """
    import os
    import time
    from pathlib import Path

    from torch.utils.data import DataLoader

    from jade.eval import Evaluation


    class SquaredError(Evaluation):
        def initialize(self, evaluate_on: str):
            self.loader = DataLoader(
                self.datasets[evaluate_on], batch_size=2,
                num_workers=int(os.environ.get("EVALUATION_WORKERS", "0")),
            )
            self.num_begun = 0
            self.add_attribute_to_store("num_begun")

        def evaluate(self):
            self.num_begun += 1
            total = float(self.num_begun)
            for number, data in enumerate(self.loader):
                total += float((self.trainer.net(data["x"]) - data["y"]).square().mean())
                if "SLOW_EVALUATION" in os.environ:
                    Path("evaluating").touch()
                    time.sleep(0.1)
            return total
"""


class Job:
    """A training in a process group of its own, as a scheduler starts it."""

    def __init__(self, folder, *flags, **environ):
        self.folder = folder
        self.root = folder / environ.pop("root", "experiments")
        for mark in [*folder.glob("step *"), *folder.glob("evaluating")]:
            mark.unlink()
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(ROOT / "train.py"),
                "--model_conf=model.yml",
                "--data_conf=data.yml",
                "--eval_conf=eval.yml",
                "--eval.Error.evaluate_every=4 iterations",
                "--epochs=5",
                "--seed=1",
                "--log_loss_every=1 iteration",
                "--backup_every=3 iterations",
                "--wandb=disabled",
                "--resume=auto",
                f"--experiments_root={self.root}",
                *flags,
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, is_there):
        deadline = time.monotonic() + TIMEOUT_S
        while not is_there():
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def wait_for_file(self, pattern):
        self.wait_for(lambda: any(self.folder.glob(pattern)))

    def send(self, number, *, to_all=False):
        if to_all:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def end(self):
        self.output = self.process.communicate(timeout=TIMEOUT_S)[0]
        return self.process.returncode

    @property
    def directory(self):
        [found] = self.root.iterdir()
        return RunDir(found)


@pytest.fixture
def start(project):
    project.write("modules/models/line.py", TRAINER)
    project.write("modules/data/points.py", DATA)
    project.write("modules/eval/errors.py", EVALUATION)
    project.write("model.yml", "class: LineTrainer\n")
    started = []

    def start(*flags, **environ):
        started.append(Job(project.root, *flags, **environ))
        return started[-1]

    yield start
    for job in started:
        if job.process.poll() is None:
            job.process.kill()
            job.process.communicate()


def assert_same(job, reference):
    state, expected = (
        checkpoint.load(item.directory.last_checkpoint)["trainer"] for item in (job, reference)
    )
    for name, weight in expected["modules"].items():
        assert torch.equal(state["modules"][name], weight), name
    assert job.directory.metrics.read_text() == reference.directory.metrics.read_text()


@pytest.mark.parametrize("workers", [("0", "0", "0"), ("2", "0", "2")])
def test_run_that_is_killed_twice_ends_as_if_it_had_not_been_s5(start, workers):
    reference = start(root="reference")
    assert reference.end() == 0, reference.output
    for number, step in ((0, 7), (1, 17)):
        job = start(WORKERS=workers[number], PAUSE="0.02")
        job.wait_for_file(f"step {step}")
        job.send(signal.SIGKILL)
        assert job.end() == -signal.SIGKILL
    job = start(WORKERS=workers[2])
    assert job.end() == 0, job.output
    assert job.directory.read_status()["attempts"] == 3
    assert_same(job, reference)


def test_run_that_is_killed_while_it_writes_a_checkpoint_goes_on_s2(start):
    reference = start(root="reference")
    assert reference.end() == 0, reference.output
    job = start("--backup_every=1 iteration", PAUSE="0.02")
    job.wait_for_file("step 6")
    job.wait_for_file("experiments/*/checkpoints/.last.pt.*.tmp")
    job.send(signal.SIGKILL)
    assert job.end() == -signal.SIGKILL
    job = start("--backup_every=1 iteration")
    assert job.end() == 0, job.output
    assert_same(job, reference)
    assert not list(job.directory.checkpoints.glob(".*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signal_to_a_job_with_data_workers_ends_it_in_peace(start, number):
    job = start(WORKERS="2", PAUSE="0.05")
    job.wait_for_file("step 3")
    job.send(number, to_all=True)
    assert job.end() == 75, job.output
    assert "DataLoader worker" not in job.output, job.output
    assert f"preempted: stopped by a signal ({number.name})" in job.output
    assert checkpoint.load(job.directory.last_checkpoint)["clock"]["iterations"] >= 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signal_to_a_job_whose_evaluation_has_workers_ends_it_and_it_is_measured_again(
    start, number
):
    job = start("--evaluate_first=false", EVALUATION_WORKERS="2", SLOW_EVALUATION="1")
    job.wait_for_file("evaluating")
    job.send(number, to_all=True)
    # The workers may fall to it, which torch says, but not the run.
    assert job.end() == 75, job.output
    assert f"preempted: stopped by a signal ({number.name})" in job.output
    state = checkpoint.load(job.directory.last_checkpoint)
    assert state["clock"]["iterations"] == 4
    assert state["evaluations"]["states"]["Error"]["stored"] == {"num_begun": 0}
    assert state["schedules"]["evaluations"]["Error"]["next_at"] == 4


def test_second_signal_while_the_last_checkpoint_is_written_leaves_a_whole_one(start):
    # So large that writing it takes a while.
    job = start("--model.params.size=4000000", "--backup_every=1 hour", "--evaluate_first=false")
    job.wait_for_file("step 1")
    job.send(signal.SIGTERM)
    job.wait_for_file("experiments/*/checkpoints/.last.pt.*.tmp")
    job.send(signal.SIGTERM)
    assert job.end() == -signal.SIGTERM, job.output
    again = start("--model.params.size=4000000", "--backup_every=1 hour", "--evaluate_first=false")
    again.wait_for_file("step *")
    again.send(signal.SIGTERM)
    assert again.end() == 75, again.output
    assert checkpoint.load(again.directory.last_checkpoint)["clock"]["iterations"] >= 1
    assert not list(again.directory.checkpoints.glob(".*"))


def test_signal_while_torch_is_imported_ends_the_run_and_leaves_nothing(start):
    job = start()
    maps = Path(f"/proc/{job.process.pid}/maps")
    job.wait_for(lambda: "libtorch" in maps.read_text())
    job.send(signal.SIGTERM)
    assert job.end() == 75, job.output
    assert not job.root.exists()


def test_signal_that_somebody_swallows_before_training_ends_the_run_all_the_same(start, project):
    text = TRAINER.replace(
        "def initialize(self, size: int = 8):",
        """def initialize(self, size: int = 8):
            Path("step 0").touch()
            try:
                time.sleep(60)
            except BaseException:
                pass""",
    )
    project.write("modules/models/line.py", text)
    job = start()
    job.wait_for_file("step 0")
    job.send(signal.SIGTERM)
    assert job.end() == 75, job.output
    assert not job.root.exists()
