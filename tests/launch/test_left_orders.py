"""A job that begins again goes on with what it had, unless somebody else does."""

import json
import os
import socket

import pytest

from jade.launch.left_orders import AGAIN, LeftOrders
from jade.launch.sweep_command import Order
from jade.lock import RunLock
from jade.owner import Owner
from jade.run_dir import FINISHED, PREEMPTED, RUNNING, RunDir

JOB = {"SLURM_JOB_ID": "7"}
REQUEUED = {**JOB, "SLURM_RESTART_COUNT": "1"}
ORDER = Order("r", "train.py", {"x": 1})


class Place:
    """The folder of a sweep, its runs, and what W&B says of them."""

    def __init__(self, root):
        self.folder, self.root = root / "sweep", root / "experiments"
        self.folder.mkdir()
        self.state = "running"

    def orders(self, environ, owner=None):
        """Make the orders of a process, which is this one if it is not said."""
        orders = LeftOrders(self.folder, self.root, environ, lambda _: self.state)
        orders._owner = owner or orders._owner
        return orders

    def leave(self, status=None, environ=JOB, host="elsewhere"):
        """Let a process take an order and vanish."""
        self.orders(environ, Owner(host, 2**22, 0.0)).add(ORDER)
        if status is not None:
            directory = self.root / ORDER.run_id
            directory.mkdir(parents=True, exist_ok=True)
            RunDir(directory).write_status(status, updated=0.0)

    @property
    def files(self):
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("status", "state", "is_ours"),
    [
        (None, "pending", True),
        (None, "gone", True),
        (None, "crashed", True),
        (RUNNING, "running", True),
        (RUNNING, "crashed", True),
        (PREEMPTED, "crashed", True),
        (None, "preempted", False),
        (RUNNING, "preempted", False),
        (RUNNING, "pending", False),
        (RUNNING, "killed", False),
        (PREEMPTED, "preempting", False),
        (PREEMPTED, "pending", False),
        (PREEMPTED, "finished", False),
        (PREEMPTED, "failed", False),
        (PREEMPTED, "gone", False),
        (FINISHED, "running", False),
    ],
)
def test_what_wandb_says_decides_whose_a_run_is(place, status, state, is_ours):
    place.leave(status)
    place.state = state
    again = place.orders(REQUEUED)

    taken = again.take_over()

    assert taken == ([Order("r", "train.py", {"x": 1, AGAIN: {}})] if is_ours else [])
    assert not again.is_in_doubt
    assert bool(place.files) == is_ours


@pytest.mark.parametrize("status", [None, PREEMPTED])
@pytest.mark.parametrize(("later", "is_ours"), [("crashed", True), ("preempted", False)])
def test_run_that_wandb_takes_for_running_is_doubtful(place, status, later, is_ours):
    """Another agent has it; or W&B has not heard that it was stopped, and says so later."""
    place.leave(status)
    again = place.orders(REQUEUED)
    assert again.take_over() == []
    assert again.is_in_doubt
    assert place.files

    place.state = later
    assert [order.run_id for order in again.settle(again.judge())] == ["r"] * is_ours
    assert not again.is_in_doubt


def test_run_of_somebody_else_is_left_to_them_in_the_end(place):
    place.leave(PREEMPTED)
    again = place.orders(REQUEUED)
    again.take_over()

    again.give_up_doubts()

    assert not again.is_in_doubt
    assert place.files == []


def test_order_is_kept_while_wandb_is_out_of_reach(place):
    place.leave(PREEMPTED)
    place.state = ""
    again = place.orders(REQUEUED, Owner("elsewhere", 2**22, 0.0))
    assert again.take_over() == []
    again.give_up_doubts()

    place.state = "crashed"
    later = place.orders({**JOB, "SLURM_RESTART_COUNT": "2"})
    assert [order.run_id for order in later.take_over()] == ["r"]


def test_run_that_is_held_is_waited_for(place):
    place.leave(RUNNING)
    again = place.orders(REQUEUED)
    with RunLock(place.root / "r"):
        assert again.take_over() == []
        assert again.is_in_doubt

    assert [order.run_id for order in again.settle(again.judge())] == ["r"]


def test_run_that_wandb_hands_out_meanwhile_is_not_taken_twice(place):
    place.leave(PREEMPTED)
    again = place.orders(REQUEUED)
    again.take_over()
    place.state = "crashed"
    verdicts = again.judge()

    again.add(ORDER)

    assert not again.is_in_doubt
    assert again.settle(verdicts) == []


def test_processes_of_one_start_leave_each_other_alone(place):
    """As those of `srun` on two nodes, or two in the background of a script."""
    place.state = "pending"
    here, beside = place.orders(JOB), place.orders(JOB)
    here.add(ORDER)
    place.leave()

    assert beside.take_over() == []
    assert place.orders(REQUEUED).take_over() != []
    assert len(place.files) == 2


def test_process_that_is_gone_from_this_machine_has_left_its_orders(place):
    place.leave(host=socket.gethostname())
    place.state = "pending"

    assert [order.run_id for order in place.orders(JOB).take_over()] == ["r"]


def test_each_process_of_srun_goes_on_with_its_own(place):
    place.state = "pending"
    place.leave(environ={**JOB, "SLURM_STEP_ID": "0", "SLURM_PROCID": "1"})

    first = place.orders({**REQUEUED, "SLURM_STEP_ID": "0", "SLURM_PROCID": "0"})
    second = place.orders({**REQUEUED, "SLURM_STEP_ID": "0", "SLURM_PROCID": "1"})

    assert first.take_over() == []
    assert [order.run_id for order in second.take_over()] == ["r"]


def test_orders_follow_the_key_of_a_job_to_another_id(place):
    place.state = "pending"
    place.leave(environ={**JOB, "JADE_JOB_KEY": "digits/3"})

    assert place.orders({"SLURM_JOB_ID": "8"}).take_over() == []
    assert place.orders({"SLURM_JOB_ID": "8", "JADE_JOB_KEY": "digits"}).take_over() == []
    moved = place.orders({"SLURM_JOB_ID": "8", "JADE_JOB_KEY": "digits/3"})
    assert [order.run_id for order in moved.take_over()] == ["r"]
    (name,) = place.files
    assert json.loads((place.folder / name).read_bytes())["pid"] == os.getpid()


def test_nothing_is_kept_outside_of_jobs(place):
    orders = place.orders({})
    orders.add(ORDER)

    assert not orders.is_kept
    assert place.files == []
