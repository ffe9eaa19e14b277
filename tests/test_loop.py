"""R1 to R6, L4, L8, S1: the course of training, from the first step to the last checkpoint."""

import gc
import itertools
import math
import random
import sys
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
from toy import Constant, Rehearsal, Toy, points, read_rows, run

from jade import checkpoint
from jade.errors import ComponentError, ConfigError, NonFiniteLossError, TrainingError
from jade.loggers.base import Logger


class Step(Toy):
    """Does next to nothing in a step."""

    def train_step(self, data):
        self.add_loss_item("loss", 1.0)


class Stream(IterableDataset):
    """Never ends."""

    def __iter__(self):
        return iter(itertools.repeat(torch.ones(1)))


class Endless(Step):
    def initialize(self):
        super().initialize()
        self.train_loader = DataLoader(Stream(), batch_size=None)


def evaluations(**named):
    return {name: (Constant, {"result": result}) for name, result in named.items()}


def iterations(outcome, name=None):
    return [int(row["iteration"]) for row in outcome.rows if name is None or name in row]


# How long (R1, R2)


@pytest.mark.parametrize(
    ("settings", "steps", "epochs", "reason"),
    [
        ({"epochs": 3}, 6, 3, "3 epochs done"),
        ({"epochs": 1}, 2, 1, "1 epoch done"),
        ({"epochs": 0}, 0, 0, "0 epochs done"),
        ({"train_for": "3 iterations"}, 3, 1, "3 iterations done"),
        ({"train_for": "4 iterations"}, 4, 2, "4 iterations done"),
        ({"train_for": "1.5 epochs"}, 3, 1, "3 iterations done"),
        ({"train_for": "0.5 epoch"}, 1, 0, "1 iteration done"),
        ({"epochs": 5, "train_for": "3 iterations"}, 3, 1, "3 iterations done"),
        ({"epochs": 1, "train_for": "300 iterations"}, 2, 1, "1 epoch done"),
        ({"epochs": 1, "train_for": "1 hour"}, 2, 1, "1 epoch done"),
        ({"epochs": 9, "dry_run": True}, 1, 0, "1 iteration done"),
    ],
)
def test_training_lasts_as_long_as_it_was_told_r1(tmp_path, settings, steps, epochs, reason):
    outcome = run(tmp_path, **settings)
    assert (outcome.trainer.iterations, outcome.trainer.epochs) == (steps, epochs)
    assert outcome.ending.reason == reason
    assert not outcome.ending.was_stopped


def test_training_for_a_time_ends_by_the_clock_r1(tmp_path):
    started = time.monotonic()
    outcome = run(tmp_path, Endless, train_for="0.2 seconds", log_loss_every="1000 iterations")
    assert 0.2 <= outcome.ending.seconds <= time.monotonic() - started < 5
    assert outcome.ending.reason == "0.2 seconds done"
    assert outcome.trainer.iterations > 10


def test_training_by_a_counter_of_the_trainer_r1(tmp_path):
    class Frames(Step):
        def initialize(self):
            super().initialize()
            self.frames = 0

        def train_step(self, data):
            super().train_step(data)
            self.frames += 7

    outcome = run(tmp_path, Frames, train_for="30 frames")
    assert (outcome.trainer.iterations, outcome.ending.reason) == (5, "30 frames done")


def test_counter_that_does_not_exist_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ComponentError, match="'frmaes' is neither a unit nor a counter of Toy"):
        Rehearsal(tmp_path / "runs", train_for="30 frmaes")
    assert not (tmp_path / "runs").exists()


def test_endless_data_is_trained_by_iterations_r2(tmp_path):
    outcome = run(tmp_path, Endless, train_for="25 iterations")
    assert (outcome.trainer.iterations, outcome.trainer.epochs) == (25, 0)


def test_part_of_an_epoch_of_endless_data_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="needs a train_loader with a length"):
        run(tmp_path, Endless, train_for="0.5 epochs")


@pytest.mark.parametrize("told", [1, 5])
def test_length_that_lies_does_not_change_what_is_trained(tmp_path, told):
    class Liar(list):
        def __len__(self):
            return told

    class Lied(Step):
        def initialize(self):
            super().initialize()
            self.train_loader = Liar([torch.ones(1)] * 3)

    outcome = run(tmp_path, Lied, epochs=2)
    assert (outcome.trainer.iterations, outcome.trainer.epochs) == (6, 2)
    assert iterations(outcome, "loss") == [1, 2, 3, 4, 5, 6] if told == 5 else [2, 3, 5, 6]


def test_memory_is_constant_over_many_iterations_r2(tmp_path):
    class Forever:
        def __iter__(self):
            return itertools.repeat(torch.ones(1))

    class Measured(Step):
        def initialize(self):
            self.train_loader = Forever()
            self.num_blocks = {}

        def train_step(self, data):
            self.add_loss_item("loss", 1.0)
            if self.iterations in (10_500, 99_500):
                gc.collect()
                self.num_blocks[self.iterations] = sys.getallocatedblocks()

    class One(Constant):
        def evaluate(self):
            return 1.0

    outcome = run(
        tmp_path,
        Measured,
        train_for="100000 iterations",
        log_loss_every="1000 iterations",
        evaluations={"E": (One, {})},
        every={"E": "2000 iterations"},
    )
    first, last = outcome.trainer.num_blocks.values()
    assert last - first < 100


