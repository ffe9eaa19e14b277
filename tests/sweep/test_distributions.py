"""W&B's distributions: what they can be, how often, and in a grid."""

import math
import random
import statistics

import pytest

from jade.sweep.distributions import Categorical, Constant, IntUniform, LogUniform, Steps, Uniform
from jade.sweep.kinds import KINDS, Reading

DRAWS = 4000


def draws(spec, count=DRAWS):
    reading = Reading(spec)
    assert reading.problems == []
    rng = random.Random(0)
    return [reading.distribution.sample(rng) for _ in range(count)]


def spec(distribution, **given):
    return {"distribution": distribution, **given}


def test_all_kinds_of_the_documentation_are_known():
    assert set(KINDS) == {
        *("constant", "categorical", "categorical_w_probabilities", "int_uniform"),
        *("uniform", "q_uniform", "log_uniform", "log_uniform_values", "q_log_uniform"),
        *("q_log_uniform_values", "inv_log_uniform", "inv_log_uniform_values"),
        *("normal", "q_normal", "log_normal", "q_log_normal", "beta", "q_beta"),
    }


@pytest.mark.parametrize(
    ("given", "low", "high", "median"),
    [
        (spec("uniform", min=2.0, max=4.0), 2, 4, 3),
        (spec("log_uniform", min=-4, max=0), math.exp(-4), 1, math.exp(-2)),
        (spec("log_uniform_values", min=1e-4, max=1.0), 1e-4, 1, 1e-2),
        # log(1/x) is uniform between min and max
        (spec("inv_log_uniform", min=0, max=4), math.exp(-4), 1, math.exp(-2)),
        (spec("inv_log_uniform_values", min=1e-4, max=1.0), 1e-4, 1, 1e-2),
        (spec("normal", mu=5.0, sigma=0.1), 4, 6, 5),
        (spec("log_normal", mu=-2.0, sigma=0.1), math.exp(-3), math.exp(-1), math.exp(-2)),
        (spec("beta", a=2, b=2), 0, 1, 0.5),
        ({"min": 0.0, "max": 1.0}, 0, 1, 0.5),
    ],
    ids=lambda value: value.get("distribution", "range") if isinstance(value, dict) else None,
)
def test_continuous_values_are_where_the_distribution_puts_them(given, low, high, median):
    values = draws(given)
    assert all(low <= value <= high for value in values)
    assert statistics.median(values) == pytest.approx(median, rel=0.15)


@pytest.mark.parametrize(
    ("given", "q"),
    [
        (spec("q_uniform", min=0, max=10, q=2), 2),
        (spec("q_uniform", min=0, max=10), 1),
        (spec("q_log_uniform", min=0, max=3, q=0.5), 0.5),
        (spec("q_log_uniform_values", min=1, max=100, q=5), 5),
        (spec("q_normal", mu=0, sigma=10, q=3), 3),
        (spec("q_log_normal", q=0.25), 0.25),
        (spec("q_beta", q=0.1), 0.1),
    ],
    ids=lambda value: value["distribution"] if isinstance(value, dict) else None,
)
def test_quantized_values_are_multiples_of_q(given, q):
    values = draws(given, 200)
    assert all(value == round(value / q) * q for value in values)
    assert len(set(values)) > 3
    if q in (1, 2, 3, 5):
        assert all(isinstance(value, int) for value in values)


def test_whole_numbers_include_both_ends():
    assert set(draws({"min": 1, "max": 4})) == {1, 2, 3, 4}


def test_probabilities_decide_how_often():
    values = draws({"values": ["a", "b", "c"], "probabilities": [0.7, 0.3, 0]})
    assert values.count("a") / DRAWS == pytest.approx(0.7, abs=0.05)
    assert "c" not in values
    assert Categorical(("a", "b", "c"), (0.7, 0.3, 0)).telling_values() == ["a", "b"]


def test_constants_stay():
    assert set(draws({"value": "relu"}, 5)) == {"relu"}


