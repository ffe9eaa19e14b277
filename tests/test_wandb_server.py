"""The W&B-compatible server of the tests, asked by the real client."""

import base64
import json
import os
import random
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from itertools import islice
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from wandb_server import ServedRun, WandbServer
from wandb_server.points import draw, points


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
    assert (read.file("missing").size, read.file("missing").md5) == (0, "0")
    assert read.file("jade/last.pt").md5 == base64.b64encode(md5(b"second").digest()).decode()


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


def test_numbers_that_json_lacks_are_kept_and_come_back_as_text(wandb_online, wandb):
    with wandb.init(id="one") as run:
        run.log({"loss": float("inf"), "nested": {"deeper": float("-inf")}})

    assert wandb_online.runs["one"].history[0]["loss"] == float("inf")
    read = wandb.Api().run("team/project/one")
    assert read.summary["loss"] == "Infinity"
    assert [row["nested.deeper"] for row in read.scan_history()] == ["-Infinity"]


def test_lines_that_do_not_follow_are_not_taken():
    run = ServedRun("team", "project", "one")
    run.take({"files": {"wandb-history.jsonl": {"offset": 0, "content": ['{"_step": 0}']}}})

    with pytest.raises(ValueError, match="line 2 comes, 1 are there"):
        run.take({"files": {"wandb-history.jsonl": {"offset": 2, "content": ['{"_step": 2}']}}})


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

        self.id = _register_agent(api, "here", sweep_id=sweep_id)["id"]
        self._beat = lambda state: _agent_heartbeat(api, self.id, {}, state)

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
    # Whole numbers come as such, as those of W&B's own server do.
    assert "1.0" not in repr(commands)
    assert sorted(given["run_id"] for given in commands) == sorted(wandb_online.runs)
    assert {given["program"] for given in commands} == {"train.py"}
    assert {given["type"] for given in commands} == {"run"}


def test_a_sweep_ends_when_all_its_runs_have_ended(wandb_online, wandb):
    sweep_id = wandb_online.create_sweep("method: grid\nparameters: {a: {values: [1, 2]}}")
    busy, idle = (Agent(wandb.Api(), sweep_id) for _ in range(2))
    (first,) = busy.heartbeat()
    (second,) = idle.heartbeat()

    # A process that is gone without a word counts as crashed; the other one is waited for.
    assert idle.heartbeat() == []
    assert wandb_online.runs[second["run_id"]].state == "crashed"
    assert busy.heartbeat(first["run_id"]) == []
    assert idle.heartbeat() == []

    assert busy.heartbeat() == [{"type": "exit"}]
    assert idle.heartbeat() == [{"type": "exit"}]
    assert wandb_online.sweeps[sweep_id].state == "FINISHED"


def test_an_agent_that_is_gone_holds_up_nobody(wandb_online, wandb):
    sweep_id = wandb_online.create_sweep("method: grid\nparameters: {a: {value: 1}}")
    gone, idle = (Agent(wandb.Api(), sweep_id) for _ in range(2))
    (given,) = gone.heartbeat()
    assert idle.heartbeat() == []

    wandb_online.lose_agent(gone.id)

    assert wandb_online.runs[given["run_id"]].state == "crashed"
    assert idle.heartbeat() == [{"type": "exit"}]


def test_states_of_a_sweep_decide_what_agents_hear(wandb_online, wandb):
    from wandb.sdk.sweeps import SweepNotFoundError

    sweep_id = wandb_online.create_sweep("method: random\nparameters: {a: {min: 0, max: 1.0}}")
    agent = Agent(wandb.Api(), sweep_id)
    wandb_online.set_sweep_state(sweep_id, "PAUSED")
    assert agent.heartbeat() == []
    wandb_online.set_sweep_state(sweep_id, "RUNNING")
    (given,) = agent.heartbeat()

    wandb_online.set_sweep_state(sweep_id, "CANCELED")

    assert agent.heartbeat(given["run_id"]) == [{"type": "stop", "run_id": given["run_id"]}]
    assert agent.heartbeat() == [{"type": "exit"}]
    assert wandb_online.runs[given["run_id"]].state == "killed"
    wandb_online.delete_sweep(sweep_id)
    with pytest.raises(SweepNotFoundError):
        agent.heartbeat()