def test_loader_without_batches_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ComponentError, match=r"no batches \(its dataset has 3 samples\)"):
        run(tmp_path / "runs", DropsAll, epochs=1)
    assert not (tmp_path / "runs").exists()


class DropsAll(Step):
    def initialize(self):
        super().initialize()
        self.train_loader = DataLoader(points(3), 5, drop_last=True)


def test_loader_without_batches_is_no_matter_where_nothing_is_trained(tmp_path):
    assert run(tmp_path, DropsAll, epochs=0).trainer.iterations == 0


def test_loader_that_gives_nothing_is_an_error_and_not_an_endless_loop(tmp_path):
    class Empty(Step):
        def initialize(self):
            super().initialize()
            self.train_loader = iter(())

    with pytest.raises(TrainingError, match="gave no batch in this epoch"):
        run(tmp_path, Empty, epochs=1)


def test_loader_may_be_replaced_between_epochs(tmp_path):
    class Growing(Step):
        def on_epoch_end(self):
            self.train_loader = [torch.ones(1)] * (self.epochs + 2)

    assert run(tmp_path, Growing, epochs=3).trainer.iterations == 2 + 3 + 4


# What is logged: L3, L4 and L8


@pytest.mark.parametrize(
    ("every", "logged"),
    [
        ("1 iteration", [1, 2, 3, 4, 5, 6]),
        ("4 iterations", [4, 6]),
        ("1 epoch", [2, 4, 6]),
        ("2", [4, 6]),
        ("0.5 epochs", [1, 2, 3, 4, 5, 6]),
        ("100 iterations", [6]),
    ],
)
def test_losses_are_logged_as_often_as_told_and_the_tail_at_the_end_l4(tmp_path, every, logged):
    outcome = run(tmp_path, epochs=3, log_loss_every=every)
    assert iterations(outcome, "loss") == logged


def test_losses_are_means_over_full_windows_l3(tmp_path):
    class Counting(Toy):
        def train_step(self, data):
            self.add_loss_item("n", self.iterations)

    rows = run(tmp_path, Counting, epochs=5, log_loss_every="4 iterations").rows
    assert [row["n"] for row in rows] == [1.5, 5.5, 8.5]


def test_item_that_is_absent_is_an_empty_cell_l3(tmp_path):
    class Sometimes(Toy):
        def train_step(self, data):
            self.add_loss_item("always", 1)
            if self.iterations == 1:
                self.add_loss_item("once", 2)

    rows = run(tmp_path, Sometimes, epochs=2).rows
    assert [row.get("once") for row in rows] == [None, 2.0, None, None]


def test_rows_are_one_per_step_with_increasing_steps_l8(tmp_path):
    outcome = run(tmp_path, epochs=3, evaluations=evaluations(A=1.0, B={"x": 1, "y": 2}))
    assert iterations(outcome) == [0, 1, 2, 3, 4, 5, 6]
    assert [row["epoch"] for row in outcome.rows] == [0, 0, 1, 1, 2, 2, 3]
    assert outcome.rows[2].keys() == {"iteration", "epoch", "A", "B", "B/x", "B/y", "loss"}


def test_latest_values_are_in_the_ending(tmp_path):
    ending = run(tmp_path, epochs=1, evaluations=evaluations(A=3.0)).ending
    assert ending.metrics.keys() == {"loss", "A"}
    assert ending.evaluations == {"A": 3.0}


def test_loss_item_and_evaluation_of_one_name_are_an_error_at_the_first_chance(tmp_path):
    with pytest.raises(TrainingError, match="Two things are logged under the name 'loss'"):
        run(tmp_path, epochs=5, evaluations=evaluations(loss=1.0), every={"loss": 3})
    [directory] = tmp_path.iterdir()
    assert checkpoint.load(directory / "checkpoints/last.pt")["clock"]["iterations"] == 1


def test_loss_item_named_like_a_part_of_an_evaluation_is_an_error(tmp_path):
    class Clash(Step):
        def train_step(self, data):
            self.add_loss_item("E/a", 1.0)

    with pytest.raises(TrainingError, match="under the name 'E/a'"):
        run(tmp_path, Clash, epochs=1, evaluations=evaluations(E={"a": 1, "b": 2}))


def test_evaluations_that_log_one_name_are_an_error(tmp_path):
    with pytest.raises(TrainingError, match="under the name 'E/a'"):
        run(tmp_path, epochs=1, evaluations=evaluations(**{"E": {"a": 1}, "E/a": 2}))


@pytest.mark.parametrize("name", ["iteration", "epoch"])
def test_names_of_the_loop_itself_are_refused(tmp_path, name):
    class Named(Step):
        def train_step(self, data):
            self.add_loss_item(name, 1.0)

    with pytest.raises(TrainingError, match=f"Nothing can be logged as {name!r}"):
        run(tmp_path, Named, epochs=1)
    with pytest.raises(ComponentError, match=rf"eval\.{name}: the loop itself logs"):
        run(tmp_path / "other", epochs=1, evaluations=evaluations(**{name: 1.0}))
    assert not (tmp_path / "other").exists()


