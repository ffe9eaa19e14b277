"""A training can start from the weights of another one: they change, and nothing else does."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import jade
from jade.cli import main
from jade.errors import CheckpointError

OTHER = """
    import torch

    from modules.models.line import LineTrainer


    class OtherTrainer(LineTrainer):
        def initialize(self, n_more: int = 0, rename: bool = False):
            super().initialize(lr=0.5)
            if n_more:
                self.more = torch.nn.Linear(2, n_more)
            if rename:
                self.renamed, self.net = self.net, torch.nn.Linear(5, 5)
"""


@pytest.fixture
def first(project, trained):
    """The directory of a run whose weights differ from those of any beginning."""
    project.write("modules/models/other.py", OTHER)
    return trained("--seed=7", "--best_metric=Error", "--best_mode=max")


@pytest.fixture
def fails(arguments, capsys):
    """Run a command that must be refused before anything is written, and return what it says."""

    def run(*more):
        before = list(Path("experiments").iterdir())
        assert main([*arguments, *more]) == 2
        assert list(Path("experiments").iterdir()) == before
        return capsys.readouterr().err

    return run


def networks(directory, name="last"):
    return torch.load(directory / f"checkpoints/{name}.pt", weights_only=True)["trainer"]["modules"]


def same(ours, theirs):
    return ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_weights_come_from_a_checkpoint_file(first, trained):
    started = trained(f"--load={first}/checkpoints/last.pt", "--epochs=0")
    assert same(networks(started), networks(first))


def test_weights_of_a_run_are_its_best_ones_else_its_last(first, trained):
    assert not same(networks(first, "best"), networks(first))
    assert same(networks(trained(f"--load={first}", "--epochs=0")), networks(first, "best"))
    assert same(networks(trained(f"--load={first.name}", "--epochs=0")), networks(first, "best"))
    (first / "checkpoints/best.pt").unlink()
    assert same(networks(trained(f"--load={first}", "--epochs=0")), networks(first))


def test_weights_of_a_model_file_are_loaded_without_executing_it(first, trained, tmp_path):
    for path in (first / "code").rglob("*.py"):
        path.write_text("raise AssertionError('executed')\n")
    jade.load_run(first).export(tmp_path / "model.jade", "last")
    started = trained(f"--load={tmp_path}/model.jade", "--epochs=0")
    assert same(networks(started), networks(first))


@pytest.mark.parametrize(
    "arguments_",
    [
        ["--model", "{}"],
        ["--model={}"],
        ["--model.load={}"],
        ["--set", "model.load={}"],
        ["--trainer.load={}"],
    ],
)
def test_weights_are_named_in_any_spelling(first, trained, arguments_):
    started = trained(*(text.format(first.name) for text in arguments_), "--epochs=0")
    assert same(networks(started), networks(first, "best"))


def test_weights_are_named_in_the_description_of_the_model(project, first, trained, monkeypatch):
    monkeypatch.setenv("WHERE", str(first))
    project.write("warm.yml", "class: LineTrainer\nload: $WHERE/checkpoints/last.pt\n")
    started = trained("--model_conf=warm.yml", "--epochs=0")
    assert same(networks(started), networks(first))
    # What is written down fits other machines.
    config = jade.load_run(started).config
    assert config["load"] == "$WHERE/checkpoints/last.pt"
    assert config["model"].keys() == {"class", "params"}


def test_weights_named_by_an_argument_win_over_those_of_a_file(project, first, trained):
    project.write("warm.yml", "class: LineTrainer\nload: nowhere.pt\n")
    started = trained("--model_conf=warm.yml", f"--load={first}/checkpoints/last.pt", "--epochs=0")
    assert same(networks(started), networks(first))


def test_weights_can_be_named_from_python(project, first):
    model = {"class": "LineTrainer", "load": str(first / "checkpoints/last.pt")}
    arch_impl = "modules/architectures/small.py"
    run = jade.train(
        model, "data.yml", arch_impl=arch_impl, epochs=0, wandb="disabled", show_progress=False
    )
    assert same(run.trainer.state_dict(), networks(first))


def test_warm_start_draws_the_random_numbers_that_a_cold_one_draws(project, first, trained):
    # Even if a network draws some whenever it is loaded.
    hook = "    def _load_from_state_dict(self, *arguments):\n        torch.rand(3)\n"
    hook += "        super()._load_from_state_dict(*arguments)\n"
    small = project.root / "modules/architectures/small.py"
    small.write_text("import torch\n" + small.read_text() + "\n" + hook)
    cold = trained("--epochs=1")
    warm = trained("--epochs=1", f"--load={first}")
    states = [torch.load(run / "checkpoints/last.pt", weights_only=True) for run in (cold, warm)]
    assert torch.equal(states[0]["rng"]["torch"], states[1]["rng"]["torch"])
    assert states[0]["clock"]["iterations"] == states[1]["clock"]["iterations"] == 3
    assert not same(states[0]["trainer"]["modules"], states[1]["trainer"]["modules"])


def test_warm_start_leaves_optimizers_and_stored_attributes_new(project, trained):
    text = (project.root / "modules/models/line.py").read_text()
    text = text.replace("lr=lr", "lr, momentum=0.9")
    text = text.replace(
        "self.opt =",
        "self.seen = 0\n        self.add_attribute_to_store('seen')\n        self.opt =",
    )
    text = text.replace("loss.backward()", "loss.backward()\n        self.seen += 1")
    project.write("modules/models/line.py", text)
    started = trained(f"--load={trained()}", "--epochs=0")
    state = torch.load(started / "checkpoints/last.pt", weights_only=True)["trainer"]
    assert state["stateful"]["opt"]["state"] == {}
    assert state["stored"]["seen"] == 0


def test_weights_of_loose_networks_are_loaded(project, trained):
    text = (project.root / "modules/models/line.py").read_text()
    text = text.replace(
        "self.opt =",
        "self.nets = [torch.nn.Linear(1, 1)]\n        self.scale = torch.ones(2, requires_grad=True)\n        self.opt =",
    )
    text = text.replace(
        "loss.backward()",
        "loss.backward()\n        self.scale.data += 1\n        self.nets[0].weight.data.fill_(7)",
    )
    project.write("modules/models/line.py", text)
    started = trained(f"--load={trained()}", "--epochs=0")
    state = torch.load(started / "checkpoints/last.pt", weights_only=True)["trainer"]["stateful"]
    assert state["nets[0]"]["weight"].item() == 7
    assert state["scale"].tolist() == [7, 7]


def test_weights_of_another_trainer_class_are_loaded_when_the_names_fit(first, trained):
    started = trained(
        "--model.class=OtherTrainer", "--model.params={}", f"--load={first}", "--epochs=0"
    )
    assert same(networks(started), networks(first, "best"))


def test_weights_that_do_not_fit_are_all_listed_and_nothing_is_written(project, first, fails):
    project.write("other.yml", "class: OtherTrainer\nparams: {n_more: 3, rename: true}\n")
    said = fails("--model_conf=other.yml", f"--load={first}")
    for name in (
        "more.weight",
        "more.bias",
        "renamed.layer.weight",
        "renamed.layer.bias",
        "net.weight",
    ):
        assert f"- {name} is not in the checkpoint" in said
    assert "- net.layer.weight is in the checkpoint only" in said
    assert "--load_strict false loads what fits" in said


def test_weights_of_another_shape_are_listed(project, first, fails):
    small = project.root / "modules/architectures/small.py"
    project.write("wide.py", small.read_text().replace("Linear(2,", "Linear(3,"))
    said = fails("--arch_impl=wide.py", f"--load={first}")
    assert "net.layer.weight has the shape (1, 2) in the checkpoint, (1, 3) here" in said


def test_weights_that_fit_in_part_are_loaded_when_that_is_wanted(project, first, trained, capsys):
    project.write("other.yml", "class: OtherTrainer\nparams: {n_more: 3}\n")
    started = trained(
        "--model_conf=other.yml", f"--load={first}", "--load_strict=false", "--epochs=0"
    )
    loaded = {key: value for key, value in networks(started).items() if key.startswith("net.")}
    assert same(loaded, networks(first, "best"))
    left_out = "more.weight is not in the checkpoint; more.bias is not in the checkpoint"
    assert left_out in (started / "run.log").read_text()
    assert left_out in capsys.readouterr().err


def test_weights_of_which_nothing_fits_are_refused_in_any_case(project, first, fails):
    project.write("other.yml", "class: OtherTrainer\nparams: {rename: true}\n")
    said = fails("--model_conf=other.yml", f"--load={first}", "--load_strict=false")
    assert "net.layer.weight is in the checkpoint only" in said


def test_weights_that_are_missing_are_refused_with_a_suggestion(first, fails):
    assert "Did you mean 'last.pt'?" in fails(f"--load={first}/checkpoints/lats.pt")
    assert f"Did you mean '{first.name}'?" in fails(f"--load={first.name[:-1]}_")
    assert "NOWHERE for load" in fails("--load=$NOWHERE/last.pt")


def test_weights_that_are_missing_are_found_by_a_check(first, arguments, capsys):
    assert main(["check", *arguments[1:], "--load=nowhere.pt"]) == 2
    assert "load (argument --load): There is no file nowhere.pt." in capsys.readouterr().err


def test_weights_in_a_file_that_is_damaged_are_refused(first, fails, tmp_path):
    (tmp_path / "some.pt").write_text("nothing")
    assert "is damaged: it does not end as a checkpoint" in fails(f"--load={tmp_path}/some.pt")
    (tmp_path / "some.jade").write_text("nothing")
    assert "is damaged, or no model file" in fails(f"--load={tmp_path}/some.jade")


def test_run_that_was_started_warm_loads_without_what_it_started_from(first, trained):
    started = trained(f"--load={first}")
    shutil.rmtree(first)
    assert jade.load_run(started).trainer().iterations == 6


def test_model_section_that_is_a_yaml_file_is_still_refused(fails, first):
    assert "model.yml" in fails("--model=model.yml")


def test_partial_loading_leaves_a_network_of_its_own_making_whole():
    from toy import Toy, build

    class Shadow:
        def __init__(self, value):
            self.value = torch.full((2,), value)

        def state_dict(self):
            return {"value": self.value}

        def load_state_dict(self, state):
            self.value = state["value"]

    old, new = build(Toy), build(Toy)
    old.shadow, new.shadow = Shadow(1.0), Shadow(0.0)
    assert new.load_networks(old.full_state()) == []
    assert new.shadow.value.tolist() == [1, 1]


def test_networks_alone_are_asked_for():
    from toy import Toy, build

    old, new = build(Toy), build(Toy)
    old.generator, old.ready = torch.Generator(), True
    new.schedule = torch.optim.lr_scheduler.StepLR(new.opt, 1)
    assert new.load_networks(old.full_state()) == []
    assert torch.equal(new.net.weight, old.net.weight)
    old.net = torch.nn.Linear(3, 1)
    with pytest.raises(CheckpointError, match=r"net\.weight has the shape"):
        new.load_networks(old.full_state())
    assert json.dumps(new.load_networks(old.full_state(), strict=False)).count("net.") == 1
