"""What the end of a process says about a trial."""

import signal

import pytest

from jade.launch.program import LOST
from jade.launch.slots import Slot
from jade.launch.sweep_command import Order
from jade.launch.trial import Trial
from jade.run_dir import RunDir
from jade.signals import EXIT_PREEMPTED


@pytest.mark.parametrize(
    ("code", "never_began"), [(EXIT_PREEMPTED, True), (-signal.SIGTERM, True), (LOST, False)]
)
def test_of_a_lost_trial_nobody_knows_whether_it_began(tmp_path, code, never_began):
    trial = Trial(Order("r", None, {}), Slot("cpu", "cpu", {}), tmp_path, RunDir(tmp_path / "r"))
    trial.was_asked_to_stop = trial.was_to_make_room = True

    trial.end(code)
    trial.close()

    assert trial.never_began == never_began
