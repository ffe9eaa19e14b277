"""Facts about nested batches."""

import collections
import dataclasses
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from nested import assert_same
from torch.nn.utils.rnn import pack_sequence

from jade.batch import count, inner_items, move, take
from jade.errors import ConfigError

META = torch.device("meta")


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Pair:
    images: Any
    name: Any


class Movable:
    def __init__(self, device="cpu"):
        self.device = device

    def to(self, device):
        return Movable(device)


def test_move_tensor_goes_to_the_device():
    assert move(torch.zeros(3), META).device == META


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: [a, b],
        lambda a, b: (a, b),
        Point,
        lambda a, b: {"a": a, "b": b},
        lambda a, b: collections.OrderedDict(a=a, b=b),
        lambda a, b: types.MappingProxyType({"a": a, "b": b}),
        Pair,
    ],
)
def test_move_container_keeps_its_class(make):
    moved = move(make(torch.zeros(2), torch.ones(3)), "meta")

    assert type(moved) is type(make(1, 2))
    assert [item.device for item in inner_items(moved)] == [META, META]


class Fixed(tuple):
    def __new__(cls, first, second):
        return super().__new__(cls, (first, second))


class FrozenMapping(collections.abc.Mapping):
    def __init__(self, **items):
        self.items_inside = items

    def __getitem__(self, key):
        return self.items_inside[key]

    def __iter__(self):
        return iter(self.items_inside)

    def __len__(self):
        return len(self.items_inside)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (Fixed(torch.zeros(1), torch.zeros(1)), tuple),
        (FrozenMapping(a=torch.zeros(1), b=torch.zeros(1)), dict),
    ],
)
def test_move_container_that_cannot_be_rebuilt_becomes_a_plain_one(data, kind):
    moved = move(data, "meta")

    assert type(moved) is kind
    assert [item.device for item in inner_items(moved)] == [META, META]


def test_move_default_dict_keeps_its_default():
    moved = move(collections.defaultdict(list, a=torch.zeros(2)), "meta")

    assert moved["a"].device == META
    assert moved["unknown"] == []


def test_move_nested_batch_reaches_every_tensor():
    moved = move({"a": [torch.zeros(1), (torch.zeros(2), "text")], "b": 3}, "meta")

    assert moved["a"][0].device == moved["a"][1][0].device == META
    assert moved["a"][1][1] == "text"
    assert moved["b"] == 3


def test_move_object_with_its_own_method_uses_it():
    assert move([Movable()], "meta")[0].device == "meta"
    assert move(pack_sequence([torch.zeros(3)]), "meta").data.device == META


@pytest.mark.parametrize("value", ["text", 3, None, b"bytes", Movable, Pair, np.zeros(2), {1, 2}])
def test_move_anything_else_stays_the_same_object(value):
    assert move(value, "meta") is value


def test_move_batch_in_place_already_is_the_same_object():
    data = {"x": torch.zeros(2), "y": [torch.zeros(2), "a"], "z": Pair(torch.zeros(1), "n")}

    assert move(data, "cpu") is data


def test_move_leaves_the_original_batch_unchanged():
    data = {"x": torch.zeros(2), "pair": Pair(torch.zeros(1), "n")}

    move(data, "meta")

    assert data["x"].device == data["pair"].images.device == torch.device("cpu")


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (torch.zeros(4, 2), 4),
        ([torch.zeros(5, 2), torch.zeros(7)], 5),
        ({"weight": torch.tensor(0.5), "x": [torch.zeros(3, 1)]}, 3),
        ({"names": ["a", "b"], "x": torch.zeros(6)}, 6),
        (["a", "b", "c"], 3),
        ({"names": ("a", "b")}, 2),
        (np.zeros((8, 2)), 8),
        (Pair(torch.zeros(9, 1), "n"), 9),
        (pack_sequence([torch.zeros(3), torch.zeros(2)]), 2),
        (torch.zeros(0, 3), 0),
    ],
)
def test_count_finds_the_number_of_samples(data, number):
    assert count(data) == number


@pytest.mark.parametrize(
    "data", [torch.tensor(1.0), {}, "text", 3, None, {"loss": torch.tensor(1)}]
)
def test_count_of_what_has_no_samples_raises(data):
    with pytest.raises(ConfigError, match=f"batch of type {type(data).__name__} cannot be known"):
        count(data)


def test_take_cuts_everything_that_is_as_long_as_the_batch():
    data = {
        "x": torch.arange(8).reshape(4, 2),
        "y": [torch.arange(4), ("a", "b", "c", "d")],
        "array": np.arange(4),
        "class_weights": torch.ones(10),
        "temperature": torch.tensor(2.0),
        "split": "train",
    }

    cut = take(data, 3)

    assert_same(cut["x"], torch.arange(6).reshape(3, 2))
    assert_same(cut["y"], [torch.arange(3), ("a", "b", "c")])
    assert cut["array"].tolist() == [0, 1, 2]
    assert len(cut["class_weights"]) == 10
    assert cut["temperature"] == 2
    assert cut["split"] == "train"


def test_take_two_columns_of_two_samples_cuts_the_columns():
    assert_same(take([torch.arange(2), torch.arange(2)], 1), [torch.arange(1), torch.arange(1)])


def test_take_list_without_tensors_cuts_the_list():
    assert take(["a", "b", "c"], 2) == ["a", "b"]


def test_take_at_least_everything_is_the_same_object():
    data = [torch.zeros(3)]

    assert take(data, 3) is data
    assert take(data, 4) is data


def test_take_of_a_packed_sequence_raises():
    with pytest.raises(ConfigError, match="cannot be cut to 1 of its 2 samples"):
        take(pack_sequence([torch.zeros(3), torch.zeros(2)]), 1)
