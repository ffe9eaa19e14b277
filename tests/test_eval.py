"""K9, K10, K11, T35: what evaluations return, and how means over datasets are taken."""

import collections
import copy
import math

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset
from toy import Toy, build

from jade.errors import CheckpointError, ComponentError, TrainingError
from jade.eval import DatasetEvaluation, Evaluation, read_outcome
from jade.media import Media


class Bare(Evaluation):
    """Nothing is defined."""


def make(kind, datasets=None, **params):
    evaluation = kind("X", build(Toy), datasets or {})
    evaluation.initialize(**params)
    return evaluation


# Evaluation


def test_evaluate_that_is_not_defined_names_class_and_method_k2():
    with pytest.raises(NotImplementedError, match=r"Bare must define evaluate\(\)"):
        make(Bare).evaluate()


def test_initialize_is_needed_only_for_parameters():
    make(Bare)
    with pytest.raises(NotImplementedError, match=r"Bare must define initialize\(...\)"):
        make(Bare, n=1)


def test_evaluation_knows_trainer_datasets_and_its_name():
    evaluation = make(Bare, {"test": [1]})
    assert isinstance(evaluation.trainer, Toy)
    assert evaluation.get_dataset("test") == evaluation.datasets["test"] == [1]
    assert evaluation.name == "X"


def test_required_method_is_returned():
    evaluation = make(Bare)
    assert evaluation.require_trainer_method("train_step") == evaluation.trainer.train_step


def test_required_method_that_is_missing_names_all_three_k11():
    with pytest.raises(ComponentError) as info:
        make(Bare).require_trainer_method("compute_loss_components")
    message = str(info.value)
    assert "The evaluation 'X' (Bare)" in message
    assert "'compute_loss_components'" in message
    assert "Toy does not have" in message


def test_required_method_that_is_misspelt_is_suggested_k11():
    with pytest.raises(ComponentError, match=r"Did you mean 'train_step'\?"):
        make(Bare).require_trainer_method("trian_step")


# Means over a dataset, K10


# Its state


class Probe(Evaluation):
    """Trains a network of its own from one evaluation to the next."""

    def initialize(self, width=1, name="probe"):
        self.encoder = self.trainer.net
        self.trainer_opt = self.trainer.opt
        self.generator = torch.Generator()
        setattr(self, name, torch.nn.Linear(2, width))
        self.opt = torch.optim.SGD(getattr(self, name).parameters(), lr=0.1, momentum=0.9)

    def evaluate(self):
        with torch.enable_grad():
            loss = self.probe(torch.ones(1, 2)).square().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


class Measure(Evaluation):
    def initialize(self):
        self.features = torch.nn.Linear(2, 100)
        self.encoder = self.trainer.net
        self.trainer_opt = self.trainer.opt

    def evaluate(self):
        return 0.0


def test_network_that_an_evaluation_trains_goes_on_from_its_state():
    one, two = make(Probe), make(Probe)
    one.evaluate()
    two.load_full_state(copy.deepcopy(one.full_state()))
    assert [two.evaluate() for _ in range(3)] == [one.evaluate() for _ in range(3)]


def test_state_of_an_evaluation_leaves_out_what_the_trainer_keeps():
    assert list(make(Probe).full_state()["stateful"]) == ["probe", "opt"]


def test_network_that_an_evaluation_does_not_train_is_left_out():
    assert make(Measure).full_state()["stateful"] == {}


def test_state_of_an_evaluation_that_has_no_network_yet_is_loaded():
    evaluation = make(Probe)
    weight = evaluation.probe.weight.clone()
    evaluation.load_full_state({"generators": {}, "stored": {}, "own": None})
    assert torch.equal(evaluation.probe.weight, weight)


def test_network_of_an_evaluation_that_has_another_shape_is_an_error():
    told = r"does not fit the evaluation 'X':\n  - probe weight has the shape \(1, 2\) in the"
    with pytest.raises(CheckpointError, match=told):
        make(Probe, width=3).load_full_state(make(Probe).full_state())


