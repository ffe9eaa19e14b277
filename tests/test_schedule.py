import math

import pytest

from jade.errors import ConfigError
from jade.schedule import Amount, Clock, Schedule, in_iterations, parse_amount


@pytest.mark.parametrize(
    ("value", "number", "unit"),
    [
        (2, 2, "epochs"),
        (0.5, 0.5, "epochs"),
        ("3", 3, "epochs"),
        ("1 epoch", 1, "epochs"),
        ("2 epochs", 2, "epochs"),
        ("500 iterations", 500, "iterations"),
        ("1 iteration", 1, "iterations"),
        ("1e3 steps", 1000, "iterations"),
        ("5e-1 epochs", 0.5, "epochs"),
        (1e-05, 1e-05, "epochs"),
        ("5epochs", 5, "epochs"),
        ("10 minutes", 600, "seconds"),
        ("10minutes", 600, "seconds"),
        ("0.5 hours", 1800, "seconds"),
        ("1 hour", 3600, "seconds"),
        ("2 days", 172800, "seconds"),
        (".5 s", 0.5, "seconds"),
        (" 3  Epochs ", 3, "epochs"),
        ("7 n_frames", 7, "n_frames"),
    ],
)
def test_amount_singular_plural_decimal_and_counter_are_read_r1(value, number, unit):
    assert parse_amount(value, "train_for") == Amount(number, unit)


@pytest.mark.parametrize("value", ["", "soon", "epochs", "-1 epochs", "1 2", True, None, [1]])
def test_amount_that_is_none_is_refused_with_examples(value):
    with pytest.raises(ConfigError, match=r"train_for: .*'500 iterations'"):
        parse_amount(value, "train_for")


@pytest.mark.parametrize("value", [0, "0 iterations"])
def test_amount_zero_is_refused_unless_allowed(value):
    with pytest.raises(ConfigError, match="checkpoint_every must be greater than zero"):
        parse_amount(value, "checkpoint_every")
    assert parse_amount(value, "epochs", zero=True).number == 0


def test_amount_beyond_all_numbers_is_refused():
    with pytest.raises(ConfigError, match="must be finite"):
        parse_amount("1e999 iterations", "train_for")


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Amount(1, "epochs"), "1 epoch"),
        (Amount(2, "epochs"), "2 epochs"),
        (Amount(1_000_000, "iterations"), "1000000 iterations"),
        (Amount(0.2, "seconds"), "0.2 seconds"),
        (Amount(1, "n_frames"), "1 n_frames"),
    ],
)
def test_amount_reads_as_a_person_would_write_it(amount, text):
    assert str(amount) == text


@pytest.mark.parametrize(("share", "iterations"), [(0.1, 3), (0.5, 15), (1.5, 45), (1e-9, 1)])
def test_part_of_an_epoch_becomes_iterations(share, iterations):
    converted = in_iterations(Amount(share, "epochs"), 30, "train_for")
    assert converted == Amount(iterations, "iterations")


def test_whole_epochs_and_other_units_stay_what_they_are():
    for amount in (Amount(2, "epochs"), Amount(0.5, "seconds")):
        assert in_iterations(amount, None, "train_for") is amount


def test_part_of_an_epoch_without_length_is_refused():
    with pytest.raises(ConfigError, match=r"train_for: 0.5 epochs needs a train_loader with a len"):
        in_iterations(Amount(0.5, "epochs"), None, "train_for")


def test_clock_reads_units_and_asks_for_the_rest():
    clock = Clock(3, 1, 2.5, counter=lambda unit: len(unit))
    assert [clock.read(u) for u in ("iterations", "epochs", "seconds", "abc")] == [3, 1, 2.5, 3]


def test_clock_without_counters_refuses_other_units():
    with pytest.raises(ConfigError, match="Nothing counts 'frames' here"):
        Clock().read("frames")


def test_schedule_is_due_at_each_multiple():
    schedule = Schedule(Amount(3, "iterations"))
    due = []
    for iteration in range(1, 10):
        clock = Clock(iteration)
        if schedule.is_due(clock):
            schedule.advance(clock)
            due.append(iteration)
    assert due == [3, 6, 9]


def test_schedule_that_was_missed_goes_on_with_the_next_multiple():
    schedule = Schedule(Amount(0.1, "seconds"))
    schedule.advance(Clock(seconds=0.72))
    assert math.isclose(schedule.next_at, 0.8)
