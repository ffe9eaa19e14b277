"""S1, S6, A7: checkpoints are written beside training, and what cannot be written is said."""

import logging
import threading

import pytest
import torch
import toy

from jade import checkpoint
from jade.errors import CheckpointError, NonFiniteLossError
from jade.eval import Evaluation
from jade.keeper import Keeper
from jade.run_dir import RunDir


class Kept:
    """A keeper of a small trainer, and what it needs of a loop."""

    def __init__(self, folder, **options):
        self.trainer = toy.build(toy.Toy)
        self.directory = RunDir.create(folder)
        self.woken = threading.Event()
        self.keeper = Keeper(
            self.trainer, self.directory, self.read_state, self.woken.set, **options
        )

    def read_state(self):
        return {
            "trainer": self.trainer.full_state(),
            "clock": {"iterations": self.trainer.iterations},
        }

    def step(self, iteration, weight=None):
        self.trainer._clock.iterations = iteration
        self.trainer.net.weight.data.fill_(iteration if weight is None else weight)

    def weights(self, name):
        state = checkpoint.load(self.directory.checkpoints / name)
        return state["trainer"]["modules"]["net.weight"].tolist()

    def names(self):
        return sorted(path.name for path in self.directory.checkpoints.iterdir())


@pytest.fixture
def kept(tmp_path):
    made = []

    def make(**options):
        made.append(Kept(tmp_path, **options))
        return made[-1]

    yield make
    for item in made:
        item.keeper.close()


def block(directory, name):
    """Let a checkpoint not be written: a folder that has its name is in the way."""
    (directory.checkpoints / name / "content").mkdir(parents=True)


def test_state_is_that_of_the_moment_at_which_it_was_to_be_kept(kept):
    item = kept()
    item.step(3)
    item.keeper.save_last()
    item.step(4)
    item.keeper.close()
    assert item.weights("last.pt") == [[3.0, 3.0]]


def test_last_checkpoint_but_one_stays(kept):
    item = kept()
    for iteration in (1, 2, 3):
        item.step(iteration)
        item.keeper.save_last()
    item.keeper.close()
    assert item.weights("last.pt") == [[3.0, 3.0]]
    assert item.weights("former.pt") == [[2.0, 2.0]]


def test_periodic_checkpoints_are_pruned_to_the_newest(kept):
    item = kept(keep_last=2)
    for iteration in (9, 10, 11, 12):
        item.step(iteration)
        item.keeper.save_periodic()
    item.keeper.close()
    assert item.names() == ["checkpoint_11.pt", "checkpoint_12.pt"]


def test_periodic_checkpoints_all_stay_unless_told_otherwise(kept):
    item = kept()
    for iteration in (9, 10, 11):
        item.step(iteration)
        item.keeper.save_periodic()
    item.keeper.close()
    assert len(item.names()) == 3


def test_old_checkpoints_stay_until_the_new_one_is_written(kept):
    item = kept(keep_last=1)
    item.step(1)
    item.keeper.save_periodic()
    item.keeper.close()
    block(item.directory, "checkpoint_2.pt")
    item.step(2)
    item.keeper.save_periodic()
    item.keeper.close()
    assert item.weights("checkpoint_1.pt") == [[1.0, 1.0]]


def test_best_that_could_not_be_written_is_reported_at_the_end(kept, caplog):
    item = kept()
    block(item.directory, "best.pt")
    item.step(7)
    item.keeper.save_best()
    item.keeper.close()
    assert "The state of iteration 7, which is the best one, could not be written" in caplog.text


def test_best_that_was_written_is_not_reported(kept, caplog):
    item = kept()
    item.step(7)
    item.keeper.save_best()
    item.keeper.close()
    assert item.weights("best.pt") == [[7.0, 7.0]]
    assert caplog.text == ""


def test_spoilt_state_is_not_written_and_stops_training(kept):
    item = kept()
    item.step(1)
    item.keeper.save_last()
    item.step(2, weight=torch.nan)
    item.keeper.save_last()
    assert item.woken.wait(30)
    with pytest.raises(NonFiniteLossError, match=r"the parameter net\.weight is not finite"):
        item.keeper.check()
    item.keeper.close()
    assert item.weights("last.pt") == [[1.0, 1.0]]


def test_spoilt_state_is_written_if_that_is_allowed(kept):
    item = kept(refuses_nan=False)
    item.step(1, weight=torch.inf)
    item.keeper.save_last()
    item.keeper.close()
    item.keeper.check()
    assert item.weights("last.pt") == [[torch.inf, torch.inf]]


def test_spoilt_state_is_not_what_a_stopped_run_leaves(kept):
    item = kept()
    item.step(1)
    item.keeper.save_stopped()
    item.step(2, weight=torch.nan)
    with pytest.raises(NonFiniteLossError):
        item.keeper.save_stopped()
    assert item.weights("last.pt") == [[1.0, 1.0]]


def test_state_that_cannot_be_held_is_an_error_at_once(kept):
    item = kept()
    item.trainer.odd = object()
    item.trainer.add_attribute_to_store("odd")
    with pytest.raises(CheckpointError, match=r"odd.* is a object, which a checkpoint cannot hold"):
        item.keeper.save_last()


def test_result_that_cannot_be_written_is_an_error(kept):
    item = kept()
    block(item.directory, "last.pt")
    with pytest.raises(CheckpointError, match="cannot be written"):
        item.keeper.save_final()


def test_stopped_run_that_cannot_be_written_is_reported(kept, caplog):
    item = kept()
    block(item.directory, "last.pt")
    assert item.keeper.save_stopped() is False
    assert "The previous checkpoint stays." in caplog.text


def test_state_in_need_never_covers_the_error_on_its_way(kept, caplog):
    item = kept()
    item.trainer.net.weight.data.fill_(torch.nan)
    caplog.set_level(logging.ERROR)
    item.keeper.save_in_need()
    assert "The state is not stored: Training has diverged" in caplog.text
    assert item.names() == []


class FailsTheSecondTime(Evaluation):
    def initialize(self):
        self.num_begun = 0
        self.add_attribute_to_store("num_begun")

    def evaluate(self):
        self.num_begun += 1
        if self.num_begun == 2:
            raise OSError("the data is gone")
        return 1.0


def test_state_in_need_does_not_remember_half_an_evaluation(tmp_path):
    evaluations = {"Count": (FailsTheSecondTime, {})}
    rehearsal = toy.Rehearsal(tmp_path, evaluations=evaluations, epochs=2)
    with pytest.raises(OSError, match="the data is gone"):
        rehearsal.run()
    state = checkpoint.load(rehearsal.directory.last_checkpoint)
    assert state["evaluations"]["states"]["Count"]["stored"] == {"num_begun": 1}
