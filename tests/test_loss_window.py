"""L3 and T39: what ``add_loss_item`` takes, and what becomes of it."""

import math

import numpy as np
import pytest
import torch

from jade.errors import NonFiniteLossError, TrainingError
from jade.loss_window import PENDING_LIMIT, LossWindow


@pytest.fixture
def window():
    return LossWindow()


@pytest.mark.parametrize(
    "value",
    [
        2.0,
        2,
        True + 1,
        torch.tensor(2.0),
        torch.tensor([2.0], requires_grad=True),
        torch.tensor(2, dtype=torch.int64),
        torch.tensor(2.0, dtype=torch.bfloat16),
        np.float32(2.0),
        np.int64(2),
        np.array(2.0),
        np.array([[2.0]]),
    ],
)
def test_item_number_tensor_or_array_of_one_element_counts_l3(window, value):
    window.add("loss", value)
    assert window.take() == {"loss": 2.0}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (torch.zeros(3), r"a Tensor of shape \(3,\). Did you forget .mean\(\)\?"),
        (torch.zeros(0), r"a Tensor of shape \(0,\)"),
        (np.zeros((2, 2)), r"a ndarray of shape \(2, 2\). Did you forget .mean\(\)\?"),
        ("0.3", "str '0.3'"),
        (None, "NoneType None"),
        ([1.0], r"list \[1.0\]"),
        (1j, "complex 1j"),
    ],
)
def test_item_of_another_shape_or_kind_is_refused(window, value, told):
    with pytest.raises(TrainingError, match=rf"add_loss_item\('loss', ...\) takes .*{told}"):
        window.add("loss", value)


def test_window_holds_the_mean_since_the_last_one(window):
    for value in (1.0, 2.0, 6.0):
        window.add("loss", value)
    assert window.take() == {"loss": 3.0}
    window.add("loss", 10.0)
    assert window.take() == {"loss": 10.0}


def test_window_averages_each_item_over_its_own_count(window):
    for value in (1.0, 3.0):
        window.add("always", value)
    window.add("sometimes", 7.0)
    assert window.take() == {"always": 2.0, "sometimes": 7.0}


def test_window_without_an_item_has_no_entry_for_it(window):
    window.add("loss", 1.0)
    window.take()
    assert window.take() == {}


def test_item_keeps_no_graph_alive(window):
    weight = torch.zeros(1, requires_grad=True)
    window.add("loss", (weight * 2).sum())
    assert isinstance(window.state_dict()["sums"]["loss"], float)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, torch.tensor(math.nan)])
def test_item_that_is_not_finite_stops_training(window, value):
    window.add("loss", 1.0)
    with pytest.raises(NonFiniteLossError, match=r"The loss item 'loss' is -?(nan|inf)\."):
        window.add("loss", value)
    assert window.take() == {"loss": 1.0}


def test_item_that_is_not_finite_is_logged_where_that_is_allowed():
    window = LossWindow(stop_on_nan=False)
    window.add("loss", math.nan)
    assert math.isnan(window.take()["loss"])


def test_window_continues_from_its_state(window):
    window.add("loss", 1.0)
    other = LossWindow()
    other.load_state_dict(window.state_dict())
    other.add("loss", 3.0)
    assert other.take() == {"loss": 2.0}


def test_peek_shows_the_mean_so_far_and_takes_nothing(window):
    window.add("loss", 4.0)
    assert window.peek() == window.peek() == {"loss": 4.0}


# Tensors of other devices wait until somebody asks. Those of the CPU serve just as well here.


def test_item_of_another_device_waits(window):
    window.add("loss", torch.zeros((), device="meta"))
    assert len(window._pending["loss"]) == 1
    assert window.peek() == {}


@pytest.mark.parametrize("number", [1, 3, PENDING_LIMIT, 3 * PENDING_LIMIT + 5])
def test_waiting_items_give_the_same_mean_in_constant_memory(window, number):
    for value in range(number):
        window._add_pending("loss", torch.tensor([float(value)]))
        assert len(window._pending["loss"]) <= PENDING_LIMIT
    assert window.peek() == {}
    assert window.take() == {"loss": (number - 1) / 2}


def test_waiting_item_of_a_wrong_shape_is_refused_at_once(window):
    with pytest.raises(TrainingError, match="Did you forget"):
        window._add_pending("loss", torch.zeros(2))


def test_waiting_item_that_is_not_finite_is_found_and_the_window_can_still_be_stored(window):
    window._add_pending("loss", torch.tensor(math.inf))
    with pytest.raises(NonFiniteLossError, match="is inf"):
        window.take()
    assert window.state_dict() == {"sums": {}, "counts": {}}
