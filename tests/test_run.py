"""A whole run from configuration to record: C14, C15, C18, K6, K7, K16, K17, R7 to R10, L8, L11."""

import contextlib
import json
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import yaml

import jade
from jade import checkpoint
from jade.cli import main
from jade.errors import ComponentError, ConfigError, DeviceError, NonFiniteLossError, TrainingError
from jade.loggers.base import Logger
from jade.run_dir import RunDir

ARCHITECTURES = "modules/architectures/small.py"


@pytest.fixture(autouse=True)
def interruptible():
    """Tests may be run in the background, where this signal is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def train(project):
    """Run the miniature project from Python."""

    def run(**settings):
        chosen = {
            "model": "model.yml",
            "data": "data.yml",
            "eval": "eval.yml",
            "arch_impl": ARCHITECTURES,
            "epochs": 2,
            "seed": 1,
            "wandb": "disabled",
            **settings,
        }
        return jade.train(show_progress=False, **chosen)

    return run


def trainer_with(project, body="", initialize="", step=""):
    """Write a trainer with a few lines of its own."""
    project.write(
        "modules/models/line.py",
        f"""
        import math
        import os
        import sys

        import torch
        from torch.utils.data import DataLoader

        from jade.trainer import Trainer


        class LineTrainer(Trainer):
            def initialize(self, lr: float = 0.1, batch_size: int = 4):
                self.net = self.instantiate_architecture("Net", n_out=1)
                self.opt = torch.optim.SGD(self.net.parameters(), lr=lr)
                self.train_loader = DataLoader(self.datasets["train"], batch_size=batch_size)
                {initialize}

            def train_step(self, data):
                loss = (self.net(data["x"]) - data["y"]).square().mean()
                {step}
                self.add_loss_item("loss", loss)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()

        {body}
        """,
    )


def evaluation_with(project, result):
    project.write(
        "modules/eval/errors.py",
        f"""
        import math

        from jade.eval import Evaluation


        class SquaredError(Evaluation):
            def initialize(self, evaluate_on):
                self.dataset = self.datasets[evaluate_on]

            def evaluate(self):
                return {result}
        """,
    )


def only_run(root="experiments"):
    [directory] = Path(root).iterdir()
    return RunDir(directory)


class Recorder(Logger):
    """Remembers every call."""

    def __init__(self):
        self.calls = []
        self.info = None
        self.summary = None

    def start(self, run):
        self.info = run
        self.calls.append("start")

    def log(self, metrics, step):
        self.calls.append(("log", step))

    def summarize(self, values):
        self.summary = dict(values)

    def mark_preempting(self):
        self.calls.append("preempting")

    def finish(self, exit_code):
        self.calls.append(("finish", exit_code))


# What a run leaves behind (L11)


def test_run_leaves_its_record_behind_l11(train):
    finished = train()
    directory = RunDir(finished.directory)
    assert {path.name for path in finished.directory.iterdir()} == {
        "config.yml",
        "config_expanded.yml",
        "provenance.json",
        "code",
        "metrics.csv",
        "evaluations",
        "checkpoints",
        "run.log",
        "status.json",
        "summary.json",
        "lock",
    }
    status = directory.read_status()
    assert (status["status"], status["reason"], status["exit_code"]) == (
        "finished",
        "2 epochs done",
        0,
    )
    assert (status["iterations"], status["epochs"]) == (6, 2)
    origin = json.loads(directory.provenance.read_text())
    assert origin["seed"] == 1
    assert {"git", "python", "packages", "cpu", "command", "hardware"} <= origin.keys()
    assert {path.name for path in directory.code.rglob("*.py")} == {
        "line.py",
        "small.py",
        "points.py",
        "errors.py",
    }


def test_summary_is_flat_with_metrics_under_their_own_names_l11(train):
    recorder = Recorder()
    finished = train(best_metric="Error", loggers=[recorder])
    summary = json.loads(RunDir(finished.directory).summary.read_text())
    assert summary == recorder.summary
    assert all(isinstance(value, (str, int, float)) for value in summary.values())
    last = finished.history()[-1]
    assert summary["Error"] == last["Error"] == finished.metrics["Error"]
    assert summary["loss"] == last["loss"]
    assert summary["best/Error"] == finished.best["value"] <= summary["Error"]
    assert summary["best/iteration"] == finished.best["iteration"]
    assert {key: value for key, value in summary.items() if key.startswith("run/")} == {
        "run/status": "finished",
        "run/reason": "2 epochs done",
        "run/iterations": 6,
        "run/epochs": 2,
        "run/seconds": summary["run/seconds"],
    }
    assert (summary["samples/train"], summary["samples/test"]) == (10, 10)
    assert (summary["parameters/trainable"], summary["parameters/fixed"]) == (3, 0)


def test_run_tells_sizes_device_seed_and_networks_k6_k17(train, caplog):
    with caplog.at_level(logging.INFO):
        directory = RunDir(train().directory)
    log = directory.log.read_text()
    for text in (
        "dataset train: Points, 10 samples",
        "dataset test: Points, 10 samples",
        "device cpu, seed 1",
        "network net (Net): 3 trainable parameters, 0 fixed",
        "finished: 2 epochs done",
    ):
        assert text in log
        assert text in caplog.text


def test_finished_run_offers_metrics_history_and_pictures(train, project):
    evaluation_with(project, "{'error': 1.5, 'text': 'hello'}")
    finished = train()
    assert finished.run_id == finished.directory.name
    assert finished.evaluations == {"Error": 1.5, "Error/error": 1.5}
    assert finished.metrics.keys() == {"loss", "Error", "Error/error"}
    assert [row["iteration"] for row in finished.history()] == [0, 3, 6]
    assert "loss" not in finished.history()[0]
    assert finished.pictures() == []
    assert finished.dataset_sizes == {"train": 10, "test": 10}
    assert finished.best is None
    assert finished.config["model"]["params"]["lr"] == 0.1
    assert finished.trainer.net.layer.weight.shape == (1, 2)


def test_pictures_are_listed_with_the_newest_of_each_evaluation(train, project):
    evaluation_with(project, "{'type': 'image', 'value': self.dataset.x.abs().clamp(0, 1)}")
    finished = train()
    assert [path.name for path in finished.pictures()] == ["00000006.png"]


@pytest.mark.slow
def test_figures_are_closed_once_they_are_written_l10(train, project):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    project.write(
        "modules/eval/errors.py",
        """
        from jade.eval import Evaluation


        class SquaredError(Evaluation):
            def initialize(self, evaluate_on):
                pass

            def evaluate(self):
                from matplotlib import pyplot

                figure = pyplot.figure(figsize=(1, 1))
                return {"type": "figure", "value": figure}
        """,
    )
    # More than 20 open figures would make matplotlib warn, and a warning is an error here.
    train(epochs=12, overrides={"eval.Error.evaluate_every": "1 iteration"})
    assert pyplot.get_fignums() == []


# One run knows nothing of another (C14), and can be repeated (C15, R8)


def surroundings():
    root, library = logging.getLogger(), logging.getLogger("jade")
    return {
        "handlers": [list(root.handlers), list(library.handlers)],
        "levels": [root.level, library.level],
        "signals": [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)],
        "environment": dict(os.environ),
        "files": sorted(str(p.readlink()) for p in Path("/proc/self/fd").iterdir() if p.exists()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "cwd": Path.cwd(),
    }


@pytest.mark.parametrize("outcome", ["finished", "failed", "refused"])
def test_run_leaves_the_process_as_it_was_c14(train, project, outcome):
    train(epochs=1)
    before, threads = surroundings(), set(threading.enumerate())
    if outcome == "finished":
        train()
    elif outcome == "failed":
        trainer_with(project, step="raise RuntimeError('a mistake')")
        with pytest.raises(RuntimeError, match="a mistake"):
            train()
    else:
        trainer_with(project, initialize="self.net = None; del self.train_loader")
        with pytest.raises(ComponentError, match=r"must set self.train_loader"):
            train()
    assert surroundings() == before
    for thread in set(threading.enumerate()) - threads:
        # It was told to end, and may need a moment for it.
        thread.join(5)
        assert not thread.is_alive(), thread.name


def test_runs_in_one_process_share_no_state_c14(train):
    def metrics(**settings):
        return RunDir(train(**settings).directory).metrics.read_bytes()

    first = metrics()
    other = metrics(seed=2, overrides={"model.params.lr": 0.5})
    assert metrics() == first != other


def test_configuration_given_by_the_user_is_not_changed_c14(train):
    model = {"class": "LineTrainer", "params": {"lr": 0.2}}
    data = {"train": {"class": "Points"}, "test": {"class": "Points"}}
    before = json.dumps([model, data])
    train(model=model, data=data, overrides={"model.params.lr": 0.3})
    assert json.dumps([model, data]) == before


def test_stored_configuration_repeats_the_run_byte_for_byte_c15(project, arguments, train):
    finished = train(seed=-1, log_loss_every="1 iteration", overrides={"model.params.lr": 0.05})
    config = RunDir(finished.directory).config
    assert main(["train", "--config", str(config), "--experiments_root=again"]) == 0
    again = only_run("again")
    assert again.metrics.read_bytes() == RunDir(finished.directory).metrics.read_bytes()
    # It is the same file but for the place it was sent to.
    changed = {**yaml.safe_load(config.read_text()), "experiments_root": "again"}
    assert yaml.safe_load(again.config.read_text()) == changed


@pytest.mark.parametrize("seed", [0, 7])
def test_seed_decides_everything_r8(train, seed):
    one, two = (RunDir(train(seed=seed).directory) for _ in range(2))
    assert one.metrics.read_bytes() == two.metrics.read_bytes()
    assert yaml.safe_load(one.config.read_text())["seed"] == seed


@pytest.mark.parametrize("seed", [None, -1])
def test_seed_that_is_drawn_is_recorded_r8(train, seed):
    one, two = (RunDir(train(seed=seed).directory) for _ in range(2))
    seeds = [yaml.safe_load(directory.config.read_text())["seed"] for directory in (one, two)]
    assert seeds[0] != seeds[1]
    assert f"seed {seeds[0]} was drawn" in one.log.read_text()
    repeated = RunDir(train(seed=seeds[0]).directory)
    assert repeated.metrics.read_bytes() == one.metrics.read_bytes()


def test_seed_that_is_none_is_refused_r8(train):
    with pytest.raises(ConfigError, match="seed must be"):
        train(seed=-5)
    assert not Path("experiments").exists()


@pytest.mark.slow
# A worker that runs no line of JADE makes the measurement of coverage warn.
@pytest.mark.filterwarnings("ignore:No data was collected")
def test_seed_reaches_the_workers_of_the_loader_r8(train, project):
    project.write(
        "modules/data/noise.py",
        """
        import random

        import numpy as np
        import torch
        from torch.utils.data import Dataset


        class Noise(Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, index):
                noise = [random.random(), np.random.rand()]
                return {"x": torch.tensor(noise).float() + torch.rand(2), "y": torch.ones(1)}
        """,
    )
    trainer_with(
        project,
        initialize="self.train_loader = DataLoader(self.datasets['train'], 4, num_workers=2)",
    )
    settings = {"data": {"train": {"class": "Noise"}}, "eval": None, "log_loss_every": 1}
    runs = [train(seed=seed, **settings).history() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_deterministic_algorithms_are_on_in_the_run_only_r8(train, project):
    trainer_with(project, step="assert torch.are_deterministic_algorithms_enabled()")
    train(deterministic=True)
    assert not torch.are_deterministic_algorithms_enabled()


def test_deterministic_algorithms_stay_on_where_they_were_r8(train):
    torch.set_deterministic_debug_mode("error")
    try:
        train(deterministic=True)
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_deterministic_debug_mode("default")


# Batches of any structure (K7)


@pytest.mark.parametrize(
    ("sample", "use"),
    [
        ("[x, y]", "x, y = data"),
        ("(x, y)", "x, y = data"),
        ("Pair(x, y)", "x, y = data.x, data.y; assert type(data).__name__ == 'Pair'"),
        (
            "{'in': {'x': x}, 'out': [y], 'name': 'p'}",
            "x, y = data['in']['x'], data['out'][0]; assert data['name'] == ['p'] * len(x)",
        ),
        ("(x.numpy(), y)", "x, y = data; assert isinstance(x, torch.Tensor)"),
    ],
)
def test_batch_of_any_structure_trains_with_the_default_collate_k7(train, project, sample, use):
    project.write(
        "modules/data/pairs.py",
        f"""
        from collections import namedtuple

        import torch
        from torch.utils.data import Dataset

        Pair = namedtuple("Pair", "x y")


        class Doubled:
            def __init__(self, factor: float):
                self.factor = factor

            def __call__(self, x):
                return self.factor * x


        class Chain:
            def __init__(self, transforms: list):
                self.transforms = transforms

            def __call__(self, x):
                for transform in self.transforms:
                    x = transform(x)
                return x


        class Pairs(Dataset):
            def __init__(self, transform=None):
                self.transform = transform

            def __len__(self):
                return 6

            def __getitem__(self, index):
                x = self.transform(torch.full((2,), float(index)))
                y = torch.ones(1)
                return {sample}
        """,
    )
    project.write(
        "modules/models/pair.py",
        f"""
        import torch
        from torch.utils.data import DataLoader

        from jade.trainer import Trainer


        class PairTrainer(Trainer):
            def initialize(self):
                self.train_loader = DataLoader(self.datasets["train"], batch_size=3)

            def train_step(self, data):
                {use}
                assert x.shape == (3, 2) and y.shape == (3, 1)
                self.add_loss_item("mean", x.mean())
        """,
    )
    transform = {
        "class": "Chain",
        "params": {"transforms": [{"class": "Doubled", "params": {"factor": f}} for f in (2, 5)]},
    }
    data = {"train": {"class": "Pairs", "params": {"transform": transform}}}
    finished = train(model={"class": "PairTrainer"}, data=data, eval=None, arch_impl=None, epochs=1)
    assert finished.metrics == {"mean": 25.0}


def test_trainer_and_evaluation_as_the_first_design_wrote_them_train_k1(train, project):
    project.write(
        "modules/models/old.py",
        """
        from torch.optim import Adam
        from torch.utils.data import DataLoader

        from jade.trainer import Trainer


        class OldTrainer(Trainer):
            def initialize(self, lr, batch_size, n_workers=0):
                self.net = self.instantiate_architecture('Net', n_out=1)
                self.opt = Adam([{'params': self.net.parameters(), 'lr': lr}])
                self.add_attribute_to_store('net')
                self.add_attribute_to_store('opt')
                self.train_loader = DataLoader(self.datasets['train'],
                                               batch_size=batch_size, num_workers=n_workers,
                                               shuffle=True)
                assert self.get_dataset('train') is self.datasets['train']
                assert 'test' in self.datasets and len(self.datasets) == 2

            def train_step(self, data):
                loss = self.compute_loss(data['x'].to(self.get_device()), data['y'])
                self.add_loss_item('Loss', loss.item())
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()

            def compute_loss(self, x, y):
                return (self.net(x) - y).square().mean()

            def on_iteration_end(self):
                super().on_iteration_end()
                if self.iterations == 5:
                    self.end_training()
        """,
    )
    project.write(
        "modules/eval/old.py",
        """
        import torch
        from torch.utils.data import DataLoader

        from jade.eval import Evaluation


        class OldEvaluation(Evaluation):
            def initialize(self, evaluate_on, batch_size=256):
                self.data_loader = DataLoader(self.datasets[evaluate_on], batch_size=batch_size)
                if not hasattr(self.trainer, 'compute_loss'):
                    raise Exception('The trainer must have a function compute_loss')

            def evaluate(self):
                self.trainer.eval()
                with torch.no_grad():
                    losses = [self.trainer.compute_loss(d['x'], d['y']) for d in self.data_loader]
                return {
                    'type': 'scalar',
                    'value': sum(losses) / len(losses),
                    'iteration': self.trainer.iterations
                }
        """,
    )
    finished = train(
        model={"class": "OldTrainer", "params": {"lr": 0.01, "batch_size": 4}},
        eval={"Old": {"class": "OldEvaluation", "params": {"evaluate_on": "test"}}},
        epochs=50,
    )
    assert finished.reason == "end_training was called"
    assert finished.trainer.iterations == 5
    assert [row["iteration"] for row in finished.history() if "Old" in row] == [0, 3, 5]


def test_evaluation_that_draws_when_it_is_built_does_not_change_training_k9(train, project):
    project.write(
        "modules/eval/drawing.py",
        """
        import torch

        from jade.eval import Evaluation


        class Drawing(Evaluation):
            def initialize(self):
                self.value = float(torch.rand(1))

            def evaluate(self):
                return self.value
        """,
    )
    drawing = {"class": "Drawing"}
    runs = [train(eval=names) for names in (None, {"A": drawing}, {"B": drawing, "A": drawing})]
    losses = [[row["loss"] for row in run.history() if "loss" in row] for run in runs]
    assert losses[0] == losses[1] == losses[2]
    assert runs[1].metrics["A"] == runs[2].metrics["A"] != runs[2].metrics["B"]


def test_dataset_that_nobody_asks_for_is_never_built_k6(train, project):
    project.write(
        "data.yml", "train: {class: Points}\ntest: {class: Points}\nmore: {class: Broken}\n"
    )
    assert train().dataset_sizes == {"train": 10, "test": 10}


# The part about loggers, L8


def test_loggers_of_the_configuration_and_of_the_caller_get_every_row_l8(train, project):
    project.write(
        "modules/loggers/lines.py",
        """
        from jade import Logger


        class Lines(Logger):
            def __init__(self, path: str):
                self.path = path

            def start(self, run):
                self.file = open(self.path, "w")

            def log(self, metrics, step):
                print(step, sorted(metrics), file=self.file)

            def finish(self, exit_code):
                self.file.close()
        """,
    )
    project.write(
        "all.yml", "loggers:\n  lines:\n    class: Lines\n    params: {path: lines.txt}\n"
    )
    recorder = Recorder()
    train(config=["all.yml"], loggers=[recorder], log_loss_every="3 iterations")
    assert (project.root / "lines.txt").read_text().splitlines() == [
        "0 ['Error', 'epoch']",
        "3 ['Error', 'epoch', 'loss']",
        "6 ['Error', 'epoch', 'loss']",
    ]
    assert recorder.calls == ["start", ("log", 0), ("log", 3), ("log", 6), ("finish", 0)]
    assert recorder.info.config["seed"] == 1
    assert recorder.info.config["model_conf"] == "model.yml"


@pytest.mark.slow
def test_runs_with_and_without_wandb_and_tensorboard_are_the_same_to_the_last_bit_l8(train):
    pytest.importorskip("wandb")
    pytest.importorskip("tensorboard")
    plain = train()
    logged = train(wandb="offline", tensorboard=True)
    metrics = [RunDir(run.directory).metrics.read_bytes() for run in (plain, logged)]
    assert metrics[0] == metrics[1]
    # W&B knows the run by the name of its directory.
    [offline] = (logged.directory / "wandb").glob("offline-run-*")
    assert offline.name.endswith(f"-{logged.run_id}")
    assert list((logged.directory / "tensorboard").iterdir())


def test_logger_that_draws_random_numbers_does_not_change_training_l8(train):
    class Drawing(Recorder):
        def start(self, run):
            torch.rand(3)

        def log(self, metrics, step):
            torch.rand(3)

    metrics = [
        RunDir(train(loggers=loggers).directory).metrics.read_bytes()
        for loggers in ([], [Drawing()])
    ]
    assert metrics[0] == metrics[1]


def test_logger_that_fails_does_not_stop_training(train, caplog):
    class Failing(Recorder):
        def log(self, metrics, step):
            raise OSError("the network is gone")

    assert train(loggers=[Failing()]).status == "finished"
    assert "Failing.log failed, training goes on" in caplog.text


def test_logger_that_refuses_the_configuration_leaves_no_run_behind(train):
    class Refusing(Recorder):
        def start(self, run):
            raise ConfigError("no such project")

    first = Recorder()
    with pytest.raises(ConfigError, match="no such project"):
        train(loggers=[first, Refusing()])
    assert first.calls == ["start", ("finish", 2)]
    assert list(Path("experiments").iterdir()) == []


@pytest.mark.parametrize(
    ("raised", "expected", "exit_code", "status"),
    [
        ("RuntimeError('a mistake')", RuntimeError, 1, "failed"),
        ("KeyboardInterrupt", KeyboardInterrupt, 130, "interrupted"),
        ("SystemExit(0)", TrainingError, 1, "failed"),
        ("MemoryError", MemoryError, 1, "failed"),
    ],
)
@pytest.mark.parametrize("place", ["train_step", "on_end", "evaluate"])
def test_loggers_are_finished_and_the_status_is_true_however_it_ends(
    train, project, place, raised, expected, exit_code, status
):
    if place == "train_step":
        trainer_with(project, step=f"raise {raised}")
    elif place == "on_end":
        trainer_with(project)
        with (project.root / "modules/models/line.py").open("a") as file:
            file.write(f"\n\n    def on_end(self):\n        raise {raised}\n")
    else:
        evaluation_with(project, "fail()")
        with (project.root / "modules/eval/errors.py").open("a") as file:
            file.write(f"\n\ndef fail():\n    raise {raised}\n")
    recorder = Recorder()
    with pytest.raises(expected):
        train(loggers=[recorder])
    assert recorder.calls[-1] == ("finish", exit_code)
    written = only_run().read_status()
    assert (written["status"], written["exit_code"]) == (status, exit_code)
    assert written["reason"].startswith(raised.partition("(")[0])


@pytest.mark.parametrize(
    ("number", "status", "exit_code"),
    [("SIGTERM", "preempted", 75), ("SIGUSR2", "preempted", 75), ("SIGINT", "interrupted", 130)],
)
def test_signal_ends_the_run_with_its_own_status_c18(train, project, number, status, exit_code):
    trainer_with(
        project,
        step=f"import signal; self.iterations == 3 and signal.raise_signal(signal.{number})",
    )
    recorder = Recorder()
    if status == "interrupted":
        # Whoever calls several runs in a row must not go on with the next one.
        with pytest.raises(KeyboardInterrupt, match="its state is in"):
            train(loggers=[recorder])
    else:
        finished = train(loggers=[recorder])
        assert (finished.status, finished.exit_code) == (status, exit_code)
    written = only_run().read_status()
    assert written["reason"] == f"stopped by a signal ({number})"
    assert (written["status"], written["exit_code"], written["iterations"]) == (
        status,
        exit_code,
        4,
    )
    # W&B is told of a preemption, which it answers with another start, and not of an interrupt.
    assert ("preempting" in recorder.calls) == (status == "preempted")
    assert recorder.calls[-1] == ("finish", exit_code)
    assert recorder.summary["run/status"] == status


def test_signal_while_loggers_start_is_not_lost_c18(train):
    class Slow(Recorder):
        def start(self, run):
            super().start(run)
            signal.raise_signal(signal.SIGTERM)

    finished = train(loggers=[Slow()])
    assert (finished.status, finished.trainer.iterations) == ("preempted", 0)


def test_interrupt_while_the_trainer_is_built_leaves_nothing_behind(train, project):
    trainer_with(project, initialize="raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        train()
    assert not Path("experiments").exists()


# What goes wrong (C18, K16)


def test_exit_code_of_a_finished_run_is_0_c18(project, arguments):
    assert main(arguments) == 0


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--device=cuda:7", "device (argument --device): 'cuda:7' is not available here"),
        ("--device=tpu!", "'tpu!' is no device"),
        (
            "--experiments_root=model.yml",
            "experiments_root (argument --experiments_root): model.yml",
        ),
        ("--experiments_root=model.yml/below", "is not a directory"),
        ("--experiments_root=/proc/none", "experiments_root: /proc/none cannot be written"),
        ("--stop_when=Error", "is not a test"),
        ("--train_for=5 frames", "'frames' is neither a unit nor a counter of LineTrainer"),
        ("--seed=-3", "seed must be"),
        ("--patience=0", "patience"),
    ],
)
def test_exit_code_of_a_wrong_setting_is_2_and_nothing_is_written_c18(
    project, arguments, capsys, flag, told
):
    flags = [*arguments, flag, "--best_metric=Error"]
    assert main(flags) == 2
    assert told in capsys.readouterr().err
    assert not Path("experiments").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"initialize": "del self.train_loader"},
            "LineTrainer.initialize must set self.train_load",
        ),
        ({"initialize": "self.instantiate_architecture('Nett')"}, "Did you mean 'Net'?"),
        (
            {"initialize": "self.instantiate_architecture('Net', out=1)"},
            "Net(n_out) in modules/architectures/small.py takes no 'out'",
        ),
        ({"initialize": "self.datasets['trian']"}, "There is no dataset 'trian'"),
        ({"initialize": "self.add_attribute_to_store('optt')"}, "Did you mean 'opt'?"),
        ({"initialize": "self.q = object(); self.add_attribute_to_store('q')"}, "cannot hold"),
        (
            {"initialize": "self.train_loader = DataLoader([], 4)"},
            "no batches (its dataset has 0 samples)",
        ),
    ],
)
def test_trainer_that_cannot_be_built_exits_2_and_nothing_is_written(
    project, arguments, capsys, change, told
):
    trainer_with(project, **change)
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert told in message
    assert "Traceback" not in message
    assert not Path("experiments").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"step": "loss = loss * math.nan"},
            "The loss item 'loss' is nan. It was after iteration 0",
        ),
        ({"step": "self.add_loss_item('v', data['x'])"}, "Did you forget .mean()?"),
        ({"step": "self.add_loss_item('Error', 1.0)"}, "Two things are logged under the name 'Err"),
        ({"step": "sys.exit(3)"}, "Something called sys.exit(3)."),
    ],
)
def test_training_that_cannot_go_on_exits_1_with_one_line(project, arguments, capsys, change, told):
    trainer_with(project, **change)
    assert main([*arguments, "--log_loss_every=1 iteration"]) == 1
    message = capsys.readouterr().err
    assert told in message
    assert "Traceback" not in message
    directory = only_run()
    assert directory.read_status()["status"] == "failed"
    assert told in directory.log.read_text() or "sys.exit" in told


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("[1, 2]", "The evaluation 'Error' returned a list"),
        (
            "{'type': 'image', 'value': [1]}",
            "What the evaluation 'Error' returned: Media: an image",
        ),
        (
            "self.require_trainer_method('predict')",
            "'Error' (SquaredError) needs a method 'predict'",
        ),
    ],
)
def test_evaluation_that_returns_nonsense_is_named(project, arguments, capsys, result, told):
    evaluation_with(project, result)
    assert main(arguments) in (1, 2)
    assert told in capsys.readouterr().err
    assert only_run().read_status()["status"] == "failed"


@pytest.mark.parametrize(
    ("place", "change", "line"),
    [
        ("initialize", {"initialize": "len(5)"}, "len(5)"),
        ("train_step", {"step": "loss + 'text'"}, "loss + 'text'"),
    ],
)
def test_mistake_of_the_user_keeps_its_traceback_and_is_on_record_k16(
    project, arguments, capsys, place, change, line
):
    trainer_with(project, **change)
    assert main(arguments) == 1
    message = capsys.readouterr().err
    files = re.findall(r'File "(.*?)", line', message)
    assert files[0].endswith("modules/models/line.py")
    assert f"in {place}" in message
    assert line in message
    assert "TypeError" in message.splitlines()[-1]
    directory = only_run()
    status = directory.read_status()
    assert (status["status"], status["exit_code"]) == ("failed", 1)
    assert status["reason"].startswith("TypeError: ")
    log = directory.log.read_text()
    assert "Traceback (most recent call last)" in log
    assert line in log
    # The console got the traceback once, and not once more from the log.
    assert message.count("Traceback") == 1


def test_dataset_without_length_is_explained_behind_the_traceback_t8(project, arguments, capsys):
    source = (project.root / "modules/data/points.py").read_text()
    project.write("modules/data/points.py", source.replace("def __len__", "def size"))
    assert main(arguments) == 1
    assert "hint: Points needs a method __len__(self)" in capsys.readouterr().err


def test_dataset_without_samples_is_explained_behind_the_traceback(project, arguments, capsys):
    assert main([*arguments, "--data.train.params.n=0"]) == 1
    assert "hint: The dataset has no samples" in capsys.readouterr().err


def test_metric_that_never_came_fails_the_run_at_its_end_t34(project, arguments, capsys):
    assert main([*arguments, "--stop_when=Eror < 1"]) == 1
    assert "stop_when: 'Eror' was never logged. Did you mean 'Error'?" in capsys.readouterr().err
    directory = only_run()
    assert directory.read_status()["iterations"] == 6
    assert checkpoint.load(directory.last_checkpoint)["clock"]["epochs"] == 2


def test_nan_keeps_the_last_good_state_and_fails_the_run(train, project):
    trainer_with(project, step="loss = loss * (math.nan if self.iterations == 4 else 1)")
    with pytest.raises(NonFiniteLossError, match=r"after iteration 4; last.pt holds that state"):
        train(log_loss_every="1 iteration")
    directory = only_run()
    assert checkpoint.load(directory.last_checkpoint)["clock"]["iterations"] == 4
    assert directory.read_status()["iterations"] == 4
    assert directory.metrics.read_text().splitlines()[-1].startswith("4,")


def test_failure_that_cannot_be_recorded_is_raised_all_the_same(train, project, caplog):
    trainer_with(project, initialize="raise RuntimeError('a mistake')")
    with pytest.raises(RuntimeError, match="a mistake"):
        train(experiments_root="/proc/none")
    assert "The failure is not on record: experiments_root" in caplog.text


def test_attribute_that_becomes_unstorable_is_an_error_that_names_it(train, project):
    trainer_with(
        project,
        initialize="self.memory = 0; self.add_attribute_to_store('memory')",
        step="self.memory = object()",
    )
    with pytest.raises(jade.CheckpointError, match=r"LineTrainer\.memory is a object, which"):
        train(checkpoint_every="1 iteration")
    assert only_run().read_status()["iterations"] == 1


def test_evaluation_that_cannot_be_written_is_told_and_training_goes_on(train, project, caplog):
    evaluation_with(project, "'some text'")
    trainer_with(
        project,
        body="",
        step="import shutil, glob; [shutil.rmtree(f) or open(f, 'w').close() "
        "for f in glob.glob('experiments/*/evaluations') if os.path.isdir(f)]",
    )
    finished = train()
    assert finished.status == "finished"
    assert "What Error shows cannot be written" in caplog.text


def test_status_that_cannot_be_written_is_told(train, project, caplog):
    trainer_with(
        project,
        step="path = os.path.join('experiments', os.listdir('experiments')[0], 'status.json'); "
        "os.path.isfile(path) and (os.remove(path), os.makedirs(path + '/x'))",
    )
    assert train().status == "finished"
    assert "The status of the run is not on record" in caplog.text


def test_directory_of_the_run_is_named_by_its_wandb_id(train, monkeypatch):
    monkeypatch.setenv("WANDB_RUN_ID", "abc123")
    recorder = Recorder()
    finished = train(loggers=[recorder])
    assert finished.run_id == recorder.info.run_id == "abc123"
    with pytest.raises(ConfigError, match="abc123 exists already"):
        train()
    assert [path.name for path in Path("experiments").iterdir()] == ["abc123"]


# A disk without room


@contextlib.contextmanager
def full_disk(limit):
    """Let no file grow beyond ``limit`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_does_not_stop_training_but_a_lost_result_fails_the_run(train, project, caplog):
    trainer_with(project, initialize="self.large = torch.nn.Linear(300, 300)")
    with (
        full_disk(100_000),
        pytest.raises(jade.CheckpointError, match=r"last\.pt cannot be written"),
    ):
        train(checkpoint_every="1 iteration", log_loss_every="1 iteration")
    directory = only_run()
    assert caplog.text.count("cannot be written: File too large. The previous checkpoint") == 1
    assert len(directory.metrics.read_text().splitlines()) == 1 + 7
    assert directory.read_status()["status"] == "failed"
    assert list(directory.checkpoints.iterdir()) == []


def test_full_disk_that_has_room_again_at_the_end_is_a_finished_run(train, project, caplog):
    trainer_with(
        project,
        initialize="self.large = torch.nn.Linear(300, 300)",
        step="import resource; s, h = resource.getrlimit(resource.RLIMIT_FSIZE); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (h if self.iterations > 3 else s, h))",
    )
    with full_disk(100_000):
        finished = train(checkpoint_every="1 iteration")
    assert finished.status == "finished"
    names = {path.name for path in RunDir(finished.directory).checkpoints.iterdir()}
    # The one before may have been tried again in time.
    assert names - {"checkpoint_4.pt"} == {"checkpoint_5.pt", "checkpoint_6.pt", "last.pt"}
    assert caplog.text.count("The previous checkpoint stays") == 1
    assert "is written, after" in caplog.text


# A rehearsal (R9), progress (R10), the Python entry


def test_dry_run_does_one_batch_of_everything_and_leaves_nothing_r9(project, arguments, capsys):
    assert main([*arguments, "--dry_run", "--epochs=500", "--log_loss_every=1 iteration"]) == 0
    out = capsys.readouterr().out
    assert "finished: 1 iteration done" in out
    assert "Error" in out
    assert not Path("experiments").exists()


def test_dry_run_finds_mistakes_of_every_part_r9(train, project):
    evaluation_with(project, "'x' if self.trainer.iterations else 1.0")
    with pytest.raises(TrainingError, match="best_metric: 'Error' does not log 'Error/a'"):
        train(dry_run=True, best_metric="Error/a")
    trainer_with(project, step="raise RuntimeError('a mistake')")
    with pytest.raises(RuntimeError, match="a mistake"):
        train(dry_run=True)
    assert not Path("experiments").exists()


def test_dry_run_evaluates_one_batch_r9(train, project):
    project.write(
        "modules/eval/errors.py",
        """
        from jade.eval import DatasetEvaluation


        class SquaredError(DatasetEvaluation):
            def evaluate_batch(self, data):
                return {"n": 1.0 * len(data["x"])}
        """,
    )
    overrides = {"eval.Error.params.batch_size": 3}
    assert train(dry_run=True, overrides=overrides).metrics["Error/n"] == 3.0
    assert train(overrides=overrides).metrics["Error/n"] == pytest.approx((9 + 9 + 9 + 1) / 10)


def test_progress_is_plain_lines_where_there_is_no_terminal_r10(
    project, arguments, capsys, monkeypatch
):
    monkeypatch.delenv("JADE_PROGRESS")
    assert main([*arguments, "--run_name=my run"]) == 0
    streams = capsys.readouterr()
    assert "my run: 100%, epoch 2/2, it 6" in streams.err
    assert "\x1b" not in streams.err + streams.out
    assert "my run" not in streams.out


def test_train_takes_files_mappings_paths_and_overrides(project, train):
    finished = train(
        model={"class": "LineTrainer"},
        data=project.root / "data.yml",
        arch_impl=project.root / ARCHITECTURES,
        modules=[project.root / "modules"],
        overrides={"model.params.lr": 0.5, "data.train.params": {"n": 6}},
    )
    assert finished.config["model"]["params"]["lr"] == 0.5
    assert finished.dataset_sizes["train"] == 6


def test_train_refuses_an_unknown_setting_with_a_suggestion(train):
    with pytest.raises(ConfigError, match=r"train\(\) takes no 'epoch'. Did you mean 'epochs'\?"):
        train(epoch=3)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"overrides": ["epochs=1"]}, "overrides=.*takes a mapping, not"),
        ({"model": 3}, "train.model=.*takes a mapping or the path of a file, not 3"),
        ({"epohs": 3, "sede": 1}, "(?s)2 problems.*takes no 'epohs'.*takes no 'sede'"),
    ],
)
def test_train_from_python_says_what_it_takes(train, given, told):
    with pytest.raises(ConfigError, match=told):
        train(**given)


def test_train_on_a_device_that_is_not_there_raises_for_python(train):
    with pytest.raises(DeviceError, match="cuda:9"):
        train(device="cuda:9")


def test_train_records_the_command_that_it_was_called_by(train, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["notebook", "--token=abc"])
    origin = json.loads(RunDir(train().directory).provenance.read_text())
    assert origin["command"] == ["notebook", "--token=***"]


def test_warnings_and_notices_of_the_configuration_are_in_the_log(train, project):
    project.write(
        "all.yml", "epochs: 1\nmodel: {class: LineTrainer, strict: false, params: {x: 1}}\n"
    )
    log = RunDir(train(config=["all.yml"], model=None).directory).log.read_text()
    assert re.search(r"WARNING .*dropped", log)
    assert re.search(r"INFO .*epochs", log)


def test_configuration_written_down_finds_modules_that_stood_elsewhere_c15(
    project, arguments, tmp_path, monkeypatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    moved = [flag.replace("=model.yml", "=../project/model.yml") for flag in arguments]
    moved = [flag.replace("=data.yml", "=../project/data.yml") for flag in moved]
    moved = [flag.replace("=eval.yml", "=../project/eval.yml") for flag in moved]
    moved = [flag.replace("=modules/", "=../project/modules/") for flag in moved]
    assert main(moved) == 0
    first = only_run().root
    assert main(["train", f"--config={first / 'config.yml'}"]) == 0
    runs = sorted((elsewhere / "experiments").iterdir())
    assert len(runs) == 2
    assert (
        runs[0].joinpath("metrics.csv").read_text() == runs[1].joinpath("metrics.csv").read_text()
    )


def test_env_file_reaches_user_code_of_a_run_from_python_only_while_it_lasts(train, project):
    project.write(".env", "MY_SETTING=from-file\n")
    trainer_with(project, step="import os; assert os.environ['MY_SETTING'] == 'from-file'")
    train()
    assert "MY_SETTING" not in os.environ


def test_summary_with_nan_is_valid_json(train, project):
    evaluation_with(project, "float('nan')")
    train()

    def refuse(constant):
        raise AssertionError(constant)

    summary = json.loads((only_run().root / "summary.json").read_text(), parse_constant=refuse)
    assert summary["Error"] == "nan"


def test_deterministic_run_leaves_flags_and_variables_as_they_were_r8(train, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    before = dict(os.environ)
    train(deterministic=True)
    assert torch.backends.cudnn.benchmark
    assert dict(os.environ) == before


def test_array_as_a_default_is_no_obstacle(train, project):
    source = (project.root / "modules/models/line.py").read_text()
    changed = source.replace("lr: float = 0.1", "lr: float = 0.1, weights=torch.ones(3)")
    assert changed != source
    (project.root / "modules/models/line.py").write_text(changed)
    assert train().status == "finished"


def test_warning_is_shown_where_nobody_set_up_logging(project):
    code = (
        "import jade; jade.train({'class': 'LineTrainer', 'strict': False, 'params': {'x': 1}}, "
        "'data.yml', arch_impl='modules/architectures/small.py', epochs=0, wandb='disabled')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "has no 'x'" in result.stderr
