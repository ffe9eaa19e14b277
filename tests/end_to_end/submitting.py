"""What tests on a cluster share: a project, `jade submit` as a process, and what came of it."""

import csv
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import torch
import yaml

ROOT = Path(__file__).parents[2]
TRAIN = "import sys\nfrom jade.cli import train_main\nsys.exit(train_main())\n"
# Each step takes its time, until somebody is in a hurry.
TRAINER = """
    import os
    import time

    import torch

    from jade.trainer import Trainer


    class LineTrainer(Trainer):
        def initialize(self, lr: float = 0.1, pause: float = 0.0):
            self.net = self.instantiate_architecture("Net", n_out=1)
            self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
            self.train_loader = self.make_loader("train", 4, shuffle=True)
            self.pause = pause

        def train_step(self, data):
            if not os.path.exists(os.environ.get("GO", "nowhere")):
                time.sleep(self.pause)
            noise = 0.01 * torch.randn_like(data["y"])
            loss = ((self.net(data["x"]) - data["y"] + noise) ** 2).mean()
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
        def __init__(self, seed: int = 0, root: str = "."):
            generator = torch.Generator().manual_seed(seed)
            self.x = torch.randn(10, 2, generator=generator)
            self.y = self.x.sum(dim=1, keepdim=True)

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            return {"x": self.x[index], "y": self.y[index]}
"""
EVALUATION = """
    from jade.eval import DatasetEvaluation


    class SquaredError(DatasetEvaluation):
        def evaluate_batch(self, data):
            return (self.trainer.net(data["x"]) - data["y"]).square().squeeze(1)
"""

FIXED = [
    "--model_conf=model.yml",
    "--data_conf=data.yml",
    "--eval_conf=eval.yml",
    "--arch_impl=modules/architectures/small.py",
]
LRS = [0.01 * number for number in range(1, 9)]


class Project:
    """A user's project: files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path


def make_project(folder: Path) -> Project:
    project = Project(folder)
    project.write("modules/models/line.py", TRAINER)
    project.write("modules/architectures/small.py", ARCHITECTURE)
    project.write("modules/data/points.py", DATA)
    project.write("modules/eval/errors.py", EVALUATION)
    project.write("model.yml", "class: LineTrainer\n")
    project.write("data.yml", "train: {class: Points}\ntest: {class: Points, params: {seed: 1}}\n")
    project.write("eval.yml", "Error: {class: SquaredError, params: {evaluate_on: test}}\n")
    project.write("train.py", TRAIN)
    return project


def write_sweep(project: Project, name: str, *tokens: str, pause: float = 0.0) -> Path:
    """Write a grid of 16 points."""
    sweep = {
        "program": "train.py",
        "method": "grid",
        "metric": {"name": "Error", "goal": "minimize"},
        "command": ["${env}", "${interpreter}", "${program}", *FIXED, *tokens, "${args}"],
        "parameters": {
            "model.lr": {"values": LRS},
            "seed": {"values": [1, 2]},
            **({"model.pause": {"value": pause}} if pause else {}),
        },
    }
    return project.write(name, yaml.safe_dump(sweep))


def jade(project: Project, *arguments: str, **variables: str) -> str:
    """Run `jade` as on a login node, and return what it prints."""
    done = call(project, *arguments, **variables)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
    return done.stdout


def call(project: Project, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jade", *arguments],
        cwd=project.root,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def environment(**more: str) -> dict[str, str]:
    """Return the environment of this test, in which jobs find this JADE and this Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        **more,
    }


def submit(project: Project, *arguments: str, **variables: str) -> str:
    """Submit jobs of one core, and return the id of their array."""
    printed = jade(project, "submit", *arguments, "--mem=500M", **variables)
    return printed.split(": ")[1].split()[0]


def logs(project: Project) -> str:
    paths = sorted(project.root.glob("jobs/*/logs/*"))
    return "\n".join(f"{path.name}:\n{path.read_text()}" for path in paths)


def read_result(directory: Path) -> tuple[object, ...]:
    """Return what a run has learnt and measured, to the last bit."""
    state = torch.load(directory / "checkpoints" / "last.pt", weights_only=True)
    modules = state["trainer"]["modules"]
    weights = {name: value.numpy().tobytes() for name, value in modules.items()}
    with (directory / "metrics.csv").open() as file:
        rows = [(row["Error"], row["loss"]) for row in csv.DictReader(file)]
    return weights, rows


def results_by_point(runs: list[Path]) -> dict[tuple[float, int], tuple[object, ...]]:
    found = {}
    for run in runs:
        config = yaml.safe_load((run / "config.yml").read_text())
        point = (round(config["model"]["params"]["lr"], 6), config["seed"])
        assert point not in found, f"{run} repeats {point}"
        found[point] = read_result(run)
    return found


def statuses(runs: list[Path]) -> list[str]:
    return [json.loads((run / "status.json").read_text())["status"] for run in runs]


def list_runs(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("*/status.json"))
