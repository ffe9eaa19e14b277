import pytest

from jade.timespan import render_age, render_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (75.9, "1:15"), (3600, "1:00:00"), (90000, "1d 1h")],
)
def test_duration_is_rendered_as_on_a_clock(seconds, text):
    assert render_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "just now"),
        (0.5, "just now"),
        (59, "59 s ago"),
        (190, "3 min ago"),
        (7300, "2 h ago"),
        (90000, "1 day ago"),
        (200000, "2 days ago"),
    ],
)
def test_age_is_rendered_in_its_largest_unit(seconds, text):
    assert render_age(seconds) == text