def test_evaluation_that_no_checkpoint_can_hold_is_refused_before_anything_is_written(tmp_path):
    class Own(Constant):
        def state_dict(self):
            return {"stream": iter([1])}

    class Named(Constant):
        def initialize(self):
            super().initialize()
            self.add_attribute_to_store("result")
            self.result = iter([1])

    for kind, place in ((Own, r"E.state_dict\(\)\['stream'\]"), (Named, "E.result")):
        with pytest.raises(ComponentError, match=rf"eval\.E: {place} is a list_iterator"):
            run(tmp_path / "run", epochs=1, evaluations={"E": (kind, {})})
        assert not (tmp_path / "run").exists()


# When evaluations run (R4, T21, T22)


@pytest.mark.parametrize(
    ("every", "settings", "asked_at"),
    [
        (1, {"epochs": 3}, [0, 2, 4, 6]),
        (2, {"epochs": 3}, [0, 4, 6]),
        ("3 iterations", {"epochs": 3}, [0, 3, 6]),
        ("4 iterations", {"epochs": 3}, [0, 4, 6]),
        ("0.5 epochs", {"epochs": 2}, [0, 1, 2, 3, 4]),
        ("1 hour", {"epochs": 3}, [0, 6]),
        (100, {"train_for": "3 iterations"}, [0, 3]),
        (1, {"epochs": 2, "evaluate_first": False}, [2, 4]),
        (1, {"epochs": 0}, [0]),
        (1, {"epochs": 0, "evaluate_first": False}, [0]),
    ],
)
def test_evaluations_run_first_when_due_and_once_after_the_last_step_r4(
    tmp_path, every, settings, asked_at
):
    outcome = run(tmp_path, evaluations=evaluations(E=1.0), every={"E": every}, **settings)
    assert outcome.evaluations["E"].asked_at == asked_at
    assert iterations(outcome, "E") == asked_at


def test_evaluations_by_the_clock_really_run_r4(tmp_path):
    class Slow(Endless):
        def train_step(self, data):
            time.sleep(0.002)

    outcome = run(
        tmp_path,
        Slow,
        train_for="0.55 seconds",
        evaluations=evaluations(E=1.0),
        every={"E": "0.1 seconds"},
        log_loss_every="0.2 seconds",
        checkpoint_every="0.25 seconds",
    )
    assert 5 <= len(outcome.evaluations["E"].asked_at) <= 7
    assert 1 <= len(outcome.directory.periodic_checkpoints()) <= 2


def test_evaluation_that_takes_longer_than_its_interval_leaves_time_to_train(tmp_path):
    class Slow(Endless):
        def train_step(self, data):
            time.sleep(0.001)

    slow = {"E": (Constant, {"result": lambda _: time.sleep(0.06)})}
    outcome = run(
        tmp_path, Slow, train_for="0.5 seconds", evaluations=slow, every={"E": "0.05 seconds"}
    )
    assert outcome.trainer.iterations > 2 * len(outcome.evaluations["E"].asked_at)


def test_training_of_a_deadline_in_an_evaluation_ends_after_it(tmp_path):
    slow = {"E": (Constant, {"result": lambda _: time.sleep(0.2)})}
    outcome = run(tmp_path, train_for="0.1 seconds", evaluations=slow)
    assert outcome.trainer.iterations == 0


# Reasons to stop (R6)


def falling(evaluation):
    return 10.0 - evaluation.trainer.iterations


def test_threshold_of_an_evaluation_ends_training_r6(tmp_path):
    outcome = run(tmp_path, epochs=9, stop_when="E <= 6", evaluations=evaluations(E=falling))
    assert (outcome.trainer.iterations, outcome.ending.reason) == (4, "converged: E <= 6")


def test_threshold_of_a_loss_ends_training_r6(tmp_path):
    outcome = run(tmp_path, epochs=500, stop_when="loss < 0.01")
    assert outcome.ending.reason == "converged: loss < 0.01"
    assert outcome.rows[-1]["loss"] < 0.01 <= outcome.rows[-2]["loss"]


def test_threshold_met_at_the_end_stays_the_reason_r6(tmp_path):
    outcome = run(tmp_path, epochs=2, stop_when="E <= 6", evaluations=evaluations(E=falling))
    assert outcome.ending.reason == "converged: E <= 6"


def test_threshold_met_by_the_last_evaluation_is_the_reason_r6(tmp_path):
    outcome = run(
        tmp_path,
        train_for="3 iterations",
        stop_when="E <= 7",
        evaluations=evaluations(E=falling),
        every={"E": 99},
    )
    assert outcome.ending.reason == "converged: E <= 7"


def test_patience_ends_training_r6(tmp_path):
    outcome = run(
        tmp_path,
        epochs=50,
        best_metric="E",
        patience=3,
        evaluations=evaluations(E=lambda e: max(6, falling(e))),
    )
    assert outcome.ending.reason == "no improvement of E in 3 evaluations"
    assert outcome.trainer.epochs == 2 + 3
    assert outcome.ending.best == {"metric": "E", "value": 6, "iteration": 4, "mode": "min"}


