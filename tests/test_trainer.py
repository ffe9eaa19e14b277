"""K1, K2, R3, S2, S3: what a trainer offers, and what it stores."""

import collections
import logging

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset
from toy import Toy, build, run

from jade import checkpoint
from jade.errors import CheckpointError, ComponentError
from jade.trainer import Trainer


class Bare(Trainer):
    """Nothing is defined."""


def roundtrip(source, target, folder, **options):
    """Carry the state of a trainer to another one over a file."""
    checkpoint.save({"trainer": source.full_state()}, folder / "a.pt")
    return target.load_full_state(checkpoint.load(folder / "a.pt")["trainer"], **options)


def equal(one, two):
    return checkpoint_text(one.full_state()) == checkpoint_text(two.full_state())


def checkpoint_text(value):
    """Render nested content so that it can be compared."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: checkpoint_text(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [checkpoint_text(item) for item in value]
    return value


# K1, K2: what a user calls and writes


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda t: t.initialize(), r"Bare must define initialize\(...\)"),
        (lambda t: t.train_step(None), r"Bare must define train_step\(data\)"),
    ],
)
def test_method_that_is_not_defined_names_class_and_method_k2(call, told):
    with pytest.raises(NotImplementedError, match=told):
        call(Bare())


def test_datasets_and_get_dataset_give_the_same_t19():
    trainer = Toy(datasets={"train": [1, 2]})
    assert trainer.datasets["train"] is trainer.get_dataset("train")


def test_dataset_that_is_not_there_is_an_error():
    with pytest.raises(ComponentError, match="There is no dataset 'train'"):
        Toy().get_dataset("train")


def test_device_is_given_as_a_torch_device():
    assert Toy(device="cpu").get_device() == torch.device("cpu")


def test_architecture_without_a_file_says_which_flag_to_give():
    with pytest.raises(ComponentError, match=r"add --arch_impl FILE\.py"):
        Toy().instantiate_architecture("Net", n=1)


def test_make_loader_takes_a_dataset_or_its_name():
    dataset = TensorDataset(torch.arange(5.0))
    trainer = Toy(datasets={"train": dataset})
    for given in ("train", dataset):
        batches = [batch[0].tolist() for batch in trainer.make_loader(given, 2)]
        assert batches == [[0, 1], [2, 3], [4]]
    assert len(trainer.make_loader("train", 2, drop_last=True)) == 2


@pytest.mark.parametrize("counter", ["iterations", "epochs"])
def test_counter_cannot_be_set_and_the_message_says_who_counts_t20(counter):
    trainer = build(Toy)
    assert getattr(trainer, counter) == 0
    with pytest.raises(AttributeError, match=f"The loop counts: remove .* self.{counter}"):
        setattr(trainer, counter, 1)


def test_counter_of_the_trainer_must_be_a_number():
    trainer = build(Toy)
    trainer.frames, trainer.name = 3, "x"
    assert trainer._clock.read("frames") == 3
    with pytest.raises(ComponentError, match=r"'frame' is neither a unit nor.*'frames'"):
        trainer._clock.read("frame")
    with pytest.raises(ComponentError, match="neither a unit nor a counter of Toy"):
        trainer._clock.read("name")


def test_trainer_is_a_module_like_any_other():
    trainer = build(Toy)
    assert {name for name, _ in trainer.named_parameters()} == {"net.weight", "net.bias"}
    trainer.eval()
    assert not trainer.net.training
    assert trainer.to(torch.float64).net.weight.dtype == torch.float64


# S2: everything stateful is stored


class Rich(Toy):
    """Has a bit of everything."""

    def initialize(self):
        super().initialize()
        self.critic = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        self.scale = nn.Parameter(torch.ones(1))
        self.raw = torch.zeros(2, requires_grad=True)
        self.heads = [nn.Linear(2, 1), nn.Linear(2, 1)]
        parameters = [[p for h in self.heads for p in h.parameters()], [self.raw, self.scale]]
        self.optimizers = {
            "heads": torch.optim.Adam(parameters[0]),
            "rest": [torch.optim.SGD(parameters[1], lr=0.1, momentum=0.9), "text"],
        }
        self.step_lr = torch.optim.lr_scheduler.StepLR(self.opt, 2)
        self.many_lr = torch.optim.lr_scheduler.MultiStepLR(self.opt, [2, 3])
        self.lambda_lr = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda step: 0.9**step)
        self.cycle_lr = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizers["rest"][0], max_lr=0.1, total_steps=100
        )
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
        self.generator = torch.Generator().manual_seed(3)
        self.numpy_generator = np.random.default_rng(3)
        self.running = np.zeros(2)
        self.history = []
        self.note = "start"
        for name in ("running", "history", "note", "net", "opt"):
            self.add_attribute_to_store(name)
        self.add_attribute_to_store("note")

    def train_step(self, data):
        x, _ = data
        super().train_step(data)
        noise = torch.rand(2, generator=self.generator)
        loss = sum(head(self.critic(x)).square().mean() for head in self.heads)
        loss = self.scale * loss + (self.raw - noise).square().sum()
        self.scaler.scale(loss).backward()
        for optimizer in (self.optimizers["heads"], self.optimizers["rest"][0]):
            self.scaler.step(optimizer)
            optimizer.zero_grad()
        self.scaler.update()
        for scheduler in (self.step_lr, self.many_lr, self.lambda_lr, self.cycle_lr):
            scheduler.step()
        self.running = self.running + self.numpy_generator.random(2)
        self.history.append(np.array([self.iterations]))
        self.note = f"after {self.iterations}"


def train(trainer, steps):
    for data, _ in zip(trainer.train_loader, range(steps), strict=False):
        trainer.train_step(data)
        trainer._clock.iterations += 1


@pytest.fixture
def rich():
    trainer = build(Rich)
    train(trainer, 2)
    return trainer


def test_everything_stateful_is_stored_by_default_s2(rich):
    state = rich.full_state()
    assert set(state["stateful"]) == {
        "opt",
        "raw",
        "heads[0]",
        "heads[1]",
        "optimizers['heads']",
        "optimizers['rest'][0]",
        "step_lr",
        "many_lr",
        "lambda_lr",
        "cycle_lr",
        "scaler",
        "generator",
        "numpy_generator",
    }
    assert {key.partition(".")[0] for key in state["modules"]} == {"net", "critic", "scale"}
    assert set(state["stored"]) == {"running", "history", "note"}
    assert state["losses"]["counts"] == {"loss": 2}


def test_state_saved_loaded_and_saved_again_is_equal_s3(rich, tmp_path):
    other = build(Rich)
    assert not equal(rich, other)
    assert roundtrip(rich, other, tmp_path) == []
    assert equal(rich, other)
    assert isinstance(other.running, np.ndarray)
    assert [type(item) for item in other.history] == [np.ndarray, np.ndarray]
    assert isinstance(other.many_lr.milestones, collections.Counter)


def test_state_loaded_goes_on_to_the_same_weights(rich, tmp_path):
    other = build(Rich)
    other._clock.iterations = rich.iterations
    roundtrip(rich, other, tmp_path)
    batch = next(iter(rich.train_loader))
    for trainer in (rich, other):
        trainer.train_step(batch)
    assert equal(rich, other)


def test_excluded_attribute_is_neither_stored_nor_missed(tmp_path):
    class Frozen(Rich):
        def initialize(self):
            super().initialize()
            for name in ("critic", "heads", "generator", "note", "critic"):
                self.exclude_attribute_from_store(name)

    frozen = build(Frozen)
    state = frozen.full_state()
    stored = {*state["modules"], *state["stateful"], *state["stored"]}
    assert not [key for key in stored if key.startswith(("critic", "heads", "generator", "note"))]
    assert roundtrip(frozen, build(Frozen), tmp_path) == []
    # What an older checkpoint still has of it is passed over, too.
    assert roundtrip(build(Rich), build(Frozen), tmp_path) == []


@pytest.mark.parametrize("call", ["add_attribute_to_store", "exclude_attribute_from_store"])
def test_attribute_to_store_that_does_not_exist_is_an_error_before_training(call):
    trainer = build(Toy)
    getattr(trainer, call)("ned")
    with pytest.raises(ComponentError, match=r"Toy has no attribute 'ned'.*Did you mean 'net'\?"):
        trainer.check_stored_attributes()


def test_attribute_that_no_checkpoint_can_hold_is_an_error_before_training():
    trainer = build(Toy)
    trainer.batches = iter([1])
    trainer.add_attribute_to_store("batches")
    with pytest.raises(ComponentError, match=r"Toy.batches is a list_iterator, which a checkpoint"):
        trainer.check_stored_attributes()


def test_attribute_to_store_keeps_its_kind(tmp_path):
    class Counting(Toy):
        def initialize(self):
            super().initialize()
            self.seen = collections.defaultdict(int)
            self.recent = collections.deque(maxlen=2)
            self.add_attribute_to_store("seen")
            self.add_attribute_to_store("recent")

    trainer, other = build(Counting), build(Counting)
    trainer.seen["a"] += 1
    trainer.recent.extend([1, 2])
    roundtrip(trainer, other, tmp_path)
    other.seen["b"] += 1
    other.recent.append(3)
    assert other.seen == {"a": 1, "b": 1}
    assert list(other.recent) == [2, 3]


def test_parameters_that_would_be_lost_are_told(caplog):
    trainer = build(Toy)

    class Agent:
        def __init__(self):
            self.net = nn.Linear(1, 1)

    trainer.agent = Agent()
    trainer.agent_opt = torch.optim.SGD(trainer.agent.net.parameters())
    with caplog.at_level(logging.WARNING):
        trainer.check_stored_attributes()
    assert "agent_opt trains 2 parameters that are not in checkpoints" in caplog.text


class Plain:
    """Holds what it is given, and says nothing about its state."""

    def __init__(self, **parts):
        vars(self).update(parts)


def make_agent():
    net = nn.Linear(1, 1)
    return Plain(net=net, opt=torch.optim.SGD(net.parameters()))


def test_state_in_a_plain_object_is_told_with_its_paths(caplog):
    trainer = build(Toy)
    trainer.agent = make_agent()
    trainer.check_stored_attributes()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert (
        "Not in checkpoints, and lost when the run is resumed: agent.net, agent.opt." in caplog.text
    )
    assert "attributes of Toy, or give their class state_dict and load_state_dict" in caplog.text


def test_state_in_many_plain_objects_is_told_in_one_line(caplog):
    trainer = build(Toy)
    trainer.agents = [make_agent() for _ in range(10)]
    trainer.check_stored_attributes()
    assert (
        "agents.0.net, agents.0.opt, agents.1.net, agents.1.opt, agents.2.net, ..." in caplog.text
    )
    assert len(caplog.records) == 1


def test_state_in_a_plain_object_that_is_left_out_is_not_told(caplog):
    trainer = build(Toy)
    trainer.agent = make_agent()
    trainer.exclude_attribute_from_store("agent")
    trainer.check_stored_attributes()
    assert caplog.text == ""


def test_state_that_the_trainer_holds_itself_may_be_in_plain_objects_too(rich, caplog):
    rich.helper = Plain(
        trainer=rich,
        net=rich.net,
        weights=list(rich.net.parameters()),
        opt=rich.opt,
        data=rich.datasets,
        loader=rich.train_loader,
        criterion=nn.MSELoss(),
    )
    rich.check_stored_attributes()
    assert caplog.text == ""


def test_parameters_that_are_all_held_give_no_warning(rich, caplog):
    rich.check_stored_attributes()
    assert caplog.text == ""


def test_module_that_waits_for_its_first_batch_can_be_stored_and_loaded(tmp_path):
    class Lazy(Toy):
        def initialize(self):
            super().initialize()
            self.late = nn.LazyLinear(1)

    fresh, used = build(Lazy), build(Lazy)
    fresh.check_stored_attributes()
    used.late(torch.ones(1, 3))
    assert roundtrip(used, fresh, tmp_path) == []
    assert torch.equal(fresh.late.weight, used.late.weight)
    assert roundtrip(build(Lazy), build(Lazy), tmp_path) == []


# S3: strict and other loading


class Wider(Toy):
    def initialize(self):
        super().initialize()
        self.net = nn.Linear(2, 3)
        self.opt = torch.optim.Adam(self.net.parameters())
        self.extra = nn.Linear(1, 1)
        self.level = 1
        self.add_attribute_to_store("level")


def test_strict_loading_names_every_difference_s3(tmp_path):
    narrow = build(Toy)
    narrow.old = nn.Linear(1, 1, bias=False)
    with pytest.raises(CheckpointError) as info:
        roundtrip(narrow, build(Wider), tmp_path)
    lines = str(info.value).splitlines()
    assert lines[0] == "The checkpoint of Toy does not fit Wider:"
    assert "  - net.weight has the shape (1, 2) in the checkpoint, (3, 2) here" in lines
    assert "  - old.weight is in the checkpoint only" in lines
    assert "  - extra.bias is not in the checkpoint" in lines
    assert "  - level is not in the checkpoint" in lines


def test_strict_loading_that_fails_changes_nothing(tmp_path):
    target = build(Wider)
    before = checkpoint_text(target.full_state())
    with pytest.raises(CheckpointError):
        roundtrip(build(Toy), target, tmp_path)
    assert checkpoint_text(target.full_state()) == before


def test_other_loading_takes_what_fits_and_returns_the_rest_s3(tmp_path):
    source, target = build(Rich), build(Toy)
    problems = roundtrip(source, target, tmp_path, strict=False)
    assert torch.equal(target.net.weight, source.net.weight)
    assert "critic.0.weight is in the checkpoint only" in problems
    assert "heads[0] is in the checkpoint only" in problems


def test_other_loading_leaves_out_an_optimizer_of_other_shapes(tmp_path):
    narrow = build(Toy)
    narrow.opt = torch.optim.Adam(narrow.net.parameters())
    train(narrow, 1)
    wide = build(Wider)
    problems = roundtrip(narrow, wide, tmp_path, strict=False)
    assert any(problem.startswith("opt keeps a value for a parameter") for problem in problems)
    assert wide.opt.state_dict()["state"] == {}


def test_lists_of_modules_change_mode_and_count_as_networks(rich):
    assert [type(module) for module in rich.loose_modules()] == [nn.Linear, nn.Linear]
    assert list(rich.named_networks()) == ["net", "critic", "heads[0]", "heads[1]"]


# K1: hooks (R3), end_training


class Hooked(Toy):
    def initialize(self, **params):
        super().initialize(**params)
        self.calls = []

    def on_start(self):
        self.calls.append(("start", self.iterations, self.epochs))

    def on_iteration_end(self):
        self.calls.append(("iteration", self.iterations, self.epochs))

    def on_epoch_end(self):
        self.calls.append(("epoch", self.iterations, self.epochs))

    def on_end(self):
        self.calls.append(("end", self.iterations, self.epochs))


def test_hooks_without_super_keep_the_counters_r3_t20(tmp_path):
    outcome = run(tmp_path, Hooked, epochs=2)
    assert outcome.trainer.calls == [
        ("start", 0, 0),
        ("iteration", 1, 0),
        ("iteration", 2, 0),
        ("epoch", 2, 1),
        ("iteration", 3, 1),
        ("iteration", 4, 1),
        ("epoch", 4, 2),
        ("end", 4, 2),
    ]
    assert (outcome.trainer.iterations, outcome.trainer.epochs) == (4, 2)


def test_hook_set_on_the_object_is_called_too(tmp_path):
    class Late(Toy):
        def initialize(self):
            super().initialize()
            self.seen = []
            self.on_iteration_end = lambda: self.seen.append(self.iterations)

    assert run(tmp_path, Late, epochs=1).trainer.seen == [1, 2]


@pytest.mark.parametrize("place", ["on_start", "train_step", "on_iteration_end", "on_epoch_end"])
def test_end_training_from_anywhere_ends_with_its_reason(tmp_path, place):
    class Ending(Toy):
        pass

    def end(self, *data):
        if data:
            Toy.train_step(self, *data)
        self.end_training("enough")

    setattr(Ending, place, end)
    outcome = run(tmp_path, Ending, epochs=9)
    assert outcome.ending.reason == "enough"
    expected = {"on_start": 0, "train_step": 1, "on_iteration_end": 1, "on_epoch_end": 2}
    assert outcome.trainer.iterations == expected[place]


def test_end_training_without_a_loop_does_no_harm():
    trainer = build(Toy)
    trainer.end_training()
    assert trainer._end_reason == "end_training was called"
