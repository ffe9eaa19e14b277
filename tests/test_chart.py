import math

import pytest

from jade.chart import BRAILLE, LABEL_WIDTH, Chart

LEFT = LABEL_WIDTH + 2


def draw(points, **options):
    return Chart(points=points, **options).render()


def curve(points, **options):
    """Return the lines of the curve, without labels and axes."""
    return [line[LEFT:] for line in draw(points, **options)[:-2]]


def test_chart_of_a_falling_line_runs_from_corner_to_corner():
    top, *_, bottom = curve([(0, 10), (99, 0)], width=LEFT + 20, height=5)

    assert ord(top[0]) - BRAILLE & 0x01  # the highest dot on the left
    assert len(bottom) == 20
    assert ord(bottom[-1]) - BRAILLE & 0x80  # the lowest dot on the right


def test_chart_labels_both_ends_of_both_axes():
    lines = draw([(50, -23.91), (570, 38.859)], width=60, height=4)

    assert lines[0].split()[0] == "38.86"
    assert lines[3].split()[0] == "-23.91"
    assert lines[-1].split() == ["50", "570"]


def test_chart_is_as_wide_and_high_as_asked():
    lines = draw([(i, math.sin(i / 9)) for i in range(200)], width=50, height=7)

    assert len(lines) == 7 + 2
    assert max(map(len, lines)) == 50


def test_chart_leaves_a_gap_where_values_are_not_finite():
    points = [(i, math.nan if 40 <= i < 60 else 1.0) for i in range(100)]

    (line,) = (line for line in curve(points, width=LEFT + 20, height=3) if line.strip())

    assert line[8:12].strip() == ""
    assert " " not in line[:7] + line[13:]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_chart_scales_to_the_finite_values(value):
    lines = draw([(0, 1.0), (1, value), (2, 3.0)], height=3)

    assert lines[0].split()[0] == "3"
    assert lines[2].split()[0] == "1"


def test_chart_without_a_finite_value_says_so():
    assert draw([(0, math.nan)]) == draw([]) == ["(no finite value)"]


def test_chart_of_one_point_shows_one_dot():
    dots = "".join(curve([(5, 2.0)], width=40, height=3)).replace(" ", "")

    assert len(dots) == 1


def test_chart_of_a_constant_is_a_level_line_in_the_middle():
    lines = curve([(0, 2.0), (10, 2.0)], width=LEFT + 10, height=3)

    assert [bool(line.strip()) for line in lines] == [False, True, False]
    assert len(set(lines[1])) == 1


def test_chart_for_ascii_has_nothing_else():
    lines = draw([(i, math.exp(-i / 30)) for i in range(100)], ascii_only=True)

    assert "".join(lines).isascii()
    assert set("".join(line[LEFT:] for line in lines[:-2])) == set(" '.:")


def test_chart_survives_values_whose_difference_is_infinite():
    lines = draw([(0, -1.7e308), (1, 1.7e308)], height=3)

    assert lines[0].split()[0] == "1.7e+308"


def test_chart_of_many_points_fits_its_width():
    lines = draw([(i, (i * 7919) % 101) for i in range(5000)], width=60)

    assert max(map(len, lines)) == 60