def test_end_training_from_an_evaluation_ends_training_r6(tmp_path):
    def end(evaluation):
        if evaluation.trainer.epochs == 2:
            evaluation.trainer.end_training("seen enough")
        return 1.0

    outcome = run(tmp_path, epochs=50, evaluations=evaluations(E=end))
    assert (outcome.trainer.epochs, outcome.ending.reason) == (2, "seen enough")
    assert outcome.evaluations["E"].asked_at == [0, 2, 4]


def test_end_training_wins_over_the_limit_reached_with_it(tmp_path):
    class Enough(Step):
        def on_epoch_end(self):
            self.end_training("enough")

    assert run(tmp_path, Enough, epochs=1).ending.reason == "enough"


def test_metric_that_never_came_is_an_error_at_the_end_t34(tmp_path, caplog):
    with pytest.raises(TrainingError, match=r"was never logged\..* Known: E, l"):
        run(tmp_path, epochs=1, evaluations=evaluations(E=1.0), stop_when="Eror < 1")
    assert "'Eror' was not logged so far" in caplog.text
    # The result of the training is there all the same.
    [directory] = tmp_path.iterdir()
    assert checkpoint.load(directory / "checkpoints/last.pt")["clock"]["iterations"] == 2


@pytest.mark.parametrize(
    ("result", "is_first", "asked_at", "text"),
    [
        ("text", True, [0], "'E' logs no number, but what it shows \\(text\\). Known: F"),
        ("text", False, [2], "'E' logs no number, but what it shows \\(text\\). Known: F"),
        (None, True, [0, 2], "'E' has returned nothing.*return float"),
        (None, False, [2], "'E' has returned nothing.*return float"),
    ],
)
def test_best_metric_that_is_no_number_ends_training_at_its_first_evaluation(
    tmp_path, result, is_first, asked_at, text
):
    known = evaluations(E=result, F=1.0)
    rehearsal = Rehearsal(
        tmp_path, epochs=9, evaluations=known, best_metric="E", evaluate_first=is_first
    )
    with pytest.raises(TrainingError, match=f"best_metric: {text}"):
        rehearsal.run()
    assert rehearsal.evaluations["E"].asked_at == asked_at


def test_best_metric_may_be_nothing_before_training_and_nan_for_long(tmp_path, caplog):
    def late(evaluation):
        epochs = evaluation.trainer.epochs
        return [None, math.nan, math.nan, 1.0][epochs]

    outcome = run(tmp_path, epochs=3, evaluations=evaluations(E=late), best_metric="E")
    assert outcome.ending.best["value"] == 1
    assert caplog.text.count("'E' was not logged so far") == 1


@pytest.mark.parametrize("settings", [{"best_metric": "E/a"}, {"stop_when": "E/a < 1"}])
def test_metric_that_its_evaluation_does_not_log_is_told_at_the_start_t34(tmp_path, settings):
    with pytest.raises(TrainingError, match=r"'E' does not log 'E/a'\. Known: E\."):
        run(tmp_path, epochs=1, evaluations=evaluations(E=1.0), **settings)
    [directory] = tmp_path.iterdir()
    assert not (directory / "checkpoints/last.pt").exists()


@pytest.mark.parametrize("hook", ["on_iteration_end", "on_epoch_end"])
def test_hook_that_fails_loses_no_step(tmp_path, hook):
    def fail(self):
        if self.iterations == 2:
            raise RuntimeError("a mistake")

    failing = type("Failing", (Step,), {hook: fail})
    with pytest.raises(RuntimeError, match="a mistake"):
        run(tmp_path, failing, epochs=1)
    [directory] = tmp_path.iterdir()
    assert checkpoint.load(directory / "checkpoints/last.pt")["clock"]["iterations"] == 2


def test_counter_that_decides_is_stored(tmp_path):
    class Counting(Step):
        frames = 0

        def on_iteration_end(self):
            self.frames += 4

    outcome = run(tmp_path, Counting, epochs=None, train_for="8 frames")
    stored = checkpoint.load(outcome.directory.last_checkpoint)["trainer"]["stored"]
    assert stored == {"frames": 8}


def test_metric_that_a_loss_item_may_still_bring_is_not_complained_about(tmp_path, caplog):
    run(tmp_path, epochs=1, stop_when="loss < 0", evaluations=evaluations(E=1.0))
    assert caplog.text == ""


# When a loss is not a number, R6 and S1


class Explodes(Toy):
    """Gets NaN in its fourth step, and logs it before or after the optimizer has used it."""

    def initialize(self, when="before"):
        super().initialize()
        self.when = when

    def train_step(self, data):
        x, y = data
        loss = (self.net(x) - y).square().mean()
        if self.iterations == 3:
            loss = loss * math.nan
        if self.when == "before":
            self.add_loss_item("loss", loss)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        if self.when == "after":
            self.add_loss_item("loss", loss)


def test_nan_before_the_optimizer_step_keeps_the_state_before_it(tmp_path):
    with pytest.raises(NonFiniteLossError) as info:
        run(tmp_path, Explodes, epochs=9)
    assert str(info.value) == (
        "The loss item 'loss' is nan. It was after iteration 3; last.pt holds that state."
    )
    [directory] = tmp_path.iterdir()
    kept = checkpoint.load(directory / "checkpoints/last.pt")
    good = run(tmp_path / "good", Explodes, train_for="3 iterations")
    assert kept["clock"]["iterations"] == 3
    assert torch.equal(kept["trainer"]["modules"]["net.weight"], good.trainer.net.weight)


