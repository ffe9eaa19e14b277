"""S2, S5, S7: a run that is stopped anywhere goes on to exactly the result it would have had."""

import json
import logging
import random
import shutil
from pathlib import Path

import pytest
import torch

import jade
from jade import checkpoint
from jade.cli import main
from jade.errors import CheckpointError, ConfigError, RunInUseError
from jade.left_run import load_left
from jade.lock import RunLock
from jade.run_dir import RunDir

# Everything that could go wrong on the way: dropout, two optimizers, a scheduler, a counter, an
# average of weights, noise in the dataset, an evaluation that draws and one that remembers.
TRAINER = """
    import os
    import random

    import torch
    from torch.utils.data import DataLoader

    from jade.trainer import Trainer


    class LineTrainer(Trainer):
        def initialize(self, num_workers: int = 0, lr: float = 0.05):
            self.net = torch.nn.Sequential(
                torch.nn.Linear(2, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
            )
            self.extra = torch.nn.Linear(2, 1)
            self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
            self.other = torch.optim.SGD(self.extra.parameters(), lr=0.01, momentum=0.9)
            self.scheduler = torch.optim.lr_scheduler.StepLR(self.opt, step_size=3, gamma=0.5)
            self.generator = torch.Generator().manual_seed(4)
            self.average = torch.zeros(2)
            self.seen = 0
            self.add_attribute_to_store("average")
            self.add_attribute_to_store("seen")
            self.train_loader = DataLoader(
                self.datasets["train"], batch_size=4, shuffle=True, num_workers=num_workers,
                persistent_workers=num_workers > 1,
            )

        def train_step(self, data):
            noise = torch.randn((), generator=self.generator) * 0.01 + random.random() * 0.01
            loss = (self.net(data["x"]) + self.extra(data["x"]) - data["y"] + noise).square().mean()
            self.add_loss_item("loss", loss)
            self.opt.zero_grad()
            self.other.zero_grad()
            loss.backward()
            self.opt.step()
            self.other.step()
            self.average = 0.9 * self.average + 0.1 * data["x"].mean(dim=0)
            self.seen += len(data["x"])
            if os.environ.get("STOP_AT") == str(self.iterations + 1):
                self.loop.request_stop()

        def on_epoch_end(self):
            self.scheduler.step()

        def on_start(self):
            # What a test needs to stop a run at will.
            self.loop = self._wake.__self__
"""
DATA = """
    import numpy as np
    import torch
    from torch.utils.data import Dataset


    class Points(Dataset):
        def __init__(self, n: int = 18, seed: int = 0):
            generator = torch.Generator().manual_seed(seed)
            self.x = torch.randn(n, 2, generator=generator)
            self.y = self.x.sum(dim=1, keepdim=True)
            self.own = np.random.default_rng(seed)

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            noise = torch.randn(2) * 0.1 + np.random.randn() * 0.1 + self.own.normal() * 0.1
            return {"x": (self.x[index] + noise).float(), "y": self.y[index]}
"""
EVALUATION = """
    import random

    import torch

    from jade.eval import DatasetEvaluation, Evaluation


    class SquaredError(DatasetEvaluation):
        def evaluate_batch(self, data):
            return (self.trainer.net(data["x"]) - data["y"]).square().squeeze(1)


    class Remembering(Evaluation):
        def initialize(self):
            self.values = []
            self.generator = random.Random(3)
            self.add_attribute_to_store("values")

        def evaluate(self):
            weight = float(self.trainer.extra.weight.sum())
            self.values.append(weight + torch.rand(()).item() + self.generator.random())
            return sum(self.values)
"""


@pytest.fixture
def full_project(project):
    project.write("modules/models/line.py", TRAINER)
    project.write("modules/data/points.py", DATA)
    project.write("modules/eval/errors.py", EVALUATION)
    project.write("model.yml", "class: LineTrainer\nparams: {num_workers: 0}\n")
    project.write(
        "eval.yml",
        "Error: {class: SquaredError, evaluate_every: 3 iterations, params: {evaluate_on: train}}\n"
        "Memory: {class: Remembering}\n",
    )
    return project


