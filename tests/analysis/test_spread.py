import math

import pytest

from jade.analysis.spread import Spread, student_quantile


# From tables of Student's distribution, two-sided 95 %.
@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [
        (1, 12.706204736),
        (2, 4.302652730),
        (3, 3.182446305),
        (4, 2.776445105),
        (5, 2.570581836),
        (9, 2.262157163),
        (10, 2.228138852),
        (29, 2.045229642),
        (30, 2.042272456),
        (120, 1.979930405),
        (1000, 1.962339081),
    ],
)
def test_quantile_is_that_of_tables(degrees, quantile):
    assert student_quantile(degrees) == pytest.approx(quantile, rel=1e-9)


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 63.656741162), (7, 3.499483297)])
def test_quantile_of_another_confidence(degrees, quantile):
    assert student_quantile(degrees, 0.99) == pytest.approx(quantile, rel=1e-9)


def test_quantile_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    for degrees in range(1, 60):
        assert student_quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-9)


def test_quantile_without_freedom_is_refused():
    with pytest.raises(ValueError, match="needs a degree of freedom"):
        student_quantile(0)


def test_spread_has_mean_deviation_and_interval():
    spread = Spread.of([1.0, 2.0, 3.0, 4.0])

    assert (spread.count, spread.mean, spread.lowest, spread.highest) == (4, 2.5, 1.0, 4.0)
    assert spread.std == pytest.approx(math.sqrt(5 / 3))
    assert spread.margin == pytest.approx(3.182446305 * math.sqrt(5 / 3) / 2)
    assert spread.low == pytest.approx(2.5 - spread.margin)


def test_spread_of_one_value_claims_no_interval():
    spread = Spread.of([0.5])

    assert (spread.std, spread.margin, spread.low, spread.high) == (None, None, 0.5, 0.5)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_spread_of_what_has_no_mean_is_none(values):
    assert Spread.of(values) is None


def test_spread_of_equal_values_is_exactly_zero():
    assert Spread.of([0.1] * 3).std == 0


@pytest.mark.parametrize(
    ("one", "other", "is_tied"),
    [
        ([1.0, 1.2, 1.1], [1.3, 1.2, 1.25], True),
        ([1.0, 1.01, 1.02], [2.0, 2.01, 2.02], False),
        ([1.0], [1.0], True),
        ([1.0], [1.1], False),
        ([1.0], [0.9, 1.2], True),
    ],
)
def test_spreads_are_tied_if_their_intervals_overlap(one, other, is_tied):
    assert Spread.of(one).is_tied_with(Spread.of(other)) is is_tied
    assert Spread.of(other).is_tied_with(Spread.of(one)) is is_tied
