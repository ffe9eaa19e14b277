"""S2: what keeps state is found wherever an attribute holds it."""

import random
from types import MappingProxyType

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from jade import stateful
from jade.errors import CheckpointError


class Average:
    """Somebody's own object with state."""

    def __init__(self):
        self.value = 0.0

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


class HalfWay:
    def state_dict(self):
        return {}


def parameter():
    return torch.zeros(2, requires_grad=True)


@pytest.mark.parametrize(
    "value",
    [
        nn.Linear(1, 1),
        torch.optim.Adam([parameter()]),
        torch.amp.GradScaler("cpu"),
        Average(),
        parameter(),
        torch.Generator(),
        random.Random(),
        np.random.default_rng(),
        np.random.RandomState(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_state_is_found_in_an_attribute_a_list_and_a_mapping(value):
    assert list(stateful.find("a", value)) == [("a", value)]
    nested = {"x": [1, value], "y": ("text", None)}
    assert list(stateful.find("a", nested)) == [("a['x'][1]", value)]


@pytest.mark.parametrize(
    "value", [1, "text", None, torch.zeros(2), parameter() * 2, nn.Linear, HalfWay(), [], {}, print]
)
def test_state_is_not_seen_where_there_is_none(value):
    assert list(stateful.find("a", value)) == []


@pytest.mark.parametrize(
    ("make", "use"),
    [
        (torch.Generator, lambda g: torch.rand(3, generator=g).tolist()),
        (lambda: random.Random(1), lambda g: [g.random(), g.gauss(0, 1)]),
        (lambda: np.random.default_rng(1), lambda g: g.normal(size=3).tolist()),
        (lambda: np.random.RandomState(1), lambda g: g.normal(size=3).tolist()),
    ],
)
def test_generator_goes_on_where_its_state_was_taken(make, use):
    generator = make()
    use(generator)
    state = stateful.state_of(generator)
    expected = use(generator)
    stateful.load_state(generator, state)
    assert use(generator) == expected


def test_trained_tensor_is_loaded_in_place_so_that_its_optimizer_still_knows_it():
    tensor = parameter()
    optimizer = torch.optim.SGD([tensor], lr=1.0)
    state = torch.ones(2)
    stateful.load_state(tensor, state)
    assert tensor.data_ptr() != state.data_ptr()
    assert optimizer.param_groups[0]["params"][0].tolist() == [1.0, 1.0]
    assert tensor.requires_grad


def test_own_object_is_stored_by_its_own_methods():
    one, two = Average(), Average()
    one.value = 5.0
    stateful.load_state(two, stateful.state_of(one))
    assert two.value == 5.0


def trained(optimizer, tensor):
    tensor.grad = torch.ones_like(tensor)
    optimizer.step()
    return optimizer.state_dict()


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad])
def test_optimizer_of_other_shapes_is_a_misfit(kind):
    small, large = torch.zeros(2, requires_grad=True), torch.zeros(3, requires_grad=True)
    optimizer = kind([small])
    state = trained(optimizer, small)
    assert stateful.misfit(optimizer, state) is None
    problem = stateful.misfit(kind([large]), state)
    assert "shape (2,) in the checkpoint, (3,) here" in problem


def test_optimizer_of_other_groups_is_a_misfit():
    state = torch.optim.SGD([parameter()]).state_dict()
    problem = stateful.misfit(torch.optim.SGD([{"params": [parameter()]}, {"params": []}]), state)
    assert problem == "has groups of [1] parameters in the checkpoint, of [1, 0] here"


def test_optimizer_that_keeps_other_shapes_by_design_fits():
    tensor = torch.zeros(4, 3, requires_grad=True)
    optimizer = torch.optim.Adafactor([tensor])
    assert stateful.misfit(optimizer, trained(optimizer, tensor)) is None


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (nn.Linear(2, 3), "weight has the shape (1, 2) in the checkpoint, (3, 2) here"),
        (nn.Linear(2, 1, bias=False), "has bias in the checkpoint only"),
        (nn.Bilinear(2, 2, 1), "weight has the shape"),
        (nn.LazyLinear(1), None),
    ],
)
def test_module_in_a_list_is_compared_by_names_and_shapes(module, told):
    problem = stateful.misfit(module, nn.Linear(2, 1).state_dict())
    assert problem is None if told is None else told in problem
    assert stateful.misfit(nn.Linear(2, 1, bias=False), {}) == "has weight here only"