def test_network_of_an_evaluation_that_has_another_name_is_an_error():
    with pytest.raises(CheckpointError) as info:
        make(Probe, name="head").load_full_state(make(Probe).full_state())
    assert "probe is in the checkpoint only" in str(info.value)
    assert "head is not in the checkpoint" in str(info.value)


def test_optimizer_that_is_not_made_yet_is_told_and_its_network_loaded(caplog):
    one, two = make(Probe), make(Probe)
    del two.opt
    two.load_full_state(one.full_state())
    assert "X: opt is in the checkpoint only, and starts anew" in caplog.text
    assert torch.equal(two.probe.weight, one.probe.weight)


def test_stored_attribute_of_an_evaluation_keeps_its_kind():
    one, two = make(Bare), make(Bare)
    for evaluation in (one, two):
        evaluation.seen = collections.defaultdict(int)
        evaluation.add_attribute_to_store("seen")
    one.seen["a"] += 1
    two.load_full_state(one.full_state())
    two.seen["b"] += 1
    assert two.seen == {"a": 1, "b": 1}


def test_stored_attribute_of_an_evaluation_that_does_not_exist_is_an_error():
    evaluation = make(Bare)
    evaluation.values = []
    evaluation.add_attribute_to_store("valeus")
    with pytest.raises(ComponentError, match=r"eval.X: Bare has no .*'valeus'.*mean 'values'\?"):
        evaluation.check_stored_attributes()


class Mean(DatasetEvaluation):
    """The mean of the first column, however a batch is measured."""

    def initialize(self, how="samples", **params):
        super().initialize("test", **params)
        self.how = how
        self.sizes = []

    def evaluate_batch(self, data):
        values = data[0]
        self.sizes.append(len(values))
        return {
            "samples": lambda: values,
            "mean": lambda: values.mean(),
            "number": lambda: float(values.mean()),
            "numpy": lambda: values.numpy(),
            "named": lambda: {"a": values, "b": 2 * values.mean()},
            "matrix": lambda: values[:, None].expand(-1, 3),
            "wrong": lambda: values[:1],
            "text": lambda: "zero",
            "list": lambda: values.tolist(),
        }[self.how]()


NUMBERS = torch.tensor([5.0, 1.0, 4.0, 2.0, 8.0, 6.0, 9.0], dtype=torch.float64)


def mean(numbers=NUMBERS, **params):
    return make(Mean, {"test": TensorDataset(numbers)}, **params)


@pytest.mark.parametrize("how", ["samples", "mean", "number", "numpy", "matrix"])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 7, 256])
def test_mean_is_exact_with_an_uneven_last_batch_k10(how, batch_size):
    assert mean(how=how, batch_size=batch_size).evaluate() == pytest.approx(5.0, abs=1e-12)


def test_mean_does_not_depend_on_the_order_k10():
    numbers = torch.rand(1000) * torch.logspace(-20, 20, 1000)
    orders = [torch.randperm(1000) for _ in range(5)]
    assert len({mean(numbers[order], batch_size=7).evaluate() for order in orders}) == 1


@pytest.mark.parametrize("n_samples", [1, 3, 4, 6, 7, 100])
def test_n_samples_is_honoured_to_the_sample_k10(n_samples):
    evaluation = mean(n_samples=n_samples, batch_size=3)
    used = NUMBERS[:n_samples]
    assert evaluation.evaluate() == pytest.approx(float(used.mean()), abs=1e-12)
    assert sum(evaluation.sizes) == len(used)


def test_n_samples_reads_no_batch_too_many():
    class Counted(Dataset):
        asked = 0

        def __len__(self):
            return 100

        def __getitem__(self, index):
            Counted.asked += 1
            return (torch.tensor(1.0),)

    make(Mean, {"test": Counted()}, n_samples=8, batch_size=4).evaluate()
    assert Counted.asked == 8


