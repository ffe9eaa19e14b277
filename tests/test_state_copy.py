"""S6: a state that is being written is a copy that training cannot change any more."""

import collections

import pytest
import torch

from jade.state_copy import StateCopy


def storages(value):
    """Return where the numbers of all tensors in a nested value are."""
    if isinstance(value, torch.Tensor):
        dense = value if value.layout is torch.strided else value._values()
        return {dense.untyped_storage().data_ptr()}
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return set().union(*map(storages, value))
    return set()


def test_copy_has_equal_values():
    state = {"a": torch.randn(3), "b": [torch.arange(4), (torch.tensor(True), 2.5, "text", None)]}
    copied = StateCopy().take(state)
    assert torch.equal(copied["a"], state["a"])
    assert torch.equal(copied["b"][0], state["b"][0])
    assert copied["b"][1][0].item() is True
    assert copied["b"][1][1:] == (2.5, "text", None)


def test_copy_does_not_change_with_the_original():
    weight, listed = torch.ones(3), [1, 2]
    copied = StateCopy().take({"weight": weight, "list": listed})
    weight.add_(1)
    listed.append(3)
    assert torch.equal(copied["weight"], torch.ones(3))
    assert copied["list"] == [1, 2]


def test_copy_shares_no_memory_with_the_original():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    state = {
        "module": module.state_dict(),
        "part": torch.randn(6)[2:4],
        "turned": torch.ones(2, 3).T,
    }
    assert not storages(StateCopy().take(state)) & storages(state)


@pytest.mark.parametrize(
    "value",
    [
        collections.Counter({3: 2}),
        {1, 2},
        (1, (2, 3)),
        [1, [2]],
        {"a": {}},
        torch.Size([2, 3]),
        b"bytes",
        2**200,
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_keeps_its_kind(value):
    copied = StateCopy().take({"value": value})["value"]
    assert copied == value
    assert isinstance(copied, tuple) if isinstance(value, tuple) else type(copied) is type(value)


def test_sets_and_counters_are_independent():
    state = {"set": {1}, "counter": collections.Counter("a")}
    copied = StateCopy().take(state)
    state["set"].add(2)
    state["counter"]["b"] += 1
    assert copied == {"set": {1}, "counter": collections.Counter("a")}


def test_tied_weights_stay_tied():
    weight = torch.randn(3)
    copied = StateCopy().take({"encoder": weight, "decoder": weight})
    assert copied["encoder"] is copied["decoder"]


def test_tensors_without_elements_are_not_taken_for_each_other():
    state = {"a": torch.empty(0, 3), "b": torch.empty(0, 3)}
    copied = StateCopy().take(state)
    assert copied["a"] is not copied["b"]
    assert copied["a"].shape == (0, 3)


def test_views_of_one_tensor_are_copied_each():
    whole = torch.arange(6.0)
    copied = StateCopy().take({"first": whole[:3], "second": whole[3:], "whole": whole})
    assert copied["first"].tolist() == [0, 1, 2]
    assert copied["second"].tolist() == [3, 4, 5]
    assert copied["whole"].tolist() == [0, 1, 2, 3, 4, 5]


def test_memory_is_used_again_for_the_next_copy():
    state_copy, state = StateCopy(), {"a": torch.randn(5), "b": [torch.randn(2, 2)]}
    first = state_copy.take(state)
    before = storages(first)
    state["a"].mul_(2)
    second = state_copy.take(state)
    assert storages(second) == before
    assert torch.equal(second["a"], state["a"])


@pytest.mark.parametrize("changed", [torch.randn(7), torch.zeros(5, dtype=torch.int64)])
def test_tensor_of_another_shape_or_type_is_copied_anew(changed):
    state_copy = StateCopy()
    state_copy.take({"a": torch.randn(5)})
    copied = state_copy.take({"a": changed})
    assert copied["a"].dtype == changed.dtype
    assert torch.equal(copied["a"], changed)


def test_state_that_gains_and_loses_entries_is_copied_as_it_is():
    state_copy = StateCopy()
    state_copy.take({"a": torch.ones(2)})
    assert state_copy.take({"a": torch.ones(2), "b": torch.zeros(3)})["b"].tolist() == [0, 0, 0]
    assert list(state_copy.take({"b": torch.ones(3)})) == ["b"]


def test_weights_that_are_no_longer_tied_are_copied_apart():
    state_copy, weight = StateCopy(), torch.ones(2)
    state_copy.take({"a": weight, "b": weight})
    copied = state_copy.take({"a": weight, "b": torch.zeros(2)})
    assert copied["a"].tolist() == [1, 1]
    assert copied["b"].tolist() == [0, 0]


def test_weights_that_become_tied_are_equal():
    state_copy, weight = StateCopy(), torch.ones(2)
    state_copy.take({"a": weight, "b": torch.zeros(2)})
    copied = state_copy.take({"a": weight, "b": weight})
    assert copied["a"].tolist() == copied["b"].tolist() == [1, 1]


def test_memory_that_stood_for_tied_weights_is_not_shared_when_they_part():
    state_copy, weight, other = StateCopy(), torch.ones(2), torch.zeros(2)
    for state in ({"a": weight, "b": weight}, {"a": weight, "b": other}, {"a": other, "b": weight}):
        copied = state_copy.take(state)
        assert copied["a"].tolist() == state["a"].tolist()
        assert copied["b"].tolist() == state["b"].tolist()


def test_sparse_tensors_are_copied():
    sparse = torch.tensor([1.0, 0.0, 2.0, 0.0]).to_sparse()
    copied = StateCopy().take({"a": sparse})["a"]
    assert copied.layout is torch.sparse_coo
    assert torch.equal(copied.to_dense(), sparse.to_dense())
    assert not storages(copied) & storages(sparse)


def test_parameters_become_plain_tensors():
    copied = StateCopy().take({"w": torch.nn.Parameter(torch.ones(2))})["w"]
    assert not copied.requires_grad


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(2, 3).T,
        torch.randn(1, 3).expand(4, 3),
        torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    ],
    ids=["turned", "expanded", "channels last"],
)
def test_tensors_that_lie_otherwise_in_memory_are_copied(tensor):
    state_copy = StateCopy()
    for _ in range(2):
        assert torch.equal(state_copy.take({"a": tensor})["a"], tensor)


def test_copy_of_a_tensor_is_found_by_the_tensor():
    state_copy, weight = StateCopy(), torch.ones(2)
    copied = state_copy.take({"a": weight})
    assert state_copy.find(weight) is copied["a"]
    assert state_copy.find(torch.ones(2)) is None
