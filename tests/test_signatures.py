import inspect
from collections import OrderedDict
from typing import Any

import pytest
import torch

from jade.eval import Evaluation
from jade.signatures import (
    entry_name,
    entry_point,
    hints_of,
    lacks_self,
    missing_defaults,
    named_parameters,
    signature_of,
    takes_anything,
)
from jade.trainer import Trainer


class Mine(Trainer):
    def initialize(
        self, lr: float, *layers, beta: "int" = 3, net=torch.nn.Linear, **more
    ) -> None: ...


class Selfless(Evaluation):
    def initialize(lr): ...  # noqa: N805


class Plain:
    def __init__(self, a: int, b: "Nowhere" = 1, c: float = 2.0): ...  # noqa: F821


def test_trainers_and_evaluations_take_parameters_in_initialize():
    assert entry_point(Mine) is Mine.initialize
    assert entry_name(Mine) == "Mine.initialize"
    assert str(signature_of(Selfless)) == "()"


def test_other_classes_take_them_in_their_constructor():
    assert entry_point(Plain) is Plain
    assert entry_name(Plain) == "Plain"
    assert list(signature_of(Plain).parameters) == ["a", "b", "c"]


def test_signature_shows_neither_self_nor_what_is_returned():  # K16
    assert str(signature_of(Mine)).startswith("(lr: float, *layers, beta: 'int' = 3")
    assert "->" not in str(signature_of(Mine))


def test_class_of_which_python_knows_no_signature_takes_anything():
    assert signature_of(type) is None
    assert named_parameters(None) == {}
    assert takes_anything(None)


def test_only_parameters_with_a_name_of_their_own_can_be_given():
    assert list(named_parameters(signature_of(Mine))) == ["lr", "beta", "net"]
    assert takes_anything(signature_of(Mine))
    assert not takes_anything(signature_of(Plain))


def test_hints_are_resolved_as_far_as_possible():
    assert hints_of(Mine)["beta"] is int
    assert hints_of(Plain) == {"a": int, "c": float}
    assert hints_of(OrderedDict) == {}


def test_missing_defaults_are_those_that_yaml_can_hold():  # C11
    signature = signature_of(Mine)

    assert missing_defaults({"lr": 1}, signature) == {"beta": 3}
    assert missing_defaults({"beta": 1}, signature) == {}


@pytest.mark.parametrize(
    ("target", "name", "lacks"),
    [(Selfless, "lr", True), (Mine, "lr", False), (Plain, "self", False), (Plain, "a", False)],
)
def test_first_parameter_in_the_place_of_self_is_noticed(target, name, lacks):
    assert lacks_self(target, name) is lacks


def test_tuple_defaults_become_lists():
    class Tuples:
        def __init__(self, sizes: Any = (1, 2)): ...

    assert missing_defaults({}, inspect.signature(Tuples)) == {"sizes": [1, 2]}