def test_load_names_what_refused_its_state():
    with pytest.raises(CheckpointError, match=r"The state of ema cannot be loaded: 'value'"):
        stateful.load_checked("ema", Average(), {})


def test_unheld_parameters_of_an_optimizer_are_counted():
    network = nn.Linear(2, 1)
    lost = nn.Linear(2, 2)
    both = torch.optim.SGD([*network.parameters(), *lost.parameters()])
    assert stateful.count_unheld({"net": network, "opt": both}) == {"opt": 2}
    assert stateful.count_unheld({"net": network, "other": lost, "opt": both}) == {}


def test_unheld_parameters_may_belong_to_an_object_that_stores_them_itself():
    optimizer = torch.optim.SGD([parameter()])
    assert stateful.count_unheld({"opt": optimizer, "own": Average()}) == {}


def test_spoilt_parameter_or_buffer_is_named():
    network = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    assert stateful.find_spoilt(stateful.watch([network])) is None
    network[1].running_mean.fill_(torch.nan)
    assert stateful.find_spoilt(stateful.watch([network])) == "the buffer 1.running_mean"
    network[0].weight.data.fill_(torch.inf)
    assert stateful.find_spoilt(stateful.watch([network])) == "the parameter 0.weight"


def test_infinity_that_is_not_trained_spoils_nothing():
    network = nn.Linear(1, 1).requires_grad_(False)
    network.weight.data.fill_(torch.inf)
    network.register_buffer("mask", torch.tensor([-torch.inf]))
    assert stateful.find_spoilt(stateful.watch([network, nn.LazyLinear(1)])) is None


class Holder:
    def __init__(self, **parts):
        vars(self).update(parts)


def test_generators_are_found_in_objects_within_objects_once():
    shared = random.Random(1)
    inner = Holder(rng=np.random.default_rng(0), again=shared, weights=nn.Linear(1, 1))
    outer = Holder(own=shared, steps=[inner, {"k": torch.Generator()}], loop=None)
    outer.loop = outer
    found = dict(stateful.find_generators(outer))
    assert list(found) == ["own", "steps.0.rng", "steps.1.k"]
    assert found["own"] is shared


def test_state_is_found_in_objects_within_objects():
    inner = Holder(opt=torch.optim.SGD([parameter()]), own=Average(), name="text")
    outer = Holder(agents=[inner], net=nn.Linear(1, 1), weights=parameter(), again=inner)
    found = [path for path, _ in stateful.find_held({"a": outer})]
    assert found == ["a.net", "a.weights", "a.again.opt", "a.again.own"]


@pytest.mark.parametrize(
    "value",
    [
        nn.MSELoss(),
        nn.Linear,
        torch,
        torch.zeros(2),
        TensorDataset(parameter()),
        DataLoader([nn.Linear(1, 1)]),
        MappingProxyType({"net": nn.Linear(1, 1)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_state_is_not_looked_for_in_data_and_libraries(value):
    assert list(stateful.find_held({"a": Holder(value=value)})) == []


def test_generators_are_not_looked_for_in_data():
    assert dict(stateful.find_generators(Holder(many=[random.Random(0)] * 100))) == {}


def test_generators_of_a_forest_of_objects_are_found_in_bounded_time():
    def grow(depth):
        return Holder(children=[grow(depth - 1) for _ in range(20)] if depth else [], leaf=depth)

    forest = Holder(near=random.Random(0), trees=[grow(3) for _ in range(4)])
    assert list(dict(stateful.find_generators(forest))) == ["near"]