def test_nan_after_the_optimizer_step_keeps_the_checkpoints_from_before(tmp_path):
    with pytest.raises(NonFiniteLossError) as info:
        run(tmp_path, Explodes, params={"when": "after"}, epochs=9, backup_every="2 iterations")
    assert str(info.value) == (
        "The loss item 'loss' is nan. It was after iteration 3; the parameter net.weight is not "
        "finite, so the checkpoints from before were left as they are."
    )
    [directory] = tmp_path.iterdir()
    kept = checkpoint.load(directory / "checkpoints/last.pt")
    assert kept["clock"]["iterations"] == 2
    assert kept["trainer"]["modules"]["net.weight"].isfinite().all()


def test_nan_logged_by_a_hook_keeps_the_state_after_its_step(tmp_path):
    class Late(Toy):
        def on_iteration_end(self):
            self.add_loss_item("late", math.nan if self.iterations == 3 else 1.0)

    with pytest.raises(NonFiniteLossError, match=r"after iteration 3; last\.pt holds that state"):
        run(tmp_path, Late, epochs=9)
    [directory] = tmp_path.iterdir()
    assert checkpoint.load(directory / "checkpoints/last.pt")["clock"]["iterations"] == 3


def test_nan_without_any_checkpoint_says_how_to_have_one(tmp_path):
    with pytest.raises(NonFiniteLossError, match=r"there was no checkpoint yet \(see --backup_ev"):
        run(tmp_path, Explodes, params={"when": "after"}, epochs=9)
    [directory] = tmp_path.iterdir()
    assert list((directory / "checkpoints").iterdir()) == []


def test_nan_that_nobody_logs_does_not_overwrite_a_good_checkpoint(tmp_path):
    with pytest.raises(NonFiniteLossError, match=r"diverged: the parameter net\.weight is not"):
        run(tmp_path, Explodes, params={"when": "never"}, epochs=9, backup_every="1 iteration")
    [directory] = tmp_path.iterdir()
    assert checkpoint.load(directory / "checkpoints/last.pt")["clock"]["iterations"] == 3


def test_nan_is_trained_on_where_that_is_wanted(tmp_path):
    outcome = run(tmp_path, Explodes, epochs=3, stop_on_nan=False)
    assert outcome.ending.reason == "3 epochs done"
    assert math.isnan(outcome.rows[-1]["loss"])


def test_nan_of_an_evaluation_is_logged_and_never_the_best(tmp_path):
    def first_nan(evaluation):
        return math.nan if evaluation.trainer.iterations == 0 else 1.0

    outcome = run(tmp_path, epochs=2, best_metric="E", evaluations=evaluations(E=first_nan))
    assert math.isnan(outcome.rows[0]["E"])
    assert outcome.ending.best["iteration"] == 2


# What checkpoints hold, S1 and S2


def test_checkpoints_are_written_when_due_and_the_newest_stay_s1(tmp_path):
    outcome = run(tmp_path, epochs=5, checkpoint_every="2 iterations", keep_last=3)
    names = sorted(path.name for path in outcome.directory.checkpoints.iterdir())
    assert names == ["checkpoint_10.pt", "checkpoint_6.pt", "checkpoint_8.pt", "last.pt"]


def test_backup_is_the_last_checkpoint_on_the_way_s1(tmp_path):
    class Failing(Step):
        def train_step(self, data):
            if self.iterations == 5:
                raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        run(tmp_path, Failing, epochs=9, backup_every="2 iterations")
    [directory] = tmp_path.iterdir()
    assert checkpoint.load(directory / "checkpoints/last.pt")["clock"]["iterations"] == 4


def test_best_checkpoint_holds_the_best_state_s1(tmp_path):
    outcome = run(
        tmp_path,
        epochs=4,
        best_metric="E",
        evaluations=evaluations(E=lambda e: abs(falling(e) - 6)),
    )
    best = checkpoint.load(outcome.directory.best_checkpoint)
    assert best["clock"]["iterations"] == 4
    assert best["best"]["value"] == 0
    # It was taken after this step was logged: going on from it repeats nothing.
    assert best["journal"]["latest"]["E"] == 0
    assert best["evaluations"]["evaluated_at"] == {"E": 4}
    assert best["schedules"]["evaluations"] == {"E": {"every": "1 epoch", "next_at": 3}}


def test_last_checkpoint_holds_everything_that_going_on_needs_s2(tmp_path):
    outcome = run(tmp_path, epochs=2, best_metric="E", evaluations=evaluations(E=1.0))
    content = checkpoint.load(outcome.directory.last_checkpoint)
    assert content["clock"].keys() == {"iterations", "epochs", "seconds"}
    expected = {"batches", "length", "ran_ahead", "beginning", "samplers", "feed"}
    assert content["loader"].keys() == expected
    assert (content["loader"]["batches"], content["loader"]["beginning"]) == (0, None)
    assert content["rng"].keys() >= {"python", "torch", "numpy"}
    assert content["seed"] == 0
    assert content.keys() == {
        "format",
        "trainer",
        "gradients",
        "has_started",
        "has_ended",
        "failed_hook",
        "reason",
        "clock",
        "schedules",
        "loader",
        "datasets",
        "evaluations",
        "best",
        "journal",
        "rng",
        "seed",
    }


