from pathlib import Path
from typing import Any

import pytest

from jade.config import Configuration
from jade.errors import ConfigError, VariableError
from jade.fitter import Fitter
from jade.origin import Origin
from jade.problems import Problems

ENVIRON = {"N": "4", "ZEROS": "007", "LIST": "[1]", "WANDB_USER": "me"}
WHERE = {("a",): Origin("f.yml", 3)}


@pytest.fixture
def problems():
    return Problems(Configuration(origins=WHERE, environ=ENVIRON))


@pytest.fixture
def fitter(problems):
    return Fitter(Configuration(origins=WHERE, environ=ENVIRON), problems)


@pytest.mark.parametrize(
    ("value", "expected", "fitted"),
    [
        ("$N", int, 4),  # C7
        ("$N", Any, 4),
        ("$N", str, "4"),
        ("$ZEROS", str, "007"),
        ("$ZEROS", str | None, "007"),
        ("$ZEROS", int, 7),
        ("$ZEROS", Path, Path("007")),
        ("${N}5", int | str, 45),
        ("$LIST", str, "[1]"),
        (["$N", {"a": "$N"}], Any, [4, {"a": 4}]),
        (["$N"], list[int], [4]),
        (None, int | None, None),
        (3, float, 3.0),
    ],
)
def test_value_is_expanded_and_fitted(fitter, problems, value, expected, fitted):
    result = fitter.fit(value, expected, ("a",))

    assert result == fitted
    assert type(result) is type(fitted)
    assert not problems


def test_value_that_does_not_fit_is_noted_with_its_place(fitter, problems):  # C10
    assert fitter.fit("fast", float, ("a",)) is None
    assert fitter.fit("$LIST", float, ("a",)) is None
    assert fitter.fit(None, float, ("a",)) is None

    with pytest.raises(ConfigError) as caught:
        problems.raise_all()
    assert str(caught.value).splitlines()[1:] == [
        "  1. a (f.yml:3): expected float, not 'fast'.",
        "  2. a (f.yml:3): expected float, not '[1]'.",
        "  3. a (f.yml:3): expected float, not null. Is the value missing behind the key?",
    ]


def test_missing_variables_are_all_in_one_message(fitter, problems):  # C7
    assert fitter.fit("$X/$Y", str, ("a",)) is None
    assert fitter.expand({"k": ["${X}", "${WAND_USER}"]}, ("b",)) == {"k": [None, None]}

    with pytest.raises(VariableError) as caught:
        problems.raise_all()
    assert str(caught.value).splitlines() == [
        "3 environment variables are not set:",
        "    X for a (f.yml:3), b.k.[0].",
        "    Y for a (f.yml:3).",
        "    WAND_USER for b.k.[1]. Is WANDB_USER meant, which is set?",
        "    Export them, write them to .env, or give a default: ${NAME:-default}.",
    ]


def test_missing_variable_is_told_beside_other_problems(fitter, problems):
    fitter.expand("$X", ("a",))
    problems.add("something else")

    with pytest.raises(
        ConfigError, match=r"(?s)2 problems.*something else.*1 environment variable is"
    ):
        problems.raise_all()


def test_malformed_variable_is_noted(fitter, problems):
    assert fitter.fit("${N-1}", int, ("a",)) is None

    with pytest.raises(ConfigError, match=r"a \(f\.yml:3\): .* is not a variable"):
        problems.raise_all()


def test_without_problems_nothing_is_raised(problems):
    assert not problems
    problems.raise_all()