def test_a_preempted_run_is_handed_out_again_with_all_of_its_configuration(
    wandb_online, wandb, monkeypatch
):
    sweep_id = wandb_online.create_sweep("method: grid\nparameters: {a: {values: [0.5]}}")
    (given,) = Agent(wandb.Api(), sweep_id).heartbeat()
    monkeypatch.setenv("WANDB_SWEEP_ID", sweep_id)
    monkeypatch.setenv("WANDB_RUN_ID", given["run_id"])
    wandb.teardown()  # It has read the variables before.
    run = wandb.init(config={"model": {"lr": 1.0}})
    run.log({"loss": 1})
    run.mark_preempting()
    run.finish(exit_code=75)
    assert wandb_online.runs[given["run_id"]].state == "preempted"

    other = Agent(wandb.Api(), sweep_id)
    (again,) = other.heartbeat()

    assert (given["type"], given["args"]) == ("run", {"a": {"value": 0.5}})
    assert (again["type"], again["run_id"]) == ("resume", given["run_id"])
    assert again["args"]["model"] == {"value": {"lr": 1}}
    assert "t" in again["args"]["_wandb"]["value"]
    assert other.heartbeat(given["run_id"]) == []


def test_a_run_that_was_preempting_but_ended_well_is_finished(wandb_online, wandb):
    run = wandb.init(id="one")
    run.mark_preempting()
    run.finish(exit_code=0)

    assert wandb_online.runs["one"].state == "finished"


def test_points_come_in_the_order_of_wandb():
    config = {
        "method": "grid",
        "parameters": {
            "z": {"values": [1, 2]},
            "m.lr": {"values": [3, 4]},
            "m": {"parameters": {"b": {"value": 5}, "a": {"parameters": {"c": {"value": None}}}}},
        },
    }
    assert list(points(config, seed=0)) == [
        {"m": {"a": {"c": None}, "b": 5}, "m.lr": lr, "z": z} for lr in (3, 4) for z in (1, 2)
    ]


@pytest.mark.parametrize(
    ("parameter", "low", "high"),
    [
        ({"min": 1, "max": 3}, 1, 3),
        ({"min": 1.0, "max": 3.0}, 1, 3),
        ({"distribution": "q_uniform", "min": 0, "max": 10, "q": 5}, 0, 10),
        ({"distribution": "log_uniform", "min": -2, "max": 0}, 0.135, 1),
        ({"distribution": "log_uniform_values", "min": 1e-5, "max": 1e-1}, 1e-5, 1e-1),
        ({"distribution": "q_log_uniform_values", "min": 8, "max": 64, "q": 8}, 8, 64),
        ({"distribution": "inv_log_uniform", "min": 0, "max": 2}, 0.135, 1),
        ({"distribution": "inv_log_uniform_values", "min": 0.1, "max": 1}, 0.1, 1),
        ({"distribution": "beta", "a": 2, "b": 2}, 0, 1),
        ({"distribution": "log_normal", "mu": 0, "sigma": 0.1}, 0.5, 2),
        ({"mu": 0, "sigma": 0.1}, -1, 1),
    ],
)
def test_drawn_values_are_in_their_range(parameter, low, high):
    drawn = [draw(random.Random(seed), parameter) for seed in range(200)]

    assert low - 1e-9 <= min(drawn) < max(drawn) <= high + 1e-9


def test_drawn_points_are_the_same_for_a_seed_and_follow_probabilities():
    parameter = {"values": ["a", "b"], "probabilities": [0.9, 0.1]}
    config = {"method": "random", "parameters": {"x": parameter}}
    drawn = [point["x"] for point in islice(points(config, seed=1), 500)]

    assert drawn == [point["x"] for point in islice(points(config, seed=1), 500)]
    assert 20 < Counter(drawn)["b"] < 90


