"""The points of a sweep: in W&B's order, at random, and those that tell most."""

import itertools

import pytest

from jade.origin import Origin
from jade.sweep.kinds import Reading
from jade.sweep.parameters import Parameter, ParameterReader
from jade.sweep.points import Grid, grid_of, sample_of, telling_points


def read(section):
    reader = ParameterReader({})
    reader.read(section)
    assert reader.problems == []
    return reader.parameters


def values(points):
    return [dict(point.values) for point in points]


def test_grid_is_in_wandbs_order():
    grid = grid_of(read({"b": {"values": [1, 2]}, "a": {"values": ["x", "y"]}, "c": {"value": 0}}))
    assert values(grid) == [
        {"a": "x", "b": 1, "c": 0},
        {"a": "x", "b": 2, "c": 0},
        {"a": "y", "b": 1, "c": 0},
        {"a": "y", "b": 2, "c": 0},
    ]
    assert dict(grid[2].values) == {"a": "y", "b": 1, "c": 0}
    with pytest.raises(IndexError):
        grid[4]


def test_grid_is_counted_without_being_made():
    grid = grid_of(read({name: {"min": 1, "max": 10**9} for name in "abc"}))
    assert grid.num_points == 10**27
    assert dict(grid[10**27 - 1].values) == {"a": 10**9, "b": 10**9, "c": 10**9}
    assert len(list(itertools.islice(grid, 3))) == 3


def test_grid_of_a_continuous_parameter_does_not_exist():
    parameters = read({"a": {"min": 0.0, "max": 1.0}})
    assert grid_of(parameters) is None
    with pytest.raises(ValueError, match="a has no end"):
        Grid(parameters)


def test_samples_are_the_same_whenever_they_are_asked_for():
    parameters = read({"a": {"min": 0.0, "max": 1.0}, "b": {"values": list(range(100))}})
    first = values(sample_of(parameters, index) for index in range(5))
    again = values(sample_of(parameters, index) for index in reversed(range(5)))
    assert first == again[::-1]
    assert len({str(point) for point in first}) == 5
    assert first != values(sample_of(parameters, index, seed=1) for index in range(5))


def test_telling_points_have_every_value_and_the_ends_of_ranges():
    parameters = read({"a": {"min": 1, "max": 9}, "b": {"values": ["x", "y", "z"]}})
    assert values(telling_points(parameters)) == [
        {"a": 1, "b": "x"},
        {"a": 9, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 1, "b": "z"},
    ]


def test_point_becomes_overrides_that_are_known_to_be_swept():
    reading = Reading({"value": 3})
    parameter = Parameter("model.z", "constant", reading.distribution, Origin("s.yml", 4))
    (point,) = grid_of([parameter])
    (override,) = point.overrides()
    assert (override.key, override.value, override.swept) == ("model.z", 3, True)
    assert str(override.origin) == "s.yml:4"
    assert str(point) == "model.z=3"


def test_nested_parameters_are_dotted_keys():  # W2
    parameters = read(
        {
            "model": {"parameters": {"params": {"parameters": {"lr": {"value": 0.1}}}}},
            "epochs": {"value": 2},
        }
    )
    assert [parameter.key for parameter in parameters] == ["epochs", "model.params.lr"]


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ({}, "the sweep has no parameters."),
        ([1], "parameters must be a mapping, not [1]."),
        ({"a": {"parameters": {}}}, "the sweep has no parameters."),
        ({"a": {"parameters": {"b": {"value": 1}}, "values": [1]}}, "a has nested parameters and"),
        (
            {"a": {"parameters": {"b": {"value": 1}}}, "a.b": {"value": 2}},
            "a.b is swept already",
        ),
    ],
)
def test_wrong_section_is_explained(section, text):
    reader = ParameterReader({})
    reader.read(section)
    assert text in " ".join(reader.problems)


def test_name_that_wandb_may_refuse_is_noted():
    reader = ParameterReader({})
    reader.read({"eval.My Error.params.n": {"value": 1}})
    assert "W&B may refuse the name 'eval.My Error.params.n'" in reader.notes[0]
