import collections.abc
import enum
import inspect
import typing
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import pytest
import torch

from jade.conform import Mismatch, conform, describe, expected_type


class Color(enum.Enum):
    RED = "r"
    BLUE = 2


@pytest.mark.parametrize(
    ("value", "expected", "fitted"),
    [
        (3, int, 3),
        (3.0, int, 3),
        (3, float, 3.0),
        (1e-4, float, 1e-4),
        (True, bool, True),
        ("x", str, "x"),
        (3, str, "3"),
        ("a/b", Path, Path("a/b")),
        (None, type(None), None),
        (None, int | None, None),
        (3.5, int | float, 3.5),
        (3, int | float, 3),
        (3, float | int, 3),
        ("3", int | str, "3"),
        (None, Optional[str], None),  # noqa: UP045
        (2.5, Union[int, float], 2.5),  # noqa: UP007
        ("train", Literal["train", "test"], "train"),
        ([1, 2.0], list[int], [1, 2]),
        ([1, 2], list, [1, 2]),
        ([1, 2], tuple[int, int], (1, 2)),
        ([1, 2, 3], tuple[float, ...], (1.0, 2.0, 3.0)),
        ([1, 2], tuple, (1, 2)),
        ([1, 1], set[int], {1}),
        ([1], collections.abc.Sequence[int], [1]),
        ([1], typing.Iterable[int], [1]),
        ({"a": 1}, dict[str, float], {"a": 1.0}),
        ({"a": 1}, dict, {"a": 1}),
        ({"a": 1}, collections.abc.Mapping[str, int], {"a": 1}),
        ("RED", Color, Color.RED),
        (2, Color, Color.BLUE),
        (Color.RED, Color, Color.RED),
        ([[1], [2]], list[list[int]], [[1], [2]]),
        (object, Any, object),
        ("x", object, "x"),
        ("x", inspect.Parameter.empty, "x"),
        (3, Annotated[float, "metres"], 3.0),
        ("float32", torch.dtype, "float32"),  # only its constructor knows
        ("x", collections.abc.Callable[[], int], "x"),
    ],
)
def test_value_that_fits_is_converted_without_loss(value, expected, fitted):
    result = conform(value, expected)

    assert result == fitted
    assert type(result) is type(fitted)


@pytest.mark.parametrize(
    ("value", "expected", "text"),
    [
        (3.5, int, "int"),
        (True, int, "int"),
        (float("inf"), int, "int"),
        (float("nan"), int, "int"),
        ("3", int, "int"),
        ("0.1", float, "float"),
        (True, float, "float"),
        (1, bool, "true or false"),
        ("yes", bool, "true or false"),
        (1.5, str, "text (quote it, if text is meant)"),
        (True, str, "text (quote it, if text is meant)"),
        (None, str, "text"),
        ([1], Path, "text"),
        (3, type(None), "null"),
        ("x", int | None, "int or null"),
        ("x", Literal["a", "b"], "one of 'a', 'b'"),
        (1, Literal[True], "one of True"),
        ("-1024", list[int], "list of int"),
        ([1, "x"], list[int], "list of int"),
        ([1], tuple[int, str], "list of 2: int, text"),
        (["x", "y"], tuple[int, str], "list of 2: int, text"),
        ("x", tuple[int, ...], "list of int"),
        ("x", list, "list"),
        ([1], dict[str, int], "mapping from text to int"),
        ({"a": "x"}, dict[str, int], "mapping from text to int"),
        (1, dict, "mapping"),
        ("GREEN", Color, "one of RED, BLUE"),
    ],
)
def test_value_that_does_not_fit_tells_what_would(value, expected, text):
    with pytest.raises(Mismatch) as caught:
        conform(value, expected)

    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("expected", "text"), [(Any, "anything"), (Color, "Color"), ("Odd", "Odd"), (Path, "text")]
)
def test_types_have_names(expected, text):
    assert describe(expected) == text


def kind_of(function):
    (parameter,) = inspect.signature(function).parameters.values()
    return expected_type(parameter, typing.get_type_hints(function))


def test_annotation_says_what_a_parameter_takes():
    def annotated(x: int = 3): ...
    def optional(x: int = None): ...  # noqa: RUF013
    def odd(x: "Any" = None): ...

    assert kind_of(annotated) is int
    assert kind_of(optional) == int | None
    assert conform("x", kind_of(odd)) == "x"


@pytest.mark.parametrize(
    ("default", "fits", "does_not"),
    [
        (True, False, 1),
        (3, 0.5, None),
        (0.5, 3, "x"),
        ("a", None, 1.5),
        ([1], ["x"], "x"),
        ((1, 2), None, 3),
        ({"a": 1}, {}, []),
    ],
)
def test_without_annotation_the_default_says_it(default, fits, does_not):
    def function(x=default): ...

    conform(fits, kind_of(function))
    with pytest.raises(Mismatch):
        conform(does_not, kind_of(function))


@pytest.mark.parametrize("default", [None, inspect.Parameter.empty, object()])
def test_without_annotation_and_telling_default_anything_fits(default):
    def function(x): ...

    (parameter,) = inspect.signature(function).parameters.values()
    assert expected_type(parameter.replace(default=default), {}) is Any


def test_annotation_that_cannot_be_united_stays_as_it_is():
    parameter = inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, default=None)

    assert expected_type(parameter, {"x": "not resolved"}) == "not resolved"