def test_checkpoint_within_an_epoch_knows_its_place_in_it_s2(tmp_path):
    class OwnGenerator(Toy):
        def initialize(self):
            super().initialize()
            generator = torch.Generator().manual_seed(1)
            self.train_loader = DataLoader(points(10), 2, shuffle=True, generator=generator)

    outcome = run(tmp_path, OwnGenerator, train_for="8 iterations", checkpoint_every="7 iterations")
    loader = checkpoint.load(outcome.directory.checkpoint(7))["loader"]
    assert loader["batches"] == 2
    assert loader["beginning"]["rng"].keys() >= {"python", "torch"}
    # The order of this epoch can be drawn again.
    drawn = torch.Generator()
    drawn.set_state(loader["beginning"]["samplers"]["loader"]["generators"]["generator"])
    again = DataLoader(points(10), 2, shuffle=True, generator=drawn)
    expected = torch.Generator().manual_seed(1)
    first = DataLoader(points(10), 2, shuffle=True, generator=expected)
    list(first)
    assert torch.equal(next(iter(again))[0], next(iter(first))[0])


def test_loader_and_evaluation_with_state_are_stored_s2(tmp_path):
    class Loader(list):
        def state_dict(self):
            return {"position": 5}

        def load_state_dict(self, state):
            raise AssertionError

    class WithLoader(Step):
        def initialize(self):
            super().initialize()
            self.train_loader = Loader([torch.ones(1)])

    class WithState(Constant):
        def state_dict(self):
            return {"asked_at": self.asked_at}

        def load_state_dict(self, state):
            raise AssertionError

    outcome = run(tmp_path, WithLoader, epochs=1, evaluations={"E": (WithState, {"result": 1})})
    content = checkpoint.load(outcome.directory.last_checkpoint)
    assert content["loader"]["feed"]["own"] == {"position": 5}
    assert content["evaluations"]["states"]["E"]["own"] == {"asked_at": [0, 1]}


def test_checkpoint_that_cannot_be_written_is_reported_and_training_goes_on(tmp_path, caplog):
    class Blocking(Step):
        def on_iteration_end(self):
            # In the place of the file there is a folder now.
            path = self.directory.checkpoint(self.iterations + 1)
            if self.iterations == 2:
                (path / "x").mkdir(parents=True)

    rehearsal = Rehearsal(tmp_path, Blocking, epochs=3, checkpoint_every="1 iteration")
    rehearsal.trainer.directory = rehearsal.directory
    outcome = rehearsal.run()
    assert outcome.trainer.iterations == 6
    assert "checkpoint_3.pt cannot be written: Is a directory" in caplog.text
    assert outcome.directory.last_checkpoint.exists()


# What goes wrong between steps costs no step


@pytest.mark.parametrize("where", ["evaluation", "on_end", "media"])
def test_failure_between_steps_leaves_the_state_on_disk(tmp_path, where):
    def fail(thing):
        if thing.trainer.iterations == 4 if where != "on_end" else True:
            raise RuntimeError("a mistake")
        return 1.0

    class Toys(Toy):
        on_end = fail if where == "on_end" else Toy.on_end

    results = {"evaluation": fail, "media": lambda e: {"type": "image", "value": [1, 2, 3]}}
    kind, told = (TrainingError, "HxW") if where == "media" else (RuntimeError, "a mistake")
    settings = {"evaluate_first": where != "media"}
    with pytest.raises(kind, match=told):
        run(
            tmp_path,
            Toys,
            epochs=2,
            every={"E": 2},
            evaluations=evaluations(E=results.get(where, 1.0)),
            **settings,
        )
    [directory] = tmp_path.iterdir()
    kept = checkpoint.load(directory / "checkpoints/last.pt")
    assert kept["clock"]["iterations"] == 4
    assert kept["schedules"]["evaluations"]["E"]["next_at"] == (4 if where == "on_end" else 2)


def test_failure_to_store_the_state_does_not_cover_the_first_one(tmp_path, caplog):
    def fail(evaluation):
        if evaluation.trainer.iterations == 2:
            raise RuntimeError("the first")
        return 1.0

    rehearsal = Rehearsal(tmp_path, epochs=2, evaluations=evaluations(E=fail))
    (rehearsal.directory.last_checkpoint / "x").mkdir(parents=True)
    with pytest.raises(RuntimeError, match="the first"):
        rehearsal.run()
    assert "cannot be written" in caplog.text


def test_weights_that_a_failing_evaluation_has_changed_are_not_stored(tmp_path, caplog):
    def fail(evaluation):
        if evaluation.trainer.iterations == 2:
            evaluation.trainer.net.weight.fill_(math.nan)
            raise RuntimeError("the first")
        return 1.0

    with pytest.raises(RuntimeError, match="the first"):
        run(tmp_path, epochs=2, evaluations=evaluations(E=fail))
    assert "The evaluation E has left its weights behind" in caplog.text
    [directory] = tmp_path.iterdir()
    assert list((directory / "checkpoints").iterdir()) == []