def train(**settings):
    chosen = {
        "model": "model.yml",
        "data": "data.yml",
        "eval": "eval.yml",
        "epochs": 3,
        "seed": 1,
        "wandb": "disabled",
        "log_loss_every": "2 iterations",
        "best_metric": "Error",
        "show_progress": False,
        **settings,
    }
    return jade.train(**chosen)


def result(directory):
    """Return what a run has come to: its last state, without the clock, and its log."""
    state = checkpoint.load(RunDir(Path(directory)).last_checkpoint)
    return state, RunDir(Path(directory)).metrics.read_bytes()


def assert_same(directory, reference):
    state, log = result(directory)
    expected, expected_log = result(reference)
    assert log.decode() == expected_log.decode()
    for key in ("trainer", "schedules", "evaluations", "best", "journal", "rng", "datasets"):
        assert is_same(state[key], expected[key]), key


def is_same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and bool((one == other) if one == one else other != other)


@pytest.fixture
def stopped_at(monkeypatch):
    """Train until a request to stop at an iteration."""

    def run(iteration, **settings):
        monkeypatch.setenv("STOP_AT", str(iteration))
        finished = train(**settings)
        monkeypatch.delenv("STOP_AT")
        assert finished.exit_code == 75
        return finished.directory

    return run


@pytest.mark.parametrize("iteration", [1, 2, 4, 5, 6, 9, 14])
def test_run_that_was_stopped_ends_as_if_it_had_not_been_s5(full_project, stopped_at, iteration):
    reference = train()
    directory = stopped_at(iteration)
    finished = jade.resume(directory, show_progress=False)
    assert (finished.status, finished.exit_code) == ("finished", 0)
    assert finished.directory == directory.resolve()
    assert_same(directory, reference.directory)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (1, 2), (2, 2)])
def test_run_goes_on_with_another_number_of_workers_s5(full_project, stopped_at, before, after):
    reference = train()
    directory = stopped_at(7, overrides={"model.num_workers": before})
    jade.resume(directory, overrides={"model.num_workers": after}, show_progress=False)
    assert_same(directory, reference.directory)


PROBE = """
    import torch

    from jade.eval import Evaluation


    class Probe(Evaluation):
        def initialize(self):
            self.head = torch.nn.Linear(2, 1)
            self.opt = torch.optim.SGD(self.head.parameters(), lr=0.01, momentum=0.9)

        def evaluate(self):
            with torch.enable_grad():
                loss = (self.head(torch.ones(1, 2)) - self.trainer.extra.weight.sum()).square()
                self.opt.zero_grad()
                loss.mean().backward()
                self.opt.step()
            return loss.item()
"""


def test_probe_that_an_evaluation_trains_goes_on_where_it_was(full_project, stopped_at):
    full_project.write("modules/eval/probe.py", PROBE)
    full_project.write("probe.yml", "Probe: {class: Probe, evaluate_every: 2 iterations}\n")
    reference = train(eval="probe.yml", best_metric="Probe")
    directory = stopped_at(5, eval="probe.yml", best_metric="Probe")
    jade.resume(directory, show_progress=False)
    assert_same(directory, reference.directory)


def test_run_that_was_stopped_again_and_again_ends_the_same(full_project, stopped_at, monkeypatch):
    reference = train()
    directory = stopped_at(2)
    for iteration in (3, 7, 8, 13):
        monkeypatch.setenv("STOP_AT", str(iteration))
        assert jade.resume(directory, show_progress=False).exit_code == 75
    monkeypatch.delenv("STOP_AT")
    jade.resume(directory, show_progress=False)
    assert_same(directory, reference.directory)
    assert json.loads((directory / "status.json").read_text())["attempts"] == 6


