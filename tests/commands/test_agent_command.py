"""What `jade agent` refuses before it asks anybody, and what it makes of the time it has."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from jade.cli import main
from jade.launch import agent, wandb_service, workplace

SWEEP = "program: trial.py\nmethod: grid\nparameters: {x: {values: [1, 2]}}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--devices=gpu"], "there is no device 'gpu'. Write cpu, cuda:0,cuda:1 or all."),
        (["--devices=cpu:1"], "there is no device 'cpu:1'"),
        (["--devices=cuda:0,cuda"], "names a device twice"),
        (["--per_device=0", "--count=0"], "--per_device must be at least 1, not 0."),
        (["--time_limit=3"], "'3' is no time. Write '55 minutes'"),
        (["--counts=3"], "There is no flag --counts. Did you mean --count?"),
        (["--count=many"], "invalid int value: 'many'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message, capsys):
    assert main(["agent", "team/project/id", *arguments]) == 2

    assert message in capsys.readouterr().err


def test_a_name_that_is_no_sweep_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)

    assert main(["agent", "a/b/c/d/e"]) == 2

    assert "does not name a sweep" in capsys.readouterr().err


def test_a_sweep_needs_a_login(capsys):
    assert main(["agent", "team/project/id"]) == 2

    assert "WANDB_API_KEY" in capsys.readouterr().err


@pytest.fixture
def sweep(project, wandb_online):
    project.write("trial.py", "")
    return wandb_online.create_sweep(SWEEP)


@pytest.fixture
def seen(monkeypatch):
    """What an agent that does nothing was made with."""
    found = {}

    class Agent:
        def __init__(self, sweep, slots, options, place, *_):
            found.update(options=options, files=sorted(place.sweep_folder.iterdir()))

        def receive(self, number):
            """Take no notice."""

        def run(self):
            return 0

    monkeypatch.setattr(agent, "Agent", Agent)
    with Path(os.devnull).open() as leash:
        service = SimpleNamespace(leash=leash.fileno(), token=lambda: None)
        monkeypatch.setattr(wandb_service, "WandbService", lambda _: service)
        yield found


def test_time_that_the_start_takes_is_a_part_of_the_limit(sweep, seen, monkeypatch):
    make = workplace.make_workplace

    def make_slowly(*arguments):
        time.sleep(0.2)
        return make(*arguments)

    monkeypatch.setattr(workplace, "make_workplace", make_slowly)
    monkeypatch.setenv("JADE_RESERVE_S", "20")
    assert main(["agent", sweep, "--cold", "--time_limit=60 s"]) == 0
    assert 0 < seen["options"].time_limit_s <= 59.8
    assert seen["options"].reserve_s == 20.0
    assert main(["agent", sweep, "--cold"]) == 0
    assert seen["options"].time_limit_s is None


def test_agent_removes_only_what_is_its_own(sweep, seen):
    assert main(["agent", sweep, "--cold"]) == 0
    (log,) = seen["files"]
    assert str(os.getpid()) in log.name
    assert not Path("wandb").exists()

    # Another agent has just opened these.
    others = [log.parent / name for name in ("abc.log", "server-elsewhere-7.log", "sweep.yml")]
    log.parent.mkdir(parents=True)
    for path in others:
        path.touch()
    assert main(["agent", sweep, "--cold"]) == 0
    assert main(["agent", sweep, "--preflight"]) == 0
    assert sorted(log.parent.iterdir()) == sorted(others)


def test_preflight_leaves_nothing_behind(sweep, capsys):
    assert main(["agent", sweep, "--preflight"]) == 0
    assert "this machine can run the sweep" in capsys.readouterr().out
    assert not Path("wandb").exists()