def test_a_sweep_has_no_more_runs_than_its_cap(wandb_online, wandb):
    text = "method: bayes\nmetric: {name: loss}\nrun_cap: 1\nparameters: {a: {min: 0, max: 9}}"
    sweep_id = wandb_online.create_sweep(text)
    agent = Agent(wandb.Api(), sweep_id)
    (given,) = agent.heartbeat()

    assert isinstance(given["args"]["a"]["value"], int)
    assert agent.heartbeat() == [{"type": "exit"}]


@pytest.mark.parametrize(
    "config",
    [
        {"method": "gird", "parameters": {"a": {"value": 1}}},
        {"method": "grid", "parameters": {}},
        {"method": "grid", "parameters": {"a": {"min": 0.0, "max": 1.0}}},
        {"method": "bayes", "parameters": {"a": {"min": 0.0, "max": 1.0}}},
        {"method": "random", "parameters": {"a": {"distribution": "gauss"}}},
    ],
)
def test_an_invalid_sweep_is_refused(wandb_online, wandb, config):
    with pytest.raises(wandb.errors.CommError, match="Invalid sweep config"):
        wandb.sweep(config)

    assert wandb_online.sweeps == {}


@pytest.mark.slow
def test_a_door_that_is_closed_for_a_while_loses_nothing(wandb_online, wandb):
    run = wandb.init(id="one")
    run.log({"loss": 0})
    wandb_online.wait_until(lambda: wandb_online.count("file_stream"))
    wandb_online.close_door()
    run.log({"loss": 1})
    with pytest.raises(OSError, match="refused"):
        ask(wandb_online, "Viewer")
    opening = threading.Timer(1, wandb_online.open_door)
    opening.start()
    # Nothing can be sent at first: the client tries again.
    run.finish()
    opening.join()

    assert [row["loss"] for row in wandb_online.runs["one"].history] == [0, 1]
    assert wandb_online.runs["one"].state == "finished"


@pytest.mark.slow
def test_faults_delay_but_lose_nothing(wandb_online, wandb):
    wandb_online.faults.fail(500, count=1, match="file_stream one")
    wandb_online.faults.fail(429, count=1, match="graphql CreateRunFiles")
    wandb_online.faults.cut(match="one/model.pt", count=1)
    with wandb.init(id="one") as run:
        path = Path(run.dir) / "model.pt"
        path.write_bytes(b"weights" * 10_000)
        run.save(path, base_path=run.dir, policy="now")
        run.log({"loss": 1})

    served = wandb_online.runs["one"]
    assert wandb_online.faults.num_failed == 3
    assert [row["loss"] for row in served.history] == [1]
    assert served.files["model.pt"] == b"weights" * 10_000
    assert served.num_uploads["model.pt"] == 1


@pytest.mark.slow
def test_a_run_that_a_test_leaves_behind_does_not_hold_up_the_next_one(tmp_path):
    test = """
        def test_it(wandb_online):
            import wandb

            run = wandb.init(id="one")
            wandb_online.faults.fail(500)
            run.log({"loss": 1})
    """
    assert "1 passed" in pytest_says(tmp_path, test)


def test_another_key_is_refused(wandb_online, wandb, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "f" * 40)

    with pytest.raises(wandb.errors.CommError, match="user is not logged in"):
        wandb.init(id="one")

    assert wandb_online.runs == {}


def test_a_project_comes_to_be_by_its_first_run_and_an_entity_does_not(wandb_online, wandb):
    with pytest.raises(wandb.errors.CommError, match="entity nobody not found"):
        wandb.init(id="one", entity="nobody")
    with pytest.raises(ValueError, match="Could not find project"):
        list(wandb.Api().runs("team/new"))

    with wandb.init(id="two", project="new"):
        pass

    assert [run.id for run in wandb.Api().runs("team/new")] == ["two"]


