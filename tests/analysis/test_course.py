import math

import pytest

from jade.analysis.course import Extreme, load_courses, thin


def write(tmp_path, text):
    path = tmp_path / "metrics.csv"
    path.write_text(text)
    return path


def test_course_has_last_lowest_and_highest_with_their_iterations(tmp_path):
    path = write(tmp_path, "iteration,epoch,Loss,Acc\n1,0,3.0,\n2,0,1.0,0.5\n5,1,2.0,0.25\n")

    found = load_courses(path)

    assert list(found.by_name) == ["Loss", "Acc"]
    loss = found.by_name["Loss"]
    assert (loss.last, loss.best("min"), loss.best("max")) == (
        2.0,
        Extreme(1.0, 2),
        Extreme(3.0, 1),
    )
    assert found.by_name["Acc"].best("max") == Extreme(0.5, 2)
    assert loss.curve == ()


def test_course_of_a_value_reached_twice_has_the_first_iteration(tmp_path):
    path = write(tmp_path, "iteration,A\n1,2.0\n2,1.0\n3,1.0\n")
    assert load_courses(path).by_name["A"].lowest == Extreme(1.0, 2)


def test_course_passes_over_what_is_not_finite(tmp_path):
    found = load_courses(write(tmp_path, "iteration,A,B\n1,1.0,nan\n2,inf,nan\n3,nan,nan\n"))

    assert math.isnan(found.by_name["A"].last)
    assert found.by_name["A"].highest == Extreme(1.0, 1)
    assert found.by_name["B"].lowest is None


@pytest.mark.parametrize(
    ("text", "last", "num_damaged"),
    [
        ("iteration,A\n1,1.0\n2,2.", 1.0, 0),
        ("iteration,A\n1,1.0\n2\n3,3.0\n", 3.0, 1),
        ("iteration,A\n1,1.0\n2,abc\n3,3.0\n", 3.0, 1),
        ('iteration,"A"\n1,1.0\n2,2.0\n', 2.0, 0),
    ],
)
def test_course_of_a_damaged_file_is_that_of_its_whole_rows(tmp_path, text, last, num_damaged):
    found = load_courses(write(tmp_path, text))

    assert found.by_name["A"].last == last
    assert found.num_damaged == num_damaged


@pytest.mark.parametrize("text", ["", "iteration,A\n", "iteration,A"])
def test_course_of_a_file_without_rows_is_none(tmp_path, text):
    assert load_courses(write(tmp_path, text)).by_name == {}


def test_course_of_something_else_is_damage(tmp_path):
    found = load_courses(write(tmp_path, "what,is\nthis,then\n"))
    assert (found.by_name, found.num_damaged) == ({}, 1)


def test_name_with_a_comma_is_one_metric(tmp_path):
    found = load_courses(write(tmp_path, 'iteration,"a, b"\n1,2.0\n'))
    assert found.by_name["a, b"].last == 2.0


def test_thinned_curve_keeps_its_ends_and_its_spike():
    points = [(step, 100.0 if step == 617 else step / 1000) for step in range(1000)]

    kept = thin(points, 20)

    assert len(kept) <= 20
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert (617, 100.0) in kept
    assert kept == sorted(kept)


def test_short_curve_stays_as_it_is():
    points = [(1, 1.0), (2, 2.0)]
    assert (thin(points, 2), thin(points, 0)) == (points, ())
