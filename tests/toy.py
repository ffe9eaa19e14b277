"""A trainer and its loop in a few lines, for tests that need no configuration file."""

import csv
import threading
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from jade.assemble import Datasets
from jade.eval import Evaluation
from jade.loggers.base import LoggerGroup
from jade.loggers.csv_logger import CsvLogger
from jade.loop import Ending, TrainingLoop
from jade.loss_window import LossWindow
from jade.plan import make_plan
from jade.run_dir import RunDir
from jade.seeding import seed_everything
from jade.settings import Settings
from jade.trainer import Trainer


def points(num_samples: int) -> TensorDataset:
    x = torch.randn(num_samples, 2, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, x.sum(dim=1, keepdim=True))


class Toy(Trainer):
    """Fits a plane to ten points, five at a time: two iterations are an epoch."""

    def initialize(self, lr=0.1, num_samples=10, batch_size=5, shuffle=True):
        self.net = nn.Linear(2, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=lr)
        self.train_loader = DataLoader(points(num_samples), batch_size, shuffle=shuffle)

    def train_step(self, data):
        x, y = data
        loss = (self.net(x) - y).square().mean()
        self.add_loss_item("loss", loss)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


class Constant(Evaluation):
    """Returns what it is given, and remembers the iterations at which it was asked."""

    def initialize(self, result=1.0):
        self.result = result
        self.asked_at = []

    def evaluate(self):
        self.asked_at.append(self.trainer.iterations)
        return self.result(self) if callable(self.result) else self.result


@dataclass
class Outcome:
    trainer: Trainer
    directory: RunDir
    ending: Ending
    evaluations: dict[str, Evaluation]
    loop: TrainingLoop

    @property
    def rows(self) -> list[dict[str, float]]:
        return read_rows(self.directory)

    @property
    def weights(self) -> torch.Tensor:
        return torch.cat([parameter.detach().ravel() for parameter in self.trainer.parameters()])


def read_rows(directory: RunDir) -> list[dict[str, float]]:
    if not directory.metrics.exists():
        return []
    with directory.metrics.open(newline="") as file:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]


def build(kind: type[Trainer], **params) -> Trainer:
    trainer = kind()
    trainer.initialize(**params)
    return trainer


class Rehearsal:
    """Everything up to the start of a training, so that a test can take part in it."""

    def __init__(
        self, folder, kind=Toy, params=None, evaluations=None, every=None, loggers=(), **settings
    ):
        seed_everything(settings.get("seed", 0))
        known = Settings(**{"log_loss_every": "1 iteration", "wandb": "disabled", **settings})
        self.trainer = build(kind, **(params or {}))
        self.trainer._losses = LossWindow(stop_on_nan=known.stop_on_nan)
        self.evaluations = {}
        for name, (evaluation, arguments) in (evaluations or {}).items():
            self.evaluations[name] = evaluation(name, self.trainer, Datasets({}, 0))
            self.evaluations[name].initialize(**arguments)
        evaluate_every = {name: (every or {}).get(name, 1) for name in self.evaluations}
        plan = make_plan(
            self.trainer, self.evaluations, known, evaluate_every, settings.get("seed", 0)
        )
        self.directory = RunDir.create(folder)
        csv_logger = CsvLogger(self.directory.metrics)
        csv_logger._open(self.directory.metrics)
        self.loggers = LoggerGroup([csv_logger, *loggers])
        self.loop = TrainingLoop(plan, self.directory, self.loggers, shields_rng=bool(loggers))

    def run(self) -> Outcome:
        try:
            ending = self.loop.run()
        finally:
            self.loggers.finish(0)
            left = [t.name for t in threading.enumerate() if t.name.startswith("jade")]
            assert left == []
        return Outcome(self.trainer, self.directory, ending, self.evaluations, self.loop)


def run(folder, kind=Toy, **arguments) -> Outcome:
    """Train without a configuration file."""
    return Rehearsal(folder, kind, **arguments).run()
