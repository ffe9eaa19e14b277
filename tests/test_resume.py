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
    assert stopped.reason == "stopped by the time limit of 1 s"
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
    with pytest.raises(ConfigError, match="has trained that long already: converged"):
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


# What a fresh pair of eyes found


class Cut:
    """Stops a run in an evaluation at an iteration."""

    LINE = (
        "if os.environ.get('CUT') == str(self.trainer.iterations): self.trainer.loop.request_stop()"
    )


def cut_at(monkeypatch, iteration, **settings):
    monkeypatch.setenv("CUT", str(iteration))
    stopped = train(**settings)
    monkeypatch.delenv("CUT")
    assert stopped.exit_code == 75
    return stopped.directory


@pytest.fixture
def cutting_project(full_project):
    """A project whose last evaluation is cut short at will."""
    text = EVALUATION.replace("import random\n", "import os\n    import random\n", 1)
    text += f"""

    class Cutting(Evaluation):
        def evaluate(self):
            {Cut.LINE}
            return float(self.trainer.iterations)
"""
    full_project.write("modules/eval/errors.py", text)
    full_project.write(
        "eval.yml",
        "Error: {class: SquaredError, evaluate_every: 3 iterations, params: {evaluate_on: train}}\n"
        "Steps: {class: Cutting, evaluate_every: 3 iterations}\n"
        "Late: {class: Cutting, evaluate_every: 100 epochs}\n",
    )
    return full_project


def test_run_that_converged_is_at_its_end_also_after_a_resume(cutting_project, monkeypatch):
    reference = train(stop_when="Steps >= 6")
    assert reference.trainer.iterations == 6
    directory = cut_at(monkeypatch, 6, stop_when="Steps >= 6")
    finished = jade.resume(directory, show_progress=False)
    assert finished.reason == "converged: Steps >= 6"
    assert_same(directory, reference.directory)


def test_run_that_ended_itself_is_at_its_end_also_after_a_resume(cutting_project, monkeypatch):
    text = TRAINER.replace(
        "self.seen += ", "self.iterations == 4 and self.end_training('enough'); self.seen += "
    )
    cutting_project.write("modules/models/line.py", text)
    reference = train()
    directory = cut_at(monkeypatch, 5)
    finished = jade.resume(directory, show_progress=False)
    assert (finished.reason, finished.trainer.iterations) == ("enough", 5)
    assert_same(directory, reference.directory)


def test_weights_that_an_evaluation_left_behind_are_not_stored(
    cutting_project, monkeypatch, caplog
):
    path = cutting_project.root / "modules/eval/errors.py"
    swapping = path.read_text().replace(
        f"        {Cut.LINE}",
        "        weight = self.trainer.extra.weight\n"
        "        kept = weight.clone()\n"
        "        weight.mul_(1000)\n"
        f"        {Cut.LINE}\n"
        "        weight.copy_(kept)",
    )
    path.write_text(swapping)
    reference = train(backup_every="4 iterations")
    directory = cut_at(monkeypatch, 9, backup_every="4 iterations")
    assert "has left its weights behind: the checkpoint from before is left as it is" in caplog.text
    assert load_left(RunDir(directory)).iteration == 8
    jade.resume(directory, show_progress=False)
    assert_same(directory, reference.directory)


def test_what_was_measured_before_an_evaluation_failed_is_logged(cutting_project, monkeypatch):
    path = cutting_project.root / "modules/eval/errors.py"
    reference = train()
    good = path.read_text()
    path.write_text(good.replace("request_stop()", "no_such_method()"))
    monkeypatch.setenv("CUT", "9")
    with pytest.raises(AttributeError, match="no_such_method"):
        train()
    monkeypatch.delenv("CUT")
    path.write_text(good)
    [failed] = set(Path("experiments").iterdir()) - {reference.directory}
    jade.resume(failed, show_progress=False)
    assert_same(failed, reference.directory)


@pytest.mark.parametrize("hook", ["on_epoch_end", "on_iteration_end"])
def test_hook_that_failed_is_called_when_the_run_goes_on(full_project, hook):
    hooked = TRAINER.replace("def on_epoch_end(self):", f"def {hook}(self):")
    full_project.write("modules/models/line.py", hooked)
    reference = train()
    failing = hooked.replace(
        "self.scheduler.step()",
        "assert self.iterations != 10, 'my hook'\n            self.scheduler.step()",
    )
    full_project.write("modules/models/line.py", failing)
    with pytest.raises(AssertionError, match="my hook"):
        train()
    full_project.write("modules/models/line.py", hooked)
    [failed] = set(Path("experiments").iterdir()) - {reference.directory}
    jade.resume(failed, show_progress=False)
    assert_same(failed, reference.directory)


