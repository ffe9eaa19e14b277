"""The W&B-compatible server of the tests, asked by the real client."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest


@pytest.fixture
def wandb(wandb_online, monkeypatch, tmp_path):
    """The real client, connected to the server of the test."""
    import wandb

    monkeypatch.chdir(tmp_path)
    return wandb


def test_a_run_arrives_with_all_that_it_says_of_itself(wandb_online, wandb):
    config = {"model": {"params": {"beta": 0.5}}, "seed": 1}
    about = {"group": "g", "tags": ["a", "b"], "notes": "n", "job_type": "train", "name": "shown"}

    with wandb.init(id="one", config=config, **about) as run:
        for step in range(3):
            run.log({"loss": 1 / (step + 1), "iteration": step})

    served = wandb_online.runs["one"]
    assert served.config == config
    assert [row["loss"] for row in served.history] == [1, 1 / 2, 1 / 3]
    assert served.summary["loss"] == 1 / 3
    assert (served.state, served.exit_code) == ("finished", 0)
    assert (served.group, served.tags, served.notes) == ("g", ["a", "b"], "n")
    assert (served.job_type, served.display_name) == ("train", "shown")


def test_a_resumed_run_goes_on_where_it_was(wandb_online, wandb):
    with wandb.init(id="one", config={"a": 1}) as run:
        run.log({"loss": 1})
        run.log({"loss": 2})

    with wandb.init(id="one", resume="must") as run:
        assert run.starting_step == 2
        run.log({"loss": 3})

    served = wandb_online.runs["one"]
    assert [(row["_step"], row["loss"]) for row in served.history] == [(0, 1), (1, 2), (2, 3)]
    assert served.config == {"a": 1}
    assert served.num_starts == 2


def test_files_are_overwritten_in_place_and_come_back(wandb_online, wandb, tmp_path):
    with wandb.init(id="one") as run:
        path = Path(run.dir) / "jade" / "last.pt"
        path.parent.mkdir()
        path.write_bytes(b"first")
        run.save(path, base_path=run.dir, policy="now")
    with wandb.init(id="one", resume="must") as run:
        path = Path(run.dir) / "jade" / "last.pt"
        path.parent.mkdir()
        path.write_bytes(b"second")
        run.save(path, base_path=run.dir, policy="now")

    assert wandb_online.runs["one"].files["jade/last.pt"] == b"second"
    assert wandb_online.runs["one"].num_uploads["jade/last.pt"] == 2
    read = wandb.Api().run("team/project/one")
    read.file("jade/last.pt").download(root=str(tmp_path / "down")).close()
    assert (tmp_path / "down" / "jade" / "last.pt").read_bytes() == b"second"
    # W&B answers for files that are not there, too.
    assert read.file("missing").size == 0


def test_the_public_api_reads_what_was_logged(wandb_online, wandb):
    for name, loss in (("one", 0.5), ("two", 0.25)):
        with wandb.init(id=name, config={"lr": loss}) as run:
            for step in range(4):
                run.log({"loss": loss + step, "other": 1})

    api = wandb.Api()
    run = api.run("team/project/two")
    assert (run.state, run.config, run.summary["loss"]) == ("finished", {"lr": 0.25}, 3.25)
    assert len(run.history(pandas=False)) == 4
    assert [row["loss"] for row in run.scan_history(keys=["loss"])] == [0.25, 1.25, 2.25, 3.25]
    assert [row["loss"] for row in run.scan_history()] == [0.25, 1.25, 2.25, 3.25]
    best_first = api.runs("team/project", order="+summary_metrics.loss")
    assert [found.id for found in best_first] == ["two", "one"]
    assert [found.id for found in api.runs("team/project", {"config.lr": 0.5})] == ["one"]
    with pytest.raises(wandb.errors.CommError, match="Could not find"):
        api.run("team/project/three")


GRID = """
method: grid
program: train.py
parameters:
  b: {values: [1.0, 2.5]}
  a: {parameters: {x: {values: [1e-5, null]}}}
"""


class Agent:
    """An agent that asks for work through the real client, but starts nothing."""

    def __init__(self, api, sweep_id):
        from wandb.apis.public.sweeps import _agent_heartbeat, _register_agent

        self._id = _register_agent(api, "here", sweep_id=sweep_id)["id"]
        self._beat = lambda state: _agent_heartbeat(api, self._id, {}, state)

    def heartbeat(self, *live):
        return self._beat(dict.fromkeys(live, True))


def test_each_point_of_a_grid_is_handed_out_once(wandb_online, wandb):
    sweep_id = wandb_online.create_sweep(GRID)
    agents = [Agent(wandb.Api(), sweep_id) for _ in range(6)]

    with ThreadPoolExecutor(6) as pool:
        commands = [given for answer in pool.map(Agent.heartbeat, agents) for given in answer]

    assert wandb_online.sweeps[sweep_id].points == [
        {"a": {"x": "1e-5"}, "b": 1},
        {"a": {"x": "1e-5"}, "b": 2.5},
        {"a": {"x": None}, "b": 1},
        {"a": {"x": None}, "b": 2.5},
    ]
    assert sorted(given["run_id"] for given in commands) == sorted(wandb_online.runs)
    assert {given["program"] for given in commands} == {"train.py"}
    assert {given["type"] for given in commands} == {"run"}
