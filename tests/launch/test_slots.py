"""Where trials run, and what they see of it."""

import pytest

from jade.errors import ConfigError
from jade.launch.slots import make_slots, num_cores, parse_devices, share_cores


@pytest.mark.parametrize(
    ("text", "num_cuda", "expected"),
    [
        ("cpu", 0, ["cpu"]),
        ("cuda:0, CUDA:1", 2, ["cuda:0", "cuda:1"]),
        ("cuda", 1, ["cuda:0"]),
        ("all", 2, ["cuda:0", "cuda:1"]),
        ("all", 0, ["cpu"]),
        ("auto", 0, ["auto"]),
    ],
)
def test_devices_are_parsed(text, num_cuda, expected):
    assert parse_devices(text, num_cuda) == expected


@pytest.mark.parametrize("text", ["gpu", "", "cpu,cpu", "cpu:0", "cuda:0,cuda", "cuda:x"])
def test_wrong_devices_are_refused(text):
    with pytest.raises(ConfigError, match="--devices"):
        parse_devices(text)


def test_each_trial_sees_its_own_gpu_whatever_the_agent_may_see():
    slots = make_slots(["cuda:0", "cuda:1"], 2, {"CUDA_VISIBLE_DEVICES": "5,GPU-abc"})

    visible = [slot.environ["CUDA_VISIBLE_DEVICES"] for slot in slots]
    assert visible == ["5", "GPU-abc", "5", "GPU-abc"]
    # Without it, a training would take the CPU.
    assert {slot.environ["DEVICE"] for slot in slots} == {"cuda"}
    assert [slot.name for slot in slots] == ["cuda:0/1", "cuda:1/1", "cuda:0/2", "cuda:1/2"]


def test_trials_beside_each_other_share_the_cores():
    (alone,) = make_slots(["auto"], 1, {})
    many = make_slots(["cpu"], num_cores() + 1, {})
    told = make_slots(["cpu"], 2, {"OMP_NUM_THREADS": "7"})
    forced = make_slots(["cpu"], 2, {"OMP_NUM_THREADS": "7"}, 3)

    assert alone.environ == {}
    assert {slot.environ["OMP_NUM_THREADS"] for slot in many} == {"1"}
    assert "OMP_NUM_THREADS" not in told[0].environ
    assert forced[0].environ["OMP_NUM_THREADS"] == "3"


def test_no_trial_has_more_threads_than_its_share_of_the_cores():
    number = num_cores() + 1
    environ = {"OMP_NUM_THREADS": "64"}

    (alone,) = share_cores(make_slots(["cpu"], 1, environ), environ)
    two = share_cores(make_slots(["cpu"], 2, environ), environ)
    many = share_cores(make_slots(["cpu"], number, environ), environ)

    assert "OMP_NUM_THREADS" not in alone.environ
    assert {slot.environ["OMP_NUM_THREADS"] for slot in two} == {str(max(1, num_cores() // 2))}
    assert {slot.environ["OMP_NUM_THREADS"] for slot in many} == {"1"}


def test_a_trial_on_the_cpu_sees_no_gpu():
    (slot,) = make_slots(["cpu"], 1, {})

    assert slot.environ == {"DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": ""}