OWN_GENERATOR = TRAINER.replace(
    "shuffle=True, ", "shuffle=True, generator=torch.Generator().manual_seed(8), "
).replace("persistent_workers=num_workers > 1,", "")


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 2), (0, 0)])
def test_loader_with_a_generator_goes_on_with_other_workers(
    full_project, stopped_at, before, after
):
    full_project.write("modules/models/line.py", OWN_GENERATOR)
    reference = train()
    directory = stopped_at(8, overrides={"model.num_workers": before})
    jade.resume(directory, overrides={"model.num_workers": after}, show_progress=False)
    assert_same(directory, reference.directory)


def test_sampler_with_a_generator_of_its_own_goes_on(full_project, stopped_at):
    text = TRAINER.replace("shuffle=True, ", "sampler=Own(), ").replace(
        "    class LineTrainer",
        """    class Own:
        def __init__(self):
            self.rng = random.Random(5)

        def __len__(self):
            return 18

        def __iter__(self):
            return iter(self.rng.sample(range(18), 18))


    class LineTrainer""",
    )
    full_project.write("modules/models/line.py", text)
    reference = train()
    for iteration in (7, 10):
        directory = stopped_at(iteration)
        jade.resume(directory, show_progress=False)
        assert_same(directory, reference.directory)


def test_dataset_that_draws_for_some_samples_only_goes_on(full_project, stopped_at):
    text = DATA.replace("noise = torch.randn(2)", "noise = 0 if index > 8 else self.own.normal()")
    text = text.replace(" * 0.1 + np.random.randn() * 0.1 + self.own.normal() * 0.1", "")
    full_project.write("modules/data/points.py", text)
    wrapped = TRAINER.replace(
        "batch_size=4, shuffle=True", "batch_size=1, sampler=range(17, -1, -1)"
    )
    full_project.write("modules/models/line.py", wrapped)
    reference = train(epochs=2)
    directory = stopped_at(25, epochs=2)
    jade.resume(directory, show_progress=False)
    assert_same(directory, reference.directory)


def test_schedule_that_is_changed_counts_from_now(full_project, stopped_at):
    directory = stopped_at(9)
    finished = jade.resume(
        directory, overrides={"eval.Error.evaluate_every": "1 epoch"}, show_progress=False
    )
    measured = [int(row["iteration"]) for row in finished.history() if "Error" in row]
    # What was cut short at 9 is not due any more.
    assert measured == [0, 3, 6, 10, 15]


def test_best_by_another_metric_begins_anew(full_project, stopped_at, caplog):
    directory = stopped_at(9)
    finished = jade.resume(directory, best_metric="Memory", best_mode="max", show_progress=False)
    assert (
        "The best Error (min) is not looked for any more; Memory (max) begins anew" in caplog.text
    )
    values = {row["Memory"] for row in finished.history() if "Memory" in row}
    assert finished.best["value"] in values


def test_weights_that_a_run_began_with_stay_its_own(full_project, stopped_at, caplog):
    other = train(seed=3).directory / "checkpoints/last.pt"
    directory = stopped_at(7, experiments_root="own")
    started = train(experiments_root="own", resume="auto", load=str(other))
    assert started.directory != directory
    jade.resume(directory, load=str(other), show_progress=False)
    assert "load: the run began with None, which stays so." in caplog.text
    assert jade.load_run(directory).config["load"] is None


def test_evaluation_that_draws_from_the_trainer_does_not_change_training(full_project):
    reference = train()
    text = EVALUATION.replace(
        "weight = ", "torch.rand((), generator=self.trainer.generator)\n            weight = "
    )
    full_project.write("modules/eval/errors.py", text)
    drawing = train()
    assert_same(drawing.directory, reference.directory)


def test_additional_epoch_is_a_whole_one_in_the_middle_of_an_epoch(full_project, stopped_at):
    directory = stopped_at(9)
    assert (
        jade.resume(directory, additional="1 epoch", show_progress=False).trainer.iterations == 14
    )


