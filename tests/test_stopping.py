import math

import pytest

from jade.errors import ConfigError
from jade.settings import Settings
from jade.stopping import Best, StopRules, Threshold, parse_threshold


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Accuracy >= 0.99", Threshold("Accuracy", ">=", 0.99)),
        ("loss<1e-3", Threshold("loss", "<", 1e-3)),
        (" Test Error/rec <= 2 ", Threshold("Test Error/rec", "<=", 2.0)),
        ("gap > -1.5", Threshold("gap", ">", -1.5)),
    ],
)
def test_threshold_is_read(text, expected):
    assert parse_threshold(text) == expected


@pytest.mark.parametrize("text", ["", "Accuracy", "Accuracy == 1", "< 3", "a < b", "a < nan"])
def test_threshold_that_is_none_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match=r"is not a test.*'Accuracy >= 0\.99'"):
        parse_threshold(text)


@pytest.mark.parametrize(
    ("symbol", "met"), [("<", [1]), ("<=", [1, 2]), (">", [3]), (">=", [2, 3])]
)
def test_threshold_is_met_on_the_right_side(symbol, met):
    threshold = Threshold("m", symbol, 2)
    assert [value for value in (1, 2, 3) if threshold.is_met({"m": value})] == met
    assert not threshold.is_met({"m": math.nan})
    assert not threshold.is_met({"other": 1})


def test_threshold_shows_every_digit_that_matters():
    assert str(Threshold("a", ">=", 0.9999999)) == "a >= 0.9999999"


@pytest.mark.parametrize(("mode", "values", "best"), [("min", [3, 1, 2], 1), ("max", [3, 5, 4], 5)])
def test_best_value_and_its_iteration_are_kept(mode, values, best):
    record = Best("m", mode)
    news = [record.update({"m": value}, i) for i, value in enumerate(values)]
    assert news == [True, True, False]
    assert record.summary() == {"metric": "m", "value": best, "iteration": 1, "mode": mode}


def test_best_ignores_nan_even_at_first_s8():
    record = Best("m", "min")
    assert not record.update({"m": math.nan}, 0)
    assert record.summary() is None
    assert record.update({"m": 5.0}, 1)
    assert not record.update({"m": math.nan}, 2)
    assert record.value == 5.0


def test_best_counts_only_evaluations_of_its_metric():
    record = Best("m", "min")
    record.update({"m": 1.0}, 0)
    record.update({"other": 9.0}, 1)
    assert record.num_without_improvement == 0
    record.update({"m": 1.0}, 2)
    assert record.num_without_improvement == 1


def test_best_takes_small_steps_that_do_not_count_as_improvements():
    record = Best("m", "min", min_delta=0.5)
    for iteration, value in enumerate([3.0, 2.8, 2.6]):
        assert record.update({"m": value}, iteration)
    assert (record.value, record.num_without_improvement) == (2.6, 2)
    # Measured from the last improvement, small steps add up to one.
    record.update({"m": 2.4}, 3)
    assert record.num_without_improvement == 0


def test_best_goes_on_from_its_state():
    first, second = Best("m", "max", 0.1), Best("m", "max", 0.1)
    for iteration, value in enumerate([1.0, 1.05, 0.9]):
        first.update({"m": value}, iteration)
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    assert first.update({"m": 1.06}, 3) == second.update({"m": 1.06}, 3)


def test_rules_end_by_threshold_and_by_patience_r6():
    rules = StopRules(Settings(stop_when="m < 1", best_metric="e", patience=2))
    assert rules.find_reason({"m": 2.0}) is None
    assert rules.find_reason({"m": 0.5}) == "converged: m < 1"
    for iteration in range(3):
        rules.best.update({"e": 1.0}, iteration)
    assert rules.find_reason({}) == "no improvement of e in 2 evaluations"
    assert rules.metrics() == {"stop_when": "m", "best_metric": "e"}


def test_rules_without_settings_never_end_anything():
    rules = StopRules(Settings(epochs=1))
    assert rules.find_reason({"m": math.nan}) is None
    assert rules.metrics() == {}


def test_rules_refuse_patience_that_would_end_at_once():
    with pytest.raises(ConfigError, match="patience must be at least 1, got 0"):
        StopRules(Settings(best_metric="e", patience=0))
