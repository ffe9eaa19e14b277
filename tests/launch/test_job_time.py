import time

import pytest

from jade.job import find_job_id
from jade.launch.job_time import find_reserve, find_seconds_left


@pytest.fixture
def squeue(tmp_path):
    """A squeue that answers with a text, and notes what it was asked."""

    def make(answer):
        path = tmp_path / "squeue"
        path.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/asked"\necho "{answer}"\n')
        path.chmod(0o755)
        return {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    return make


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [("9:59", 599.0), ("1-02:00:00", 93600.0), ("UNLIMITED", None), ("INVALID", None), ("", None)],
)
def test_slurm_is_asked_how_long_the_job_may_take(squeue, answer, seconds):
    assert find_seconds_left({**squeue(answer), "SLURM_JOB_ID": "7"}) == seconds


def test_element_of_an_array_is_asked_for_by_its_number(squeue, tmp_path):
    ids = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    assert find_job_id(ids) == "7_3"
    find_seconds_left({**squeue("1:00"), **ids})
    assert "--jobs=7_3" in (tmp_path / "asked").read_text()


def test_newer_slurm_says_when_the_job_ends():
    end = {"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": str(int(time.time()) + 1000)}
    assert 900 < find_seconds_left(end) <= 1000


def test_outside_a_job_and_without_squeue_nothing_is_known(tmp_path):
    assert find_seconds_left({}) is None
    assert find_seconds_left({"SLURM_JOB_ID": "7", "PATH": str(tmp_path)}) is None


def test_reserve_is_a_tenth_and_at_most_two_minutes():
    assert find_reserve(600.0, {}) == 60.0
    assert find_reserve(36000.0, {}) == 120.0
    assert find_reserve(None, {}) == 0.0


def test_reserve_is_what_the_job_was_submitted_with_if_that_is_more():
    given = {"JADE_RESERVE_S": "600"}
    assert find_reserve(36000.0, given) == 600.0
    assert find_reserve(36000.0, {"JADE_RESERVE_S": "30"}) == 120.0
    # There has to be time to train.
    assert find_reserve(600.0, given) == 300.0
    assert find_reserve(None, given) == 0.0
    assert find_reserve(600.0, {"JADE_RESERVE_S": "soon"}) == 60.0