def test_artifacts_are_kept_by_version_and_alias(wandb_online, wandb, tmp_path):
    for content in (b"first", b"second"):
        (tmp_path / "model.pt").write_bytes(content)
        with wandb.init(id=content.decode()) as run:
            artifact = wandb.Artifact("model", type="model")
            artifact.add_file(str(tmp_path / "model.pt"))
            run.log_artifact(artifact, aliases=["final"])

    with wandb.init(id="user") as run:
        used = Path(run.use_artifact("model:final").download())
    old = Path(wandb.Api().artifact("team/project/model:v0").download())

    assert (used / "model.pt").read_bytes() == b"second"
    assert (old / "model.pt").read_bytes() == b"first"
    assert sorted(wandb_online.artifacts["model:v1"].aliases) == ["final", "latest"]
    assert wandb_online.artifacts["model:v1"].used_by == ["user"]
    assert wandb_online.artifacts["model:v0"].files == {"model.pt": b"first"}


def ask(server, operation):
    """Ask with neither the client nor its patience."""
    token = base64.b64encode(f"api:{server.api_key}".encode()).decode()
    body = json.dumps({"query": f"query {operation} {{ x }}"}).encode()
    request = Request(f"{server.base_url}/graphql", body, {"Authorization": f"Basic {token}"})
    with urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_what_is_unknown_is_noted_and_fails_the_test_that_asked(tmp_path):
    with WandbServer() as server:
        assert ask(server, "Viewer")["data"]["viewer"]["entity"] == "team"
        with pytest.raises(HTTPError, match="400"):
            ask(server, "Telepathy")
    assert "Telepathy" in server.unknown[0]

    test = """
        def test_it(wandb_server):
            wandb_server.unknown.append('Telepathy')
    """
    assert "1 passed, 1 error" in pytest_says(tmp_path, test)


def pytest_says(folder, test):
    """Run a test in a process of its own, with the fixtures of W&B only."""
    (folder / "test_it.py").write_text(textwrap.dedent(test))
    command = [sys.executable, "-m", "pytest", "-p", "wandb_fixtures", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    ended = subprocess.run(
        [*command, "test_it.py"], env=env, cwd=folder, capture_output=True, text=True, timeout=100
    )
    return ended.stdout


TRIAL = """
    import sys, time, wandb

    with open("started", "a") as file:
        file.write(f"{sys.argv[-1] if len(sys.argv) == 2 else 'again'}\\n")
    run = wandb.init()
    run.log({"loss": 1})
    if run.config["a"] == 2 and len(sys.argv) == 2:
        run.mark_preempting()
        sys.exit(75)
    while run.config["a"] == 3:
        run.log({"loss": 2})
        time.sleep(0.01)
"""


@pytest.mark.slow
def test_two_agents_share_a_sweep(wandb_online, tmp_path, monkeypatch):
    """W&B's own commands from end to end; a run is preempted, and one is stopped."""
    (tmp_path / "trial.py").write_text(textwrap.dedent(TRIAL))
    (tmp_path / "sweep.yml").write_text(
        "program: trial.py\nmethod: grid\nparameters: {a: {values: [1, 2, 3, 4]}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("WANDB_X_FILE_STREAM_TRANSMIT_INTERVAL", "1")
    create = [sys.executable, "-m", "wandb", "sweep", "sweep.yml"]
    subprocess.run(create, check=True, capture_output=True)
    (sweep_id,) = wandb_online.sweeps
    command = wandb_online.agent_command(sweep_id)
    agents = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
    try:
        wandb_online.wait_until(lambda: any(r.summary.get("loss") == 2 for r in runs(wandb_online)))
        wandb_online.stop_run(wandb_online.sweeps[sweep_id].runs[2])
        assert [agent.wait(60) for agent in agents] == [0, 0]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()

    assert {run.config["a"]: run.state for run in runs(wandb_online)} == {
        1: "finished",
        2: "finished",
        3: "killed",
        4: "finished",
    }
    started = sorted((tmp_path / "started").read_text().split())
    assert started == ["--a=1", "--a=2", "--a=3", "--a=4", "again"]
    assert wandb_online.sweeps[sweep_id].state == "FINISHED"


def runs(server):
    return list(server.runs.values())
