"""Gradients that belong to more than one step are kept, others are not worth the room."""

import math

import pytest
import torch

from jade.gradients import Gradients


def watch(step, num_steps=3, start=0):
    """Let a step be done some times, and look after each; return what would be stored then."""
    parameter = torch.nn.Parameter(torch.ones(2))
    gradients = Gradients(lambda: {"it": parameter})
    gradients.look(start)
    stored = []
    for iteration in range(start, start + num_steps):
        step(parameter, iteration)
        gradients.look(iteration + 1)
        stored.append("it" in gradients.state_dict(iteration + 1))
    return stored, gradients


def zero_first(parameter, _):
    parameter.grad = None
    parameter.square().sum().backward()


def zero_last(parameter, _):
    parameter.square().sum().backward()
    parameter.grad = None


def keep_zeros(parameter, _):
    if parameter.grad is not None:
        parameter.grad.zero_()
    parameter.square().sum().backward()


def gather(number):
    def step(parameter, iteration):
        parameter.square().sum().backward()
        if (iteration + 1) % number == 0:
            parameter.grad = None

    return step


@pytest.mark.parametrize(
    ("step", "stored"),
    [
        (zero_first, [True, True, False]),
        (zero_last, [False, False, False]),
        (keep_zeros, [True, True, True]),
        (gather(2), [True, False, True]),
        (gather(3), [True, True, False]),
    ],
)
def test_gradients_are_stored_where_the_next_step_needs_them(step, stored):
    assert watch(step)[0] == stored


def test_gathering_that_begins_by_throwing_away_is_noticed_where_it_begins():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.zeros(2)
    gradients = Gradients(lambda: {"it": parameter})
    gradients.look(2)
    for iteration in (2, 3):
        if iteration % 2 == 0:
            parameter.grad = None
        parameter.square().sum().backward()
        gradients.look(iteration + 1)
    assert "it" in gradients.state_dict(4)


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_gathering_is_noticed_wherever_a_process_begins(start):
    stored, _ = watch(gather(4), num_steps=8, start=start)
    assert stored == [bool((start + i + 1) % 4) for i in range(8)]


def test_nobody_looks_any_more_once_it_is_known():
    _, gradients = watch(zero_first, num_steps=1)
    assert gradients.next_look() == 2
    _, gradients = watch(zero_last, num_steps=5)
    assert gradients.next_look() == math.inf
    _, gradients = watch(zero_first)
    gradients.look(gradients.next_look())
    assert gradients.next_look() == math.inf


def test_gathering_that_begins_late_is_noticed_after_a_checkpoint():
    def step(parameter, iteration):
        (zero_first if iteration < 4 else gather(20))(parameter, iteration)

    stored, _ = watch(step, num_steps=8)
    assert stored == [True, True, False, False, True, True, True, True]


def test_gradients_are_put_back():
    _, gradients = watch(gather(3), num_steps=2)
    state = gradients.state_dict(0)
    parameter = torch.nn.Parameter(torch.ones(2))
    Gradients(lambda: {"it": parameter, "other": torch.nn.Parameter()}).load_state_dict(state)
    assert parameter.grad.tolist() == [4.0, 4.0]