@pytest.mark.parametrize("kept", ["checkpoint_5.pt", "best.pt", "former.pt"])
def test_run_goes_on_from_any_checkpoint_that_is_left(full_project, kept):
    settings = {"checkpoint_every": "5 iterations", "backup_every": "4 iterations"}
    reference = train(**settings)
    finished = train(**settings)
    for path in (finished.directory / "checkpoints").iterdir():
        if path.name != kept:
            path.unlink()
    status = finished.directory / "status.json"
    status.write_text(status.read_text().replace('"finished"', '"running"'))
    jade.resume(finished.directory, show_progress=False)
    assert_same(finished.directory, reference.directory)


def test_run_without_a_checkpoint_starts_again(full_project):
    reference = train()
    finished = train()
    shutil.rmtree(finished.directory / "checkpoints")
    (finished.directory / "checkpoints").mkdir()
    status = finished.directory / "status.json"
    status.write_text(status.read_text().replace('"finished"', '"running"'))
    jade.resume(finished.directory, show_progress=False)
    assert_same(finished.directory, reference.directory)


def test_log_that_was_cut_in_the_middle_of_a_row_is_repaired(full_project, stopped_at):
    reference = train()
    directory = stopped_at(8)
    log = directory / "metrics.csv"
    log.write_bytes(log.read_bytes() + b"9,1,0.12345\n10,1,0.7")
    jade.resume(directory, show_progress=False)
    assert log.read_bytes() == RunDir(reference.directory).metrics.read_bytes()


# How long


def test_total_amount_is_trained_in_all_s7(full_project):
    reference = train(epochs=3)
    finished = train(epochs=2)
    more = jade.resume(finished.directory, total="3 epochs", show_progress=False)
    assert (more.trainer.epochs, more.reason) == (3, "3 epochs done")
    assert torch.equal(more.trainer.net[0].weight, reference.trainer.net[0].weight)
    assert json.loads((finished.directory / "status.json").read_text())["epochs"] == 3


@pytest.mark.parametrize(("amount", "iterations"), [("1 epoch", 15), ("3 iterations", 13)])
def test_additional_amount_is_trained_on_top_s7(full_project, amount, iterations):
    finished = train(epochs=2)
    more = jade.resume(finished.directory, additional=amount, show_progress=False)
    assert more.trainer.iterations == iterations
    # So long is the run now: it can be continued like that once more.
    again = jade.resume(finished.directory, additional=amount, show_progress=False)
    assert again.trainer.iterations == 2 * iterations - 10


def test_run_that_is_finished_asks_how_much_longer(full_project):
    finished = train()
    before = (finished.directory / "status.json").read_bytes()
    with pytest.raises(ConfigError, match=r"is finished: 3 epochs done.*--additional '10 epochs'"):
        jade.resume(finished.directory)
    assert (finished.directory / "status.json").read_bytes() == before


def test_total_and_additional_exclude_each_other(full_project, capsys):
    finished = train()
    assert main(["resume", str(finished.directory), "--total=5", "--additional=2"]) == 2
    assert "exclude each other" in capsys.readouterr().err


# What has changed since


def test_code_that_has_changed_is_named(full_project, stopped_at, caplog):
    directory = stopped_at(4)
    full_project.write("modules/data/points.py", DATA + "\n    # a remark\n")
    jade.resume(directory, show_progress=False)
    assert "Since the run was started, the code differs: modules/data/points.py" in caplog.text
    assert "a remark" not in (directory / "code.1/modules/data/points.py").read_text()
    assert "a remark" in (directory / "code/modules/data/points.py").read_text()


def test_code_that_is_the_same_is_kept_once(full_project, stopped_at):
    directory = stopped_at(4)
    jade.resume(directory, show_progress=False)
    assert not list(directory.glob("code.*"))
    assert len(json.loads((directory / "provenance.json").read_text())["before"]) == 1


def test_torch_of_another_version_is_named(full_project, stopped_at, caplog):
    directory = stopped_at(4)
    origin = json.loads((directory / "provenance.json").read_text())
    origin["packages"]["torch"] = "1.0.0"
    (directory / "provenance.json").write_text(json.dumps(origin))
    jade.resume(directory, show_progress=False)
    assert f"torch is {torch.__version__} here and was 1.0.0" in caplog.text