def test_final_checkpoint_that_cannot_be_written_fails_the_run(tmp_path):
    rehearsal = Rehearsal(tmp_path, Step, epochs=1)
    (rehearsal.directory.last_checkpoint / "x").mkdir(parents=True)
    with pytest.raises(checkpoint.CheckpointError, match=r"last\.pt cannot be written"):
        rehearsal.run()


# Requests to stop


def test_stop_ends_after_the_step_and_rounds_nothing_off(tmp_path):
    class Stopping(Toy):
        ended = False

        def train_step(self, data):
            super().train_step(data)
            if self.iterations == 4:
                self.loop.request_stop()

        def on_end(self):
            self.ended = True

    rehearsal = Rehearsal(
        tmp_path,
        Stopping,
        epochs=9,
        log_loss_every="3 iterations",
        evaluations=evaluations(E=1.0),
        every={"E": 99},
    )
    rehearsal.trainer.loop = rehearsal.loop
    outcome = rehearsal.run()
    assert outcome.ending.was_stopped
    assert outcome.ending.reason == "stopped by a signal"
    assert outcome.trainer.iterations == 5
    assert outcome.evaluations["E"].asked_at == [0]
    assert not outcome.trainer.ended
    # The open window of losses goes on later.
    assert iterations(outcome, "loss") == [3]
    kept = checkpoint.load(outcome.directory.last_checkpoint)
    assert kept["trainer"]["losses"]["counts"] == {"loss": 2}
    assert kept["clock"]["iterations"] == 5


def test_stop_during_an_evaluation_cuts_it_short_and_leaves_it_due(tmp_path):
    rehearsal = Rehearsal(tmp_path, epochs=9, evaluations=evaluations(A=1.0, B=1.0))

    def stop(evaluation):
        if evaluation.trainer.epochs == 1:
            rehearsal.loop.request_stop()
        return 1.0

    rehearsal.evaluations["A"].result = stop
    outcome = rehearsal.run()
    assert outcome.evaluations["A"].asked_at == [0, 2]
    assert outcome.evaluations["B"].asked_at == [0]
    assert (iterations(outcome, "A"), iterations(outcome, "B")) == ([0], [0])
    assert outcome.ending.was_stopped
    kept = checkpoint.load(outcome.directory.last_checkpoint)
    schedules = kept["schedules"]["evaluations"]
    assert {name: item["next_at"] for name, item in schedules.items()} == {"A": 1, "B": 1}


def test_stop_during_the_last_evaluations_is_not_a_finished_run(tmp_path):
    rehearsal = Rehearsal(
        tmp_path, epochs=1, evaluations=evaluations(A=1.0, B=1.0), every={"A": 9, "B": 9}
    )

    def stop(evaluation):
        if evaluation.trainer.epochs == 1:
            rehearsal.loop.request_stop()
        return 1.0

    rehearsal.evaluations["A"].result = stop
    ending = rehearsal.run().ending
    assert ending.was_stopped
    assert ending.reason == "stopped by a signal before the last evaluations"


def test_stop_after_everything_is_done_changes_nothing(tmp_path):
    class Stopping(Logger):
        def start(self, run):
            pass

        def log(self, metrics, step):
            if step == 2:
                rehearsal.loop.request_stop()

        def finish(self, exit_code):
            pass

    rehearsal = Rehearsal(tmp_path, epochs=1, evaluations=evaluations(A=1.0), loggers=[Stopping()])
    ending = rehearsal.run().ending
    assert (ending.was_stopped, ending.reason) == (False, "1 epoch done")


def test_stop_before_the_start_trains_nothing(tmp_path):
    rehearsal = Rehearsal(tmp_path, epochs=9, evaluations=evaluations(A=1.0))
    rehearsal.loop.request_stop()
    outcome = rehearsal.run()
    assert (outcome.trainer.iterations, outcome.ending.was_stopped) == (0, True)
    assert outcome.evaluations["A"].asked_at == []


def test_stop_while_a_checkpoint_is_written_is_heard_at_the_next_step(tmp_path):
    class Stopping:
        """Is asked for its state when a checkpoint is written."""

        def state_dict(self):
            self.loop.request_stop()
            return {}

        def load_state_dict(self, state):
            """Do nothing."""

    class Stopped(Endless):
        def initialize(self):
            super().initialize()
            self.part = Stopping()

    rehearsal = Rehearsal(
        tmp_path,
        Stopped,
        train_for="9 iterations",
        checkpoint_every="2 iterations",
        log_loss_every="9 iterations",
    )
    rehearsal.trainer.part.loop = rehearsal.loop
    outcome = rehearsal.run()
    assert (outcome.trainer.iterations, outcome.ending.was_stopped) == (3, True)


def test_stop_from_another_thread_is_heard_while_nothing_is_due(tmp_path):
    rehearsal = Rehearsal(tmp_path, Endless, train_for="1 hour", log_loss_every="1 hour")
    timer = threading.Timer(0.1, rehearsal.loop.request_stop)
    timer.start()
    outcome = rehearsal.run()
    timer.join()
    assert outcome.ending.was_stopped


# Evaluations leave no trace in training (K9)


