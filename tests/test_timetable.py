import math

import pytest

from jade.errors import ConfigError
from jade.schedule import Amount, Clock
from jade.settings import Settings
from jade.timetable import make_timetable


def make(per_epoch=10, every=None, **settings):
    return make_timetable(Settings(**settings), every or {}, per_epoch)


def test_limits_epochs_and_train_for_hold_together():
    table = make(epochs=2, train_for="15 iterations")
    assert table.limits == [Amount(2, "epochs"), Amount(15, "iterations")]
    assert table.reached_limit(Clock(14, 1)) is None
    assert table.reached_limit(Clock(15, 1)) == Amount(15, "iterations")
    assert table.reached_limit(Clock(14, 2)) == Amount(2, "epochs")


def test_limits_of_a_dry_run_are_one_iteration_r9():
    assert make(epochs=200, dry_run=True).limits == [Amount(1, "iterations")]


def test_next_iteration_is_the_nearest_of_all():
    table = make(epochs=9, every={"a": "7 iterations"}, log_loss_every="0.5 epochs")
    assert table.next_iteration(Clock(0)) == 5
    table.log.advance(Clock(5))
    assert table.next_iteration(Clock(5)) == 7


def test_next_iteration_of_epochs_and_times_only_is_never():
    table = make(epochs=9, every={"a": 2}, log_loss_every="1 epoch", backup_every="1 hour")
    assert table.next_iteration(Clock(0)) == math.inf
    assert table.next_second() == 3600


def test_next_iteration_with_a_counter_of_the_trainer_is_the_next_one():
    assert make(train_for="5 frames").next_iteration(Clock(41)) == 42


def test_next_second_without_times_is_none():
    assert make(epochs=1, backup_every=None).next_second() is None


def test_due_evaluations_are_named():
    table = make(epochs=9, every={"a": "4 iterations", "b": 1})
    assert table.due_evaluations(Clock(4, 0)) == ["a"]
    assert table.due_evaluations(Clock(10, 1)) == ["a", "b"]


@pytest.mark.parametrize(
    ("settings", "clock", "fraction"),
    [
        ({"epochs": 4}, Clock(10, 1), 0.25),
        ({"epochs": 4}, Clock(15, 1), 0.375),
        ({"train_for": "1 minute"}, Clock(5, 0, 15.0), 0.25),
        ({"epochs": 4, "train_for": "20 iterations"}, Clock(10, 1), 0.5),
        ({"epochs": 0}, Clock(), 1.0),
        ({"epochs": 1}, Clock(30, 3), 1.0),
    ],
)
def test_fraction_done_follows_the_nearest_limit(settings, clock, fraction):
    assert make(**settings).fraction_done(clock, 10) == fraction


def test_fraction_done_without_length_counts_whole_epochs():
    assert make(per_epoch=None, epochs=4).fraction_done(Clock(77, 1), None) == 0.25


def test_wrong_amount_names_its_key():
    with pytest.raises(ConfigError, match=r"eval\.a\.evaluate_every: 'often' is not an amount"):
        make(epochs=1, every={"a": "often"})


def test_unknown_unit_is_refused_when_checked():
    table = make(train_for="5 frames")
    with pytest.raises(ConfigError, match="Nothing counts 'frames' here"):
        table.check(Clock())