def test_attribute_that_is_missing_is_named_and_the_run_stays(full_project, stopped_at):
    directory = stopped_at(4)
    text = TRAINER.replace('self.add_attribute_to_store("seen")', "")
    full_project.write(
        "modules/models/line.py", text.replace("Linear(2, 8)", "Linear(2, 8, False)")
    )
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    with pytest.raises(CheckpointError) as caught:
        jade.resume(directory, show_progress=False)
    assert "net.0.bias is in the checkpoint only" in str(caught.value)
    assert "seen is in the checkpoint only" in str(caught.value)
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()} == before


def test_trainer_of_another_class_is_refused_by_name(full_project, stopped_at):
    directory = stopped_at(4)
    text = TRAINER.replace("LineTrainer", "OtherTrainer")
    full_project.write("modules/models/other.py", text)
    with pytest.raises(CheckpointError, match=r"by LineTrainer, not by OtherTrainer"):
        jade.resume(directory, overrides={"model.class": "OtherTrainer"}, show_progress=False)


def test_rate_of_the_checkpoint_wins_and_that_is_said(full_project, stopped_at, caplog):
    directory = stopped_at(4)
    jade.resume(directory, overrides={"model.lr": 0.5}, show_progress=False)
    assert "opt: lr is 0.05 in the checkpoint and 0.5 in the configuration" in caplog.text


# Which run


def test_resume_auto_continues_the_run_of_this_configuration_or_starts(full_project, stopped_at):
    reference = train()
    other = stopped_at(4, seed=2, experiments_root="auto")
    first = stopped_at(7, experiments_root="auto")
    finished = train(experiments_root="auto", resume="auto")
    assert finished.directory == first
    assert_same(first, reference.directory)
    # It is finished now: the next one is new. The one with another seed is left alone.
    again = train(experiments_root="auto", resume="auto")
    assert again.directory not in (first, other)
    # Unless more is asked for: amounts are totals.
    more = train(experiments_root="auto", resume="auto", epochs=4)
    assert more.directory in (first, again.directory)
    assert more.trainer.epochs == 4


def test_resume_auto_leaves_a_run_alone_that_somebody_is_in(full_project, stopped_at):
    directory = stopped_at(7)
    with RunLock(directory):
        assert train(resume="auto").directory != directory


def test_resume_of_a_run_that_somebody_is_in_is_refused(full_project, stopped_at):
    directory = stopped_at(7)
    with RunLock(directory), pytest.raises(RunInUseError, match="in use by this very process"):
        jade.resume(directory, show_progress=False)


def test_resume_auto_finds_a_run_whose_seed_was_drawn(full_project, stopped_at):
    directory = stopped_at(7, seed=None)
    assert train(seed=None, resume="auto").directory == directory


def test_resume_of_an_unknown_run_is_refused_with_a_suggestion(full_project, stopped_at, capsys):
    directory = stopped_at(7)
    assert main(["resume", directory.name[:-1] + "_"]) == 2
    assert f"Did you mean '{directory.name}'?" in capsys.readouterr().err


def test_resume_by_id_from_the_command_line(full_project, stopped_at, capsys):
    reference = train()
    directory = stopped_at(7)
    assert main(["resume", directory.name]) == 0
    assert "finished: 3 epochs done" in capsys.readouterr().out
    assert_same(directory, reference.directory)


# Damaged checkpoints


def test_damaged_checkpoint_gives_way_to_the_one_before_with_a_message(full_project, caplog):
    reference = train(backup_every="4 iterations")
    finished = train(backup_every="4 iterations")
    last = finished.directory / "checkpoints/last.pt"
    content = bytearray(last.read_bytes())
    content[random.Random(1).randrange(len(content))] ^= 1
    last.write_bytes(content)
    left = load_left(RunDir(finished.directory))
    assert left.iteration == 12
    assert "last.pt is damaged" in caplog.text
    status = finished.directory / "status.json"
    status.write_text(status.read_text().replace('"finished"', '"running"'))
    jade.resume(finished.directory, show_progress=False)
    assert_same(finished.directory, reference.directory)