def test_total_and_additional_exclude_each_other_in_python(full_project, stopped_at):
    directory = stopped_at(9)
    with pytest.raises(ConfigError, match="exclude each other"):
        jade.resume(directory, total=5, additional=1)


@pytest.mark.parametrize("amount", ["2", "5 epochs"])
def test_time_limit_is_a_time(full_project, amount):
    with pytest.raises(ConfigError, match=rf"time_limit.*'{amount}' is no time"):
        train(time_limit=amount)


def test_damaged_checkpoint_never_takes_the_place_of_a_good_one(full_project):
    finished = train(backup_every="4 iterations")
    directory = RunDir(finished.directory)
    directory.last_checkpoint.write_bytes(directory.last_checkpoint.read_bytes()[:-9])
    load_left(directory)
    assert not directory.last_checkpoint.exists()
    assert (directory.checkpoints / "last.pt.damaged").exists()
    assert checkpoint.load(directory.former_checkpoint)["clock"]["iterations"] == 12


def test_directory_of_a_run_that_was_killed_before_it_began_is_taken_over(
    full_project, monkeypatch
):
    monkeypatch.setenv("WANDB_RUN_ID", "abc")
    Path("experiments/abc/checkpoints").mkdir(parents=True)
    assert train(resume="auto").directory == Path("experiments/abc")
    # The same id with another configuration is a mistake.
    with pytest.raises(ConfigError, match="of another configuration"):
        train(resume="auto", overrides={"model.lr": 0.7})


def test_copy_of_the_code_that_was_lost_is_made_again(full_project, stopped_at):
    directory = stopped_at(7)
    shutil.rmtree(directory / "code")
    jade.resume(directory, show_progress=False)
    assert (directory / "code/modules/models/line.py").is_file()


def test_hook_on_resume_is_called_after_the_state_was_loaded(full_project, stopped_at):
    text = TRAINER + (
        "\n        def on_resume(self):\n            import pathlib; pathlib.Path('resumed').write_text(str(self.seen))\n"
    )
    full_project.write("modules/models/line.py", text)
    directory = stopped_at(7)
    assert not Path("resumed").exists()
    jade.resume(directory, show_progress=False)
    assert Path("resumed").read_text() == str(18 + 8)


def test_finished_run_without_checkpoints_is_left_as_it_is(full_project):
    finished = train()
    shutil.rmtree(finished.directory / "checkpoints")
    before = {p: p.read_bytes() for p in finished.directory.rglob("*") if p.is_file()}
    with pytest.raises(ConfigError, match="its checkpoints are gone"):
        jade.resume(finished.directory, additional="5 iterations")
    assert {p: p.read_bytes() for p in finished.directory.rglob("*") if p.is_file()} == before


def test_folder_of_checkpoints_that_is_gone_is_made_again(full_project, stopped_at):
    reference = train()
    directory = stopped_at(2)
    shutil.rmtree(directory / "checkpoints")
    jade.resume(directory, show_progress=False)
    assert_same(directory, reference.directory)


def test_patience_begins_anew_for_who_wants_more(full_project):
    settings = {"best_metric": "Error", "best_mode": "max", "patience": 1}
    finished = train(epochs=9, **settings)
    assert "no improvement" in finished.reason
    more = jade.resume(finished.directory, additional="1 iteration", show_progress=False)
    assert more.trainer.iterations == finished.trainer.iterations + 1


def test_log_that_is_gone_is_missed(full_project, stopped_at, caplog):
    directory = stopped_at(7)
    (directory / "metrics.csv").unlink()
    jade.resume(directory, show_progress=False)
    assert "metrics.csv is gone: what was logged until now is lost" in caplog.text


def test_progress_of_a_run_that_was_stopped_is_on_record(full_project, stopped_at):
    status = RunDir(stopped_at(7)).read_status()
    assert status["fraction"] == pytest.approx(7 / 15)
    assert (status["iterations"], status["total_epochs"]) == (7, 3)


def test_flag_that_is_misspelt_is_suggested(full_project, stopped_at, capsys):
    directory = stopped_at(7)
    assert main(["resume", str(directory), "--totl", "20 epochs"]) == 2
    assert "Did you mean --total?" in capsys.readouterr().err


def test_run_is_found_by_its_name(full_project, stopped_at):
    directory = stopped_at(7, run_name="mine")
    assert jade.resume("mine", show_progress=False).directory == directory.resolve()
