"""What a checkpoint does not keep, but training depends on, is found and called by its name."""

import shutil

import pytest

import jade
from jade.differences import (
    Reference,
    compare_metrics,
    compare_results,
    explain,
    explain_irreproducible,
)
from jade.run_dir import RunDir
from jade.trace import load_course

TRAINER = """
    import os
    import time

    import torch
    from torch.utils.data import DataLoader, Sampler

    from jade.trainer import Trainer


    class Turning(Sampler):
        # Goes on in each epoch from where the one before ended.
        def __init__(self, size):
            self.size = size
            self.position = 0

        def __len__(self):
            return self.size

        def __iter__(self):
            for _ in range(self.size - 1):
                self.position += 1
                yield self.position % self.size


    class LineTrainer(Trainer):
        def initialize(self):
            self.net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.1),
                                           torch.nn.Linear(4, 1))
            self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
            self.train_loader = DataLoader(self.datasets["train"], batch_size=4, shuffle=True)
            self.prepare()

        def train_step(self, data):
            loss = (self.net(data["x"]) - data["y"]).square().mean()
            self.add_loss_item("loss", loss)
            self.opt.zero_grad()
            (loss * self.weigh(loss)).backward()
            self.opt.step()
            if os.environ.get("STOP_AT") == str(self.iterations + 1):
                self.loop.request_stop()

        def on_start(self):
            # What a test needs to stop a run at will.
            self.loop = self._wake.__self__

        def prepare(self):
            pass

        def weigh(self, loss):
            return 1.0
"""
EVALUATION = """
    from jade.eval import Evaluation


    class Remembering(Evaluation):
        def initialize(self):
            self.values = []

        def evaluate(self):
            self.values.append(float(self.trainer.net[0].weight.sum()))
            return sum(self.values)
"""


@pytest.fixture
def trained(project, monkeypatch, tmp_path):
    """Train a trainer with other lines in it, under a trace; return the run and its course."""

    def train(prepare="pass", weigh="return 1.0", stop_at=None, more=(), run=None):
        text = TRAINER.replace("            pass\n", indented(prepare))
        text = text.replace("            return 1.0\n", indented(weigh))
        for old, new in more:
            assert old in text
            text = text.replace(old, new)
        project.write("modules/models/line.py", text)
        trace = tmp_path / "trace"
        trace.unlink(missing_ok=True)
        monkeypatch.setenv("JADE_TRACE", str(trace))
        monkeypatch.setenv("STOP_AT", str(stop_at))
        if run is None:
            finished = jade.train(
                {"class": "LineTrainer"},
                "data.yml",
                evaluations,
                epochs=5,
                seed=1,
                log_loss_every="1 iteration",
                show_progress=False,
            )
        else:
            finished = jade.resume(run.root, show_progress=False)
        return RunDir(finished.directory), load_course(trace)

    evaluations = {}
    train.evaluations = evaluations
    return train


def indented(text):
    return "".join(f"            {line}\n" for line in text.splitlines())


@pytest.fixture
def interrupted(trained):
    """Train with and without an interruption; return where the two part, and the two runs."""

    def compare(prepare="pass", weigh="return 1.0", more=(), stop_at=7):
        reference, course = trained(prepare, weigh, more=more)
        run, _ = trained(prepare, weigh, stop_at, more)
        _, resumed = trained(prepare, weigh, more=more, run=run)
        return Reference(course).compare(resumed), run, reference

    return compare


def test_training_that_is_restored_exactly_does_not_part(interrupted):
    parting, run, reference = interrupted()
    assert (parting.started_at, parting.iteration) == (7, None)
    assert explain(parting) == []
    assert compare_results(run, reference) == []


def test_counter_that_is_not_stored_is_named_with_the_remedy(interrupted):
    parting, run, reference = interrupted(
        "self.warmup = 0", "self.warmup += 1\nreturn min(1.0, self.warmup / 10)"
    )
    assert parting.lost == ("self.warmup",)
    assert parting.iteration == 8
    [text] = explain(parting)
    assert text.startswith("self.warmup: not in checkpoints, and not the same after resuming")
    assert 'self.add_attribute_to_store("warmup") in initialize' in text
    [state, metrics] = compare_results(run, reference)
    assert state.startswith("last.pt: trainer.modules.net.0.weight")
    assert metrics.startswith("metrics.csv: loss at iteration 9, ")


def test_counter_that_is_stored_is_not_blamed(interrupted):
    parting, run, reference = interrupted(
        'self.warmup = 0\nself.add_attribute_to_store("warmup")',
        "self.warmup += 1\nreturn min(1.0, self.warmup / 10)",
    )
    assert explain(parting) == []
    assert compare_results(run, reference) == []


def test_value_of_the_step_before_is_named_although_each_step_sets_it(interrupted):
    parting, _, _ = interrupted(
        "self.previous = 1.0",
        "former, self.previous = self.previous, loss.item()\nreturn former",
        more=[("lr=0.05", "lr=0.0")],
    )
    assert parting.passing == ("self.previous",)
    assert 'add_attribute_to_store("previous")' in explain(parting)[0]


def test_value_that_steers_nothing_is_not_blamed(interrupted):
    parting, run, reference = interrupted("self.seen = 0", "self.seen += 1\nreturn 1.0")
    assert parting.lost == ("self.seen",)
    assert explain(parting) == []
    assert compare_results(run, reference) == []


