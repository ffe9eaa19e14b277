"""Fixtures that every test can use: a clean environment and a miniature project of a user."""

import contextlib
import itertools
import os
import random
import signal
import textwrap
from pathlib import Path

import pytest
import torch
from slurm_fixtures import cluster, started_cluster
from wandb_fixtures import wandb_online, wandb_server

__all__ = ["cluster", "started_cluster", "wandb_online", "wandb_server"]
# In the background of a script SIGINT is ignored, and SIGHUP after nohup: all that tests start would
# ignore them, too.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        with contextlib.suppress(ValueError):
            signal.signal(number, usual)

ROOT = Path(__file__).parent.parent
# Variables that would change what a run does.
MEANINGFUL = ("WANDB_", "DEVICE", "EXPERIMENTS_ROOT", "DATA_ROOT", "NUM_WORKERS", "JADE_", "SLURM_")


def pytest_collection_modifyitems(config, items):
    """Let each of several processes begin with its share of what takes long.

    They get equal parts of the list; what takes minutes and came last would be waited for.
    """
    num_parts = getattr(config, "workerinput", {}).get("workercount", 1)
    if num_parts == 1:
        return
    short = [item for item in items if not _takes_long(item)]
    groups: dict[object, list[pytest.Item]] = {}
    for item in items:
        if _takes_long(item):
            groups.setdefault(_shared_by(item), []).append(item)
    long = list(groups.values())
    parts = [list(itertools.chain(*long[number::num_parts])) for number in range(num_parts)]
    for part in parts:
        room = -(-len(items) // num_parts) - len(part)
        part += short[:room]
        del short[:room]
    items[:] = [item for part in parts for item in part]


def _takes_long(item):
    return "end_to_end" in item.path.parts or item.get_closest_marker("slow") is not None


def _shared_by(item):
    """Return what a test shares with others of its file: each process would make it once more."""
    found = item._fixtureinfo.name2fixturedefs
    asked = (name for name in item._fixtureinfo.argnames if name in found)
    return next(((item.path, n) for n in asked if found[n][-1].scope == "module"), item.nodeid)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """Take away what the machine's environment says, and let nothing reach a network."""
    for name in list(os.environ):
        if name.startswith(MEANINGFUL):
            monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("JADE_PROGRESS", "off")


@pytest.fixture(autouse=True)
def seeded():
    """Start every test from the same random numbers, on one thread."""
    torch.set_num_threads(1)
    random.seed(0)
    torch.manual_seed(0)


class Project:
    """A user's project: files below a folder, and a configuration that runs in a moment."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path


TRAINER = """
    import torch
    from torch.utils.data import DataLoader

    from jade.trainer import Trainer


    class LineTrainer(Trainer):
        def initialize(self, lr: float = 0.1, batch_size: int = 4, shuffle: bool = True):
            self.net = self.instantiate_architecture("Net", n_out=1)
            self.opt = torch.optim.SGD(self.net.parameters(), lr=lr)
            self.train_loader = DataLoader(
                self.datasets["train"], batch_size=batch_size, shuffle=shuffle
            )

        def train_step(self, data):
            loss = ((self.net(data["x"]) - data["y"]) ** 2).mean()
            self.add_loss_item("loss", loss)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
"""
ARCHITECTURE = """
    from torch import nn


    class Net(nn.Module):
        def __init__(self, n_out):
            super().__init__()
            self.layer = nn.Linear(2, n_out)

        def forward(self, x):
            return self.layer(x)
"""
DATA = """
    import torch
    from torch.utils.data import Dataset


    class Points(Dataset):
        def __init__(self, n: int = 10, seed: int = 0):
            generator = torch.Generator().manual_seed(seed)
            self.x = torch.randn(n, 2, generator=generator)
            self.y = self.x.sum(dim=1, keepdim=True)

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            return {"x": self.x[index], "y": self.y[index]}


    class Broken(Dataset):
        def __init__(self):
            raise RuntimeError("this dataset must never be built")
"""
EVALUATION = """
    from jade.eval import DatasetEvaluation


    class SquaredError(DatasetEvaluation):
        def evaluate_batch(self, data):
            return (self.trainer.net(data["x"]) - data["y"]).square().squeeze(1)
"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    """A small project in the working directory, whose parts tests may replace."""
    made = Project(tmp_path / "project")
    made.write("modules/models/line.py", TRAINER)
    made.write("modules/architectures/small.py", ARCHITECTURE)
    made.write("modules/data/points.py", DATA)
    made.write("modules/eval/errors.py", EVALUATION)
    made.write("model.yml", "class: LineTrainer\nparams:\n  lr: 0.1\n  batch_size: 4\n")
    made.write(
        "data.yml", "train:\n  class: Points\ntest:\n  class: Points\n  params:\n    seed: 1\n"
    )
    made.write("eval.yml", "Error:\n  class: SquaredError\n  params:\n    evaluate_on: test\n")
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def arguments() -> list[str]:
    """The command line that runs the project of the ``project`` fixture."""
    return [
        "train",
        "--model_conf=model.yml",
        "--data_conf=data.yml",
        "--eval_conf=eval.yml",
        "--arch_impl=modules/architectures/small.py",
        "--epochs=2",
        "--seed=1",
        "--wandb=disabled",
    ]


@pytest.fixture
def trained(project, arguments):
    """Train the project with more arguments, and return the run directory."""

    from jade.cli import main

    def train(*more):
        before = set((project.root / "experiments").glob("*"))
        assert main([*arguments, *more]) == 0
        (made,) = set((project.root / "experiments").glob("*")) - before
        return made

    return train