def draw(evaluation):
    """Use up random numbers of all generators."""
    torch.rand(7)
    np.random.rand(5)
    random.random()
    return float(torch.rand(1)) + np.random.rand() + random.random()


class Noisy(Toy):
    """Draws from every generator in each step."""

    def initialize(self):
        super().initialize()
        self.net = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 8), nn.BatchNorm1d(8))
        self.head = nn.Linear(8, 1)
        self.frozen = nn.BatchNorm1d(8)
        self.frozen.eval()
        self.loose = [nn.Dropout(0.5)]
        self.opt = torch.optim.Adam([*self.net.parameters(), *self.head.parameters()], lr=0.01)
        self.modes = []

    def compute_loss(self, data):
        x, y = data
        hidden = self.loose[0](self.frozen(self.net(x)))
        loss = (self.head(hidden) - y).square().mean()
        self.add_loss_item("loss", loss)
        return loss

    def train_step(self, data):
        self.modes.append((self.net.training, self.frozen.training, self.loose[0].training))
        x, y = data
        x = x + 0.1 * np.random.rand() * torch.randn(2) + random.random()
        loss = self.compute_loss((x, y))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


class Meddling(Constant):
    """Does all it can to be noticed."""

    def evaluate(self):
        assert not torch.is_grad_enabled()
        assert not any(module.training for module in self.trainer.modules())
        assert not self.trainer.loose[0].training
        self.trainer.compute_loss(next(iter(self.trainer.train_loader)))
        self.trainer.train()
        torch.manual_seed(5)
        return draw(self)


def test_weights_are_bit_identical_with_and_without_evaluations_k9(tmp_path):
    plain = run(tmp_path, Noisy, epochs=4)
    watched = run(
        tmp_path,
        Noisy,
        epochs=4,
        evaluations={"A": (Meddling, {}), "B": (Constant, {"result": draw})},
        every={"A": "1 iteration", "B": "3 iterations"},
    )
    assert torch.equal(plain.weights, watched.weights)
    assert [row["loss"] for row in plain.rows] == [
        row["loss"] for row in watched.rows if "loss" in row
    ]
    assert set(watched.trainer.modes) == {(True, False, True)}


def test_values_of_an_evaluation_do_not_depend_on_the_others_k9(tmp_path):
    alone = run(tmp_path, Noisy, epochs=3, evaluations=evaluations(B=draw))
    together = run(tmp_path, Noisy, epochs=3, evaluations=evaluations(A=draw, B=draw, C=draw))
    assert [row["B"] for row in alone.rows if "B" in row] == [
        row["B"] for row in together.rows if "B" in row
    ]
    assert len({row["B"] for row in alone.rows if "B" in row}) == 4
    # Nor do they draw the same numbers.
    assert all(len({row["A"], row["B"], row["C"]}) == 3 for row in together.rows if "A" in row)


def test_modes_are_put_back_when_an_evaluation_fails(tmp_path):
    def fail(evaluation):
        raise RuntimeError("a mistake")

    rehearsal = Rehearsal(tmp_path, Noisy, epochs=1, evaluations=evaluations(E=fail))
    with pytest.raises(RuntimeError, match="a mistake"):
        rehearsal.run()
    assert rehearsal.trainer.net.training
    assert torch.is_grad_enabled()
    assert rehearsal.trainer._losses is rehearsal.loop._losses


def test_loggers_do_not_change_the_random_numbers_of_training_l8(tmp_path):
    class Drawing(Logger):
        def start(self, run):
            """Do nothing."""

        def log(self, metrics, step):
            draw(None)

        def log_media(self, name, media, path, step):
            draw(None)

        def finish(self, exit_code):
            """Do nothing."""

    plain = run(tmp_path, Noisy, epochs=3)
    logged = run(tmp_path, Noisy, epochs=3, loggers=[Drawing()], evaluations=evaluations(T="text"))
    assert torch.equal(plain.weights, logged.weights)


# What the progress line reads (R10)


def test_snapshot_says_how_far_training_is(tmp_path):
    seen = []

    class Watched(Toy):
        def on_iteration_end(self):
            seen.append(self.loop.snapshot())

    rehearsal = Rehearsal(
        tmp_path,
        Watched,
        epochs=2,
        log_loss_every="3 iterations",
        evaluations=evaluations(E=lambda e: seen.append(e.trainer.loop.snapshot())),
        every={"E": 2},
    )
    rehearsal.trainer.loop = rehearsal.loop
    rehearsal.run()
    assert [s.phase for s in seen] == ["evaluating E", *["training"] * 4, "evaluating E"]
    assert [s.iteration for s in seen] == [0, 1, 2, 3, 4, 4]
    assert [s.fraction for s in seen] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    assert [s.total_epochs for s in seen] == [2] * 6
    assert all("loss" in s.losses for s in seen[1:])
    assert all("E" not in s.losses for s in seen)


def test_rows_can_be_read_while_training_goes_on(tmp_path):
    class Reading(Toy):
        def on_epoch_end(self):
            self.seen = len(read_rows(self.directory))

    rehearsal = Rehearsal(tmp_path, Reading, epochs=3)
    rehearsal.trainer.directory = rehearsal.directory
    assert rehearsal.run().trainer.seen == 5