def test_object_with_a_counter_is_told_to_keep_its_state(interrupted):
    parting, _, _ = interrupted(
        "import types\n"
        "self.schedule = type('Schedule', (), {'__init__': lambda s: setattr(s, 'step', 0)})()",
        "self.schedule.step += 1\nreturn 1 / self.schedule.step",
        more=[("type('Schedule', (), {", "type('Schedule', (), {'__module__': 'own', ")],
    )
    [text] = explain(parting)
    assert text.startswith("self.schedule.step: not in checkpoints")
    assert "give the class of self.schedule state_dict and load_state_dict" in text


@pytest.mark.parametrize(
    ("weigh", "more"),
    [
        ("self.net[1].p = min(0.9, self.net[1].p + 0.05)\nreturn 1.0", []),
        ("if self.iterations == 3: self.net[0].requires_grad_(False)\nreturn 1.0", []),
        ("if self.iterations == 3: self.net[1].eval()\nreturn 1.0", []),
        ("return 1.0", [("self.opt.zero_grad()", "self.iterations % 3 or self.opt.zero_grad()")]),
        ("return 1.0", [("shuffle=True", 'sampler=Turning(len(self.datasets["train"]))')]),
    ],
    ids=["rate of dropout", "frozen weights", "mode", "gradients over steps", "turning sampler"],
)
def test_what_training_changes_in_networks_and_samplers_is_as_it_was(interrupted, weigh, more):
    parting, run, reference = interrupted(weigh=weigh, more=more)
    assert (parting.started_at, parting.iteration) == (7, None)
    assert explain(parting) == []
    assert compare_results(run, reference) == []


def test_sampler_with_a_memory_is_reported_as_the_order_of_the_data(interrupted):
    parting, _, _ = interrupted(
        more=[
            ("shuffle=True", 'sampler=Turning(len(self.datasets["train"]))'),
            ("self.position = 0", "self.position = [0]"),
            ("self.position += 1", "self.position[0] += 1"),
            ("yield self.position %", "yield self.position[0] %"),
        ]
    )
    assert parting.batch
    [text] = explain(parting)
    assert text.startswith("The batches differ from iteration 7 on, in order or in content.")
    assert "self.train_loader.sampler.position: not the same after resuming" in text


def test_evaluation_with_a_memory_is_named_with_the_remedy(interrupted, trained, project):
    project.write("modules/eval/errors.py", EVALUATION)
    trained.evaluations["Memory"] = {"class": "Remembering"}
    parting, run, reference = interrupted()
    assert parting.iteration is None
    [text] = explain(parting)
    assert text.startswith("The evaluation Memory remembers self.values, which is not in")
    assert 'self.add_attribute_to_store("values") in its initialize' in text
    assert "metrics.csv: Memory at iteration 9" in compare_results(run, reference)[-1]


def test_state_that_is_kept_but_changed_after_it_was_loaded_is_named(interrupted):
    parting, _, _ = interrupted(
        'self.factor = 1.0\nself.add_attribute_to_store("factor")',
        "return self.factor",
        more=[
            (
                "def weigh",
                "def load_full_state(self, state, *, strict=True):\n"
                "            super().load_full_state(state, strict=strict)\n"
                "            self.factor = 0.5\n\n"
                "        def weigh",
            )
        ],
    )
    assert parting.stored == ("self.factor",)
    assert explain(parting)[0].startswith("self.factor: kept in checkpoints, but not the same")


def test_step_that_depends_on_something_outside_is_said_to_do_so(interrupted):
    parting, _, _ = interrupted(
        "global calls\ncalls = 0", "global calls\ncalls += 1\nreturn 1 / calls"
    )
    [text] = explain(parting)
    assert "although the step before it had the same batch" in text
    assert "self.net.0.weight" in text


# What is not reproducible in the first place


def test_training_with_random_numbers_of_the_system_is_called_irreproducible(trained):
    weigh = "self.noise = int.from_bytes(os.urandom(7), 'big') / 2**56\nreturn self.noise"
    _, course = trained(weigh=weigh)
    _, again = trained(weigh=weigh)
    reference = Reference(course)
    parting = reference.compare(again)
    assert parting.iteration == 1
    text = explain_irreproducible(reference, parting, sorted(reference.differing_names(again)))
    assert text.startswith("Before the step of iteration 1 differs: self.net.0.weight")
    assert "Attributes that differ: self.noise." in text


def test_clock_that_steers_nothing_is_left_out_of_comparisons(trained):
    weigh = "self.now = time.time()\nreturn 1.0"
    _, course = trained(weigh=weigh)
    _, again = trained(weigh=weigh)
    reference = Reference(course)
    assert reference.compare(again).iteration is None
    names = reference.differing_names(again)
    assert names == {"self.now"}
    assert Reference(course, names).differing_names(again) == set()


# Results


def test_metrics_that_lack_a_row_are_told_by_its_iteration(trained, tmp_path):
    run, _ = trained()
    other = RunDir(shutil.copytree(run.root, tmp_path / "other"))
    other.metrics.write_text("".join(run.metrics.read_text().splitlines(keepends=True)[:-1]))
    assert compare_metrics(other, run) == "the row of iteration 15 is missing"
    assert compare_metrics(run, other) == "the row of iteration 15 is too much"