def test_grids_exist_where_values_can_be_counted():
    assert Constant(3).grid() == [3]
    assert Categorical((1, "a", None)).grid() == [1, "a", None]
    assert IntUniform(2, 4).grid() == range(2, 5)
    # The upper end is left out, as W&B does it.
    assert list(Uniform(0, 1, 0.25).grid()) == [0, 0.25, 0.5, 0.75]
    assert Uniform(0, 1).grid() is None
    assert LogUniform(1, 2, 1).grid() is None
    assert Categorical((1, 2), (0.5, 0.5)).grid() is None


def test_equal_values_are_one_point_of_a_grid():
    assert Categorical((1, 2, 1.0, True, 2, [1], [1])).grid() == [1, 2, True, [1]]


def test_steps_are_counted_without_being_made():
    steps = Steps(0.0, 1e12, 0.5)
    assert len(steps) == 2_000_000_000_000
    assert steps[3] == 1.5
    assert steps[1:3] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (3, "needs value, values, or min and max, not 3."),
        ({}, "needs value, values, or min and max."),
        ({"mu": 1}, "A distribution must be named, such as distribution: normal."),
        ({"vales": [1]}, "unknown key 'vales'. Did you mean 'values'?"),
        ({"min": 1}, "both min and max"),
        ({"value": 1, "values": [1]}, "has value and values; keep one of them."),
        ({"values": 1}, "values must be a list, not 1."),
        ({"values": []}, "values must be a list, not []."),
        (spec("lognormal"), "unknown distribution 'lognormal'. Did you mean 'log_normal'?"),
        (spec("uniform", min=1), "the distribution uniform needs max."),
        (spec("categorical"), "the distribution categorical needs values."),
        (spec("normal", min=1, max=2), "the distribution normal takes no min, but mu, sigma."),
        (spec("uniform", min=2, max=1), "min 2 is above its max 1."),
        (spec("uniform", min="a", max=1), "must be numbers, got min: 'a'."),
        (spec("uniform", min=True, max=2), "must be numbers, got min: True."),
        (spec("normal", mu="0"), "not a number, got mu: '0'."),
        (spec("int_uniform", min=0.5, max=2), "int_uniform takes whole numbers, not 0.5 and 2."),
        (spec("q_uniform", min=0, max=2, q=0), "q must be above 0, got 0."),
        (spec("normal", sigma=-1), "sigma must not be negative, got -1."),
        ({"min": 0, "max": 1.5}, "min 0 and max 1.5 are a whole and a broken number"),
        ({"min": 0.0, "max": 1.0, "q": 0.1}, "q needs a distribution, such as q_uniform."),
        (
            spec("log_uniform_values", min=-3, max=1),
            "takes values above 0, min is -3. log_uniform takes exponents instead.",
        ),
        (spec("log_uniform", min=1, max=1000), "are exponents of e, and e^1000 is no number"),
        ({"values": [1, 2], "probabilities": [1]}, "1 probabilities for 2 values."),
        ({"values": [1, 2], "probabilities": [0.5, 0.6]}, "sum to 1.1, not to 1."),
        ({"values": [1, 2], "probabilities": ["a", 1]}, "must be a list of numbers"),
    ],
)
def test_wrong_description_is_explained(given, text):
    reading = Reading(given)
    assert reading.distribution is None
    assert text in " ".join(problem for _, problem in reading.problems)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (spec("log_uniform", min=0.001, max=0.1), "between e^0.001 and e^0.1; log_uniform_values"),
        (spec("log_uniform", min=0, max=0.5), "are exponents"),
        (spec("inv_log_uniform", min=1, max=2), "between e^-1 and e^-2; inv_log_uniform_values"),
        ({"values": [32]}, "`value: 32` says the same"),
        ({"values": [1, 2, 1]}, "lists a value twice; there are 2 different ones"),
    ],
)
def test_odd_description_is_noted(given, text):  # T27, T33
    reading = Reading(given)
    assert reading.distribution is not None
    assert text in " ".join(reading.notes)


def test_exponents_that_are_meant_are_not_noted():
    assert Reading(spec("log_uniform", min=-10, max=1)).notes == []
