import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jade.errors import ConfigError
from jade.origin import Origin
from jade.overrides import (
    Override,
    assign,
    exists,
    find,
    flatten,
    inflate,
    join_key,
    merge,
    parse_override,
    parse_value,
    split_key,
)

HERE = Origin("here")
PROPERTY = settings(deadline=None, database=None, max_examples=50)
SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers())
KEYS = st.text() | st.integers() | st.sampled_from(["a.b", "a/b", "[0]", "\\", "", "."])
NESTED = st.recursive(
    st.dictionaries(KEYS, SCALARS), lambda inner: st.dictionaries(KEYS, inner), max_leaves=10
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-05", 1e-05),  # what wandb agent prints
        ("None", None),
        ("null", None),
        ("True", True),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ("['a', None]", ["a", None]),
        ("[a, null]", ["a", None]),
        ("(1, 2)", (1, 2)),
        ("{'params': {'beta': 0.1}}", {"params": {"beta": 0.1}}),
        ("{a: 1, b: [x]}", {"a": 1, "b": ["x"]}),
        ("{1, 2}", {1: None, 2: None}),
        ("'1'", "1"),
        ('"k=v"', "k=v"),
        ("k=v", "k=v"),
        ("${HOME}/data", "${HOME}/data"),
        ("(abc", "(abc"),
        ("train+valid", "train+valid"),
        (" 3 ", 3),
        ("", ""),
    ],
)
def test_values_are_python_literals_or_yaml(text, value):  # C6
    assert parse_value(text) == value


def test_value_that_is_neither_is_refused():
    with pytest.raises(ConfigError, match="neither as a Python literal nor as YAML"):
        parse_value("[1, 2")


def test_override_splits_at_the_first_equals_sign():
    override = parse_override("c = k=v", HERE)

    assert override == Override("c", "k=v", HERE)
    assert override.path == ("c",)


@pytest.mark.parametrize("text", ["model.params.beta", "=3", " =3"])
def test_override_without_key_or_value_is_refused(text):
    with pytest.raises(ConfigError, match=r"here: .* is not of the form key=value"):
        parse_override(text, HERE)


def test_override_with_a_broken_value_names_its_key():
    with pytest.raises(ConfigError, match=r"here: a\.b is not understood, neither"):
        parse_override("a.b={1: ", HERE)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a.0", ("a", "0")),
        ("a.[0].b", ("a", 0, "b")),
        ("[None]", (None,)),
        ("a\\.b.c", ("a.b", "c")),
        ("\\[0]", ("[0]",)),
        ("a[0]", ("a[0]",)),
        ("a..b", ("a", "", "b")),
        ("", ("",)),
    ],
)
def test_keys_are_split_at_dots(key, path):
    assert split_key(key) == path


@pytest.mark.parametrize("key", ["a\\", "a.[x]", "a.[(]"])
def test_key_that_cannot_be_split_is_refused(key):
    with pytest.raises(ConfigError, match="is not a dotted key"):
        split_key(key)


@PROPERTY
@given(st.lists(KEYS, min_size=1).map(tuple))
def test_join_and_split_are_inverse(path):
    assert split_key(join_key(path)) == path


@PROPERTY
@given(NESTED)
def test_flatten_and_inflate_are_inverse(values):  # C13
    assert inflate(flatten(values)) == values


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"a": {}},
        {"a": None},
        {"a": [{"b": 1}, {"c": 2}]},
        {1: {2: "x"}, "1": {"2": "y"}},
        {"a.b": {"c/d": 1}, "a": {"b": 2}},
    ],
)
def test_flatten_and_inflate_keep_the_hard_cases(values):  # C13
    assert inflate(flatten(values)) == values


def test_inflate_copies_the_values():
    flat = {"a.b": [1]}

    inflate(flat)["a"]["b"].append(2)

    assert flat == {"a.b": [1]}


@pytest.mark.parametrize(
    ("flat", "message"),
    [
        ({"a": 1, "a.b": 2}, "goes through 'a', which has a value of its own"),
        ({"a.b": 2, "a": 1}, "'a' is given twice"),
    ],
)
def test_inflate_refuses_contradictions(flat, message):
    with pytest.raises(ConfigError, match=message):
        inflate(flat)


def test_find_goes_through_mappings_and_lists():
    values = {"a": [{"b": 1}]}

    assert find(values, ("a", 0, "b")) == 1
    assert find(values, ("a", "0", "b")) == 1
    assert exists(values, ("a", "0"))


@pytest.mark.parametrize("path", [("x",), ("a", "1"), ("a", "-1"), ("a", "0", "b", "c")])
def test_find_raises_key_error_where_there_is_nothing(path):
    assert not exists({"a": [{"b": 1}]}, path)


def test_assign_makes_mappings_and_replaces_places_in_lists():
    values = {"a": [1, {"b": 2}]}

    assign(values, ("a", "0"), 5)
    assign(values, ("a", 1, "b"), 6)
    assign(values, ("x", "y", "z"), {"w": 7})

    assert values == {"a": [5, {"b": 6}], "x": {"y": {"z": {"w": 7}}}}


def test_assign_replaces_a_mapping():
    values = {"eval": {"Error": 1}}

    assign(values, ("eval",), {})

    assert values == {"eval": {}}


def test_assign_copies_the_value():
    value = [1]
    values = {}

    assign(values, ("a",), value)
    values["a"].append(2)

    assert value == [1]


@pytest.mark.parametrize("path", [("a", "b"), ("a", "b", "c"), ("l", "3"), ("l", "x")])
def test_assign_below_a_single_value_is_refused(path):
    with pytest.raises(ConfigError, match="which has no"):
        assign({"a": 1, "l": [1]}, path, 2)


def test_merge_is_deep_and_the_update_wins():
    base = {"a": {"x": 1, "y": [1, 2]}, "b": 1}
    update = {"a": {"y": [3]}, "c": {"d": 2}}
    unchanged = copy.deepcopy(update)

    merge(base, update)
    base["c"]["d"] = 9

    assert base == {"a": {"x": 1, "y": [3]}, "b": 1, "c": {"d": 9}}
    assert update == unchanged


def test_merge_of_another_class_drops_the_old_parameters():
    base = {"class": "A", "params": {"old": 1}}

    merge(base, {"class": "B", "params": {"new": 2}})

    assert base == {"class": "B", "params": {"new": 2}}


@pytest.mark.parametrize("update", [{"class": "A", "params": {"b": 2}}, {"params": {"b": 2}}])
def test_merge_of_the_same_class_keeps_its_parameters(update):
    base = {"class": "A", "params": {"a": 1}}

    merge(base, update)

    assert base["params"] == {"a": 1, "b": 2}