def test_run_with_nothing_but_damaged_checkpoints_says_so(full_project, stopped_at):
    directory = stopped_at(7)
    for path in (directory / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"All \d checkpoints in .* are damaged"):
        jade.resume(directory, show_progress=False)


# How it is remembered


def test_resume_is_said_in_the_log_of_the_run(full_project, stopped_at):
    directory = stopped_at(7)
    jade.resume(directory, show_progress=False, overrides={"model.num_workers": 1})
    text = (directory / "run.log").read_text()
    assert "iteration 7" in text
    assert "model.params.num_workers = 1" in text
    assert text.count("run directory:") == 2


def test_evaluation_that_is_cut_is_measured_when_training_goes_on(full_project, monkeypatch):
    full_project.write(
        "modules/eval/errors.py",
        EVALUATION.replace(
            "self.values.append(",
            "import os\n            self.values.append(0.0)\n"
            "            if os.environ.get('CUT') == str(self.trainer.iterations):\n"
            "                self.trainer.loop.request_stop()\n"
            "            self.values.pop()\n"
            "            self.values.append(",
        ),
    )
    reference = train()
    for iteration in ("10", "15"):
        monkeypatch.setenv("CUT", iteration)
        stopped = train()
        assert stopped.exit_code == 75
        monkeypatch.delenv("CUT")
        jade.resume(stopped.directory, show_progress=False)
        assert_same(stopped.directory, reference.directory)


def test_time_limit_stops_a_run_in_time_and_it_goes_on(full_project, caplog):
    caplog.set_level(logging.INFO)
    reference = train()
    text = TRAINER.replace(
        "noise = torch.randn(()", "import time; time.sleep(0.1); noise = torch.randn(()"
    )
    full_project.write("modules/models/line.py", text)
    stopped = train(time_limit="1 s")
    assert (stopped.exit_code, stopped.status) == (75, "preempted")
    assert stopped.reason == "stopped by a signal (the time limit of 1 s)"
    assert 0 < stopped.trainer.iterations < 15
    full_project.write("modules/models/line.py", TRAINER)
    jade.resume(stopped.directory, show_progress=False, time_limit="1 hour")
    assert_same(stopped.directory, reference.directory)


@pytest.mark.slow
def test_error_of_a_step_is_not_covered_by_the_end_of_the_workers(full_project):
    text = TRAINER.replace("self.seen += ", "assert self.iterations < 3, 'my own'; self.seen += ")
    full_project.write("modules/models/line.py", text)
    with pytest.raises(AssertionError, match="my own"):
        train(overrides={"model.num_workers": 2})


def test_run_that_has_converged_is_finished_although_it_had_time_left(full_project):
    finished = train(stop_when="Error < 1e9", epochs=50)
    assert finished.trainer.epochs < 50
    with pytest.raises(ConfigError, match="is finished: converged"):
        jade.resume(finished.directory)
    with pytest.raises(ConfigError, match="is finished: converged"):
        jade.resume(finished.directory, total=0)


def test_seed_of_the_run_wins_and_that_is_said(full_project, stopped_at, caplog):
    reference = train()
    directory = stopped_at(7)
    jade.resume(directory, seed=9, show_progress=False)
    assert "seed: the run has 1, 9 is not used." in caplog.text
    assert_same(directory, reference.directory)


def test_run_that_starts_again_keeps_the_seed_that_it_drew(full_project, stopped_at):
    directory = stopped_at(2, seed=None)
    for path in (directory / "checkpoints").iterdir():
        path.unlink()
    seed = jade.load_run(directory).config["seed"]
    again = train(seed=None, resume="auto")
    assert again.directory == directory
    assert again.config["seed"] == seed