def test_max_batches_ends_a_rehearsal_early_r9():
    evaluation = mean(batch_size=2)
    evaluation.max_batches = 1
    assert evaluation.evaluate() == 3.0
    assert evaluation.sizes == [2]


def test_resample_draws_other_samples_each_time():
    torch.manual_seed(0)
    evaluation = mean(n_samples=2, resample=True)
    assert len({evaluation.evaluate() for _ in range(10)}) > 1


def test_names_are_logged_with_the_first_as_alias_k10():
    outcome = read_outcome("X", mean(how="named").evaluate())
    assert outcome.metrics == {"X": 5.0, "X/a": 5.0, "X/b": 10.0}


def test_name_that_only_some_batches_have_is_averaged_over_those():
    class Sometimes(Mean):
        def evaluate_batch(self, data):
            values = data[0]
            return {"all": values, "large": values} if values.max() > 5 else {"all": values}

    result = make(Sometimes, {"test": TensorDataset(NUMBERS)}, batch_size=4).evaluate()
    assert result["value"] == pytest.approx({"all": 5.0, "large": 23 / 3})


def test_dataset_that_hands_itself_over_is_not_read_sample_by_sample():
    class Whole(Dataset):
        numbers = torch.arange(1000.0)
        asked = 0

        def __len__(self):
            return 1000

        def __getitem__(self, index):
            Whole.asked += 1
            return (self.numbers[index],)

        def as_tensors(self):
            return [self.numbers]

    evaluation = make(Mean, {"test": Whole()}, batch_size=300)
    assert [evaluation.evaluate(), evaluation.evaluate()] == [499.5, 499.5]
    assert evaluation.sizes == [300, 300, 300, 100] * 2
    assert Whole.asked < 100


def test_stream_without_length_is_measured():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(number,) for number in NUMBERS])

    assert make(Mean, {"test": Stream()}, batch_size=2).evaluate() == 5.0


def test_nan_and_infinity_are_measured_as_they_are():
    assert math.isnan(mean(torch.tensor([1.0, math.nan])).evaluate())
    assert mean(torch.tensor([1.0, math.inf])).evaluate() == math.inf


def test_empty_dataset_is_an_error_that_names_the_evaluation():
    with pytest.raises(TrainingError, match=r"The evaluation 'X' got no data: is its dataset emp"):
        mean(torch.zeros(0)).evaluate()


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("wrong", "X returned 1 values on a batch of 3 samples; return one per sample"),
        ("text", "'X' returned a str"),
        ("list", "'X' returned a list"),
    ],
)
def test_batch_value_that_makes_no_mean_is_an_error(how, told):
    with pytest.raises(TrainingError, match=told):
        mean(how=how, batch_size=3).evaluate()


def test_batch_value_of_one_name_is_named_in_its_error():
    class Named(Mean):
        def evaluate_batch(self, data):
            return {"part": data[0][:1]}

    with pytest.raises(TrainingError, match="The evaluation X/part returned 1 values"):
        make(Named, {"test": TensorDataset(NUMBERS)}).evaluate()


def test_evaluate_batch_that_is_not_defined_names_class_and_method_k2():
    class Half(DatasetEvaluation):
        pass

    evaluation = make(Half, {"test": TensorDataset(NUMBERS)}, evaluate_on="test")
    with pytest.raises(NotImplementedError, match=r"Half must define evaluate_batch\(data\)"):
        evaluation.evaluate()


def test_n_samples_below_one_is_refused():
    with pytest.raises(ComponentError, match="X: n_samples must be at least 1, got 0"):
        mean(n_samples=0)


def test_resample_without_length_is_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(ComponentError, match="resample needs Stream to define __len__"):
        make(Mean, {"test": Stream()}, resample=True)


# What evaluate() returns (K9)


