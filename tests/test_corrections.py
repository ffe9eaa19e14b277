from typing import Literal

import pytest

from jade.corrections import correction


@pytest.mark.parametrize(
    ("value", "expected", "text"),
    [
        ("yes", bool, " Write true."),
        ("Off", bool, " Write false."),
        ("True", bool, " Write true."),
        ("maybe", bool, ""),
        ("50_000", int, " Write 50000."),
        ("1,000", int | None, " Write 1000."),
        ("0.1,", float, " Write 0.1."),
        ("0.1", float, " Write 0.1 without quotes."),
        ("0.1#fast", float, " Write 0.1 # with a blank before the comment."),
        ("inf", float, " Write .inf."),
        ("-inf", float, " Write -.inf."),
        ("NaN", float, " Write .nan."),
        ("fast", float, ""),
        ("true", float, ""),
        (3.5, int, ""),
        ("1024, 256", list[int], " Write [1024, 256]."),
        ("1024 256", list[int] | None, " Write [1024, 256]."),
        (1024, list[int], " Write [1024]."),
        ("relu", list, " Write a list: [first, second]."),
        ({}, tuple[int, ...], ""),
        ("trian", Literal["train", "test"], " Did you mean 'train'?"),
        ("xyz", Literal["train"] | None, ""),
        (None, float, " Is the value missing behind the key?"),
        ("x", dict, ""),
    ],
)
def test_what_was_meant_is_written_as_yaml_has_it(value, expected, text):
    assert correction(value, expected) == text
