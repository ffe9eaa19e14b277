"""A trace says what each step starts from, and names what is not as it was after a resume."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from toy import Rehearsal

from jade.digest import Digester
from jade.trace import last_iteration, load_course


def parts(value, **options):
    return dict(Digester(**options).parts("it", value))


class Holder:
    def __init__(self, **attributes):
        vars(self).update(attributes)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, 1.0),
        (0.1, 0.1 + 1e-17 + 1e-16),
        ("a", "b"),
        (None, 0),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
        (torch.zeros(2), torch.tensor([0.0, 1e-30])),
        (torch.zeros(2), torch.zeros(2, 1)),
        (torch.zeros(1, dtype=torch.bfloat16), torch.ones(1, dtype=torch.bfloat16)),
        (np.zeros(2), np.array([0.0, 1.0])),
        (random.Random(1), random.Random(2)),
        (np.random.default_rng(1), np.random.default_rng(2)),
        (torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)),
    ],
)
def test_digest_tells_values_apart(one, other):
    assert Digester().digest(one) != Digester().digest(other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: [1, "a", {"b": (2.5, None)}],
        lambda: {"a": 1, "b": {3, 4}},
        lambda: torch.tensor([float("nan"), 1.0]),
        lambda: torch.arange(6).reshape(2, 3).T,
        lambda: random.Random(3),
        lambda: np.random.default_rng(3),
    ],
)
def test_digest_of_equal_values_is_the_same(make):
    assert Digester().digest(make()) == Digester().digest(make())
    assert Digester().digest(make()) is not None


def test_digest_of_a_mapping_does_not_depend_on_its_order():
    assert Digester().digest({"a": 1, "b": 2}) == Digester().digest({"b": 2, "a": 1})


def test_parts_of_objects_are_named_by_their_attributes():
    inner = Holder(position=3)
    assert set(parts(Holder(count=1, inner=inner, many=[inner, Holder(x=1)]))) == {
        "it.count",
        "it.inner.position",
        "it.many[1].x",
    }


def test_parts_of_a_network_are_its_tensors_and_what_steers_it():
    found = parts(nn.Sequential(nn.Linear(1, 1, bias=False), nn.Dropout(0.5), nn.BatchNorm1d(1)))
    for name in ("0.weight", "0.weight.requires_grad", "1.p", "1.training", "2.running_mean"):
        assert f"it.{name}" in found


def test_parts_of_an_object_that_refers_to_itself_end():
    holder = Holder(x=1)
    holder.itself = [holder]
    assert set(parts(holder)) == {"it.x"}


def test_parts_leave_machinery_out(tmp_path):
    with (tmp_path / "file").open("w") as file:
        assert parts(Holder(file=file, function=print, module=json, kind=Holder)) == {}


def test_parts_of_iterators_say_how_far_they_are():
    def count():
        for index in range(3):
            yield -index

    iterators = Holder(
        listed=iter([1, 2, 3]),
        loader=iter(DataLoader(TensorDataset(torch.arange(4)))),
        written=count(),
    )
    next(iterators.written)
    before = parts(iterators)
    for iterator in vars(iterators).values():
        next(iterator)
    after = parts(iterators)
    assert {name for name in before if before[name] != after[name]} == {
        "it.listed.left",
        "it.loader.position",
        "it.written.index",
    }


def test_samples_of_large_data_are_enough_where_that_is_asked_for():
    large = torch.zeros(100_000)
    sampled = Digester(samples=True).digest(large)
    large[1] = 1
    assert Digester(samples=True).digest(large) == sampled
    large[:] = 1
    assert Digester(samples=True).digest(large) != sampled


# The trace of a training


def trace_of(tmp_path, monkeypatch, **arguments):
    monkeypatch.setenv("JADE_TRACE", str(tmp_path / "trace"))
    Rehearsal(tmp_path / "runs", epochs=2, **arguments).run()
    return load_course(tmp_path / "trace")


def test_trace_has_a_line_before_each_step_and_one_at_the_end(tmp_path, monkeypatch):
    course = trace_of(tmp_path, monkeypatch)
    assert course.started_at == 0
    assert [line.iteration for line in course.lines] == list(range(len(course.lines)))
    assert [line.batch is None for line in course.lines].index(True) == len(course.lines) - 1
    assert course.lines[-1].epoch == 2


def test_trace_changes_nothing(tmp_path, monkeypatch):
    plain = Rehearsal(tmp_path / "plain", epochs=2).run()
    monkeypatch.setenv("JADE_TRACE", str(tmp_path / "trace"))
    assert torch.equal(Rehearsal(tmp_path / "traced", epochs=2).run().weights, plain.weights)


def test_loop_calls_the_step_itself_when_nothing_is_traced(tmp_path):
    rehearsal = Rehearsal(tmp_path, epochs=1)
    assert rehearsal.loop._find_step() == rehearsal.trainer.train_step
    rehearsal.run()


def test_trace_that_was_cut_while_it_was_written_is_read_up_to_there(tmp_path, monkeypatch):
    course = trace_of(tmp_path, monkeypatch)
    path = Path(tmp_path / "trace")
    path.write_bytes(path.read_bytes()[:-5])
    assert load_course(path).lines == course.lines[:-1]


def test_trace_that_was_never_begun_is_empty(tmp_path):
    assert load_course(tmp_path / "none").started_at is None


def test_last_iteration_is_found_in_a_part_of_a_trace():
    text = b'{"started_at": 3}\n{"iteration": 3, "epoch": 1}\n{"iteration": 14, "epoch": 1}\n'
    assert last_iteration(text) == 14
    assert last_iteration(b'{"started_at": 3}\n') is None