@pytest.mark.parametrize(
    "result",
    [
        3,
        3.0,
        torch.tensor(3.0),
        torch.tensor([[3]]),
        np.float32(3),
        np.array(3.0),
        np.array([3]),
        {"type": "scalar", "value": 3.0},
        {"type": "scalar", "value": torch.tensor(3.0), "iteration": 17},
    ],
)
def test_number_is_logged_under_the_name_k9(result):
    assert read_outcome("X", result).metrics == {"X": 3.0}


@pytest.mark.parametrize(
    "result",
    [
        {"a": 1, "b": torch.tensor(2.0)},
        {"type": "scalars", "value": {"a": 1, "b": 2.0}},
        {"a": {"type": "scalar", "value": 1}, "b": 2},
    ],
)
def test_numbers_are_logged_below_the_name_and_the_first_as_the_name_k9(result):
    assert read_outcome("X", result).metrics == {"X": 1, "X/a": 1, "X/b": 2}


def test_alias_stays_when_a_second_number_is_added_k10():
    one = read_outcome("X", {"error": 4.0}).metrics
    two = read_outcome("X", {"error": 4.0, "more": 5.0}).metrics
    assert one["X"] == two["X"] == 4.0


def test_number_called_type_is_a_number():
    assert read_outcome("X", {"type": 0.5}).metrics == {"X": 0.5, "X/type": 0.5}


@pytest.mark.parametrize("result", [None, {}])
def test_nothing_is_logged_for_nothing_k9(result):
    outcome = read_outcome("X", result)
    assert (outcome.metrics, outcome.media) == ({}, {})


class Figure:
    def savefig(self, path, format):  # noqa: A002
        """Write nothing."""


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ("some text", "text"),
        (Figure(), "figure"),
        (Media("image", np.zeros((2, 2))), "image"),
        ({"type": "figure", "value": Figure()}, "figure"),
        ({"type": "image", "value": np.zeros((2, 2)), "caption": "c"}, "image"),
        ({"type": "images", "value": [np.zeros((2, 2))]}, "images"),
        ({"type": "histogram", "value": [1, 2]}, "histogram"),
        ({"type": "table", "value": [{"a": 1}]}, "table"),
        ({"type": "text", "value": "t"}, "text"),
        ({"type": "audio", "value": np.zeros(4), "sample_rate": 8000}, "audio"),
    ],
)
def test_media_of_every_kind_are_shown_under_the_name_k9(result, kind):
    outcome = read_outcome("X", result)
    assert {name: item.kind for name, item in outcome.media.items()} == {"X": kind}
    assert outcome.metrics == {}


def test_numbers_and_media_may_come_together():
    outcome = read_outcome("X", {"error": 1.0, "picture": Media("text", "t")})
    assert outcome.metrics == {"X": 1.0, "X/error": 1.0}
    assert list(outcome.media) == ["X/picture"]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ([1, 2], r"The evaluation 'X' returned a list; return a number, a mapping"),
        (torch.zeros(2), r"returned a Tensor of shape \(2,\)"),
        (object(), "returned a object"),
        (1j, "returned a complex"),
        ({"a": [1]}, "The evaluation 'X/a' returned a list"),
        ({"type": "scaler", "value": 1}, r"the type 'scaler'. Did you mean 'scalar'\?"),
        ({"type": "scalar"}, "has no 'value'"),
        ({"type": "scalar", "vlaue": 1, "value": 1}, "has an unknown key 'vlaue'"),
        ({"type": "scalars", "value": 3}, "returned 'scalars' with a int as value"),
        ({"type": "scalar", "value": "x"}, "returned a str"),
        ({"type": "audio", "value": [0.0]}, "'X' returned: Media: audio needs a sample_rate"),
    ],
)
def test_nonsense_is_an_error_that_names_the_evaluation(result, told):
    with pytest.raises(TrainingError, match=told):
        read_outcome("X", result)
