import json
import time

import pytest
import yaml
from served_runs import serve

import jade
from jade.cli import main
from jade.errors import ConfigError

SWEEP = {
    "method": "grid",
    "program": "train.py",
    "metric": {"name": "Error", "goal": "minimize"},
    "parameters": {
        "model.lr": {"values": [0.1, 0.2, 0.3]},
        "seed": {"values": [1]},
        "epochs": {"value": 1},
    },
}


@pytest.fixture
def sweep(trained, wandb_online, tmp_path):
    """A sweep of three runs on the server, none of which is here."""
    made = {}
    sweep_id = wandb_online.create_sweep(yaml.safe_dump(SWEEP))
    for number, lr in enumerate((0.1, 0.2, 0.3)):
        path = trained("--epochs=1", f"--model.lr={lr}")
        moved = tmp_path / "elsewhere" / f"r{number}"
        moved.parent.mkdir(exist_ok=True)
        path.rename(moved)
        served = serve(wandb_online, moved, sweep=sweep_id)
        served.summary["Error"] = (0.5, 0.2, 0.2)[number]
        served.created_at = f"2026-11-18T10:00:0{number}Z"
        made[moved.name] = served
    return sweep_id, made


def change_sweep(server, made, **changes):
    """Register the sweep anew with other contents, and let it have the runs."""
    sweep_id = server.create_sweep(yaml.safe_dump({**SWEEP, **changes}))
    for served in made.values():
        served.sweep = sweep_id
    return sweep_id


def listed(capsys, *arguments):
    capsys.readouterr()
    assert main(["runs", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_sweep_is_listed_with_what_it_has_swept(sweep, capsys):
    sweep_id, _ = sweep
    capsys.readouterr()
    assert main(["runs", "--sweep", f"team/project/{sweep_id}", "--sort=best"]) == 0
    header, *rows, count = capsys.readouterr().out.splitlines()
    assert " ".join(header.split()) == "run name status progress lr best or last started took"
    assert [row.split()[0] for row in rows] == ["r2", "r1", "r0"]
    assert rows[0].split()[2:5] == ["finished", "━━━━━━━━", "100%"]
    assert "0.3" in rows[0]
    assert "Error 0.2" in rows[0]
    assert count == "3 runs: 3 finished"


def test_rows_of_a_sweep_say_all_that_an_analysis_needs(sweep, capsys):
    sweep_id, made = sweep
    rows = listed(capsys, "--sweep", sweep_id)
    assert [row["id"] for row in rows] == ["r2", "r1", "r0"]
    first = rows[-1]
    assert first["path"] == "team/project/r0"
    assert first["swept"] == {"model.lr": 0.1}
    assert first["best"] == {"metric": "Error", "value": 0.5, "iteration": None, "mode": "min"}
    assert first["config"] == made["r0"].config
    assert first["summary"]["Error"] == 0.5
    assert (first["state"], first["status"], first["sweep"]) == ("finished", "finished", sweep_id)
    assert (first["iterations"], first["epochs"], first["fraction"]) == (3, 1, 1.0)


def test_project_is_listed(sweep, capsys):
    assert {row["id"] for row in listed(capsys, "team/project")} == {"r0", "r1", "r2"}


def test_folder_wins_over_a_project(sweep, project, capsys):
    (project.root / "team" / "project").mkdir(parents=True)
    assert listed(capsys, "team/project") == []


def test_progress_of_a_running_run_is_what_it_has_logged_last(sweep, capsys):
    sweep_id, made = sweep
    made["r0"].state = "running"
    made["r0"].raw_config["epochs"] = {"value": 4}
    made["r0"].summary = {"epoch": 1, "iteration": 3, "loss": 0.5, "run/status": "preempted"}
    made["r1"].state = "failed"
    made["r1"].summary["run/status"] = "interrupted"
    rows = {row["id"]: row for row in listed(capsys, "--sweep", sweep_id)}
    assert (rows["r0"]["status"], rows["r0"]["fraction"]) == ("running", 0.25)
    assert rows["r0"]["best"] is None
    assert rows["r1"]["status"] == "interrupted"


@pytest.mark.parametrize(
    ("which", "meant"), [("best", "r1"), ("last", "r2"), ("r0", "r0"), ("", "r1")]
)
def test_sweep_stands_for_one_of_its_runs(sweep, which, meant):
    sweep_id, _ = sweep
    reference = f"sweep:team/project/{sweep_id}:{which}".rstrip(":")
    assert jade.load_run(reference).run_id == meant


def test_best_run_has_the_metric_and_it_is_a_number(sweep):
    sweep_id, made = sweep
    made["r1"].summary["Error"] = "NaN"
    del made["r2"].summary["Error"]
    assert jade.load_run(f"sweep:{sweep_id}:best").run_id == "r0"


def test_best_run_follows_the_goal(sweep, wandb_online):
    metric = {"name": "Error", "goal": "maximize"}
    sweep_id = change_sweep(wandb_online, sweep[1], metric=metric)
    assert jade.load_run(f"sweep:{sweep_id}:best").run_id == "r0"


def test_sweep_without_a_best_run_says_why(sweep, wandb_online):
    sweep_id, made = sweep
    for served in made.values():
        del served.summary["Error"]
        served.summary["Errors"] = 1.0
    with pytest.raises(
        ConfigError, match=r"None of the 3 runs .* its metric 'Error'. Did you mean"
    ):
        jade.load_run(f"sweep:{sweep_id}:best")
    sweep_id = change_sweep(wandb_online, made, metric=None)
    with pytest.raises(ConfigError, match="names no metric"):
        jade.load_run(f"sweep:{sweep_id}:best")
    with pytest.raises(ConfigError, match="has no run 'r9'"):
        jade.load_run(f"sweep:{sweep_id}:r9")


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["--sweep", "team/project/nowhere"], "There is no sweep team/project/nowhere on W&B"),
        (["team/nowhere"], "There is no project team/nowhere on W&B"),
        (["nowhere"], "There is no folder nowhere."),
        (["x", "--sweep", "y"], "exclude each other"),
    ],
)
def test_what_is_not_there_is_said(sweep, tokens, message, capsys):
    assert main(["runs", *tokens]) == 2
    assert message in capsys.readouterr().err


def test_sweep_without_runs_is_said(wandb_online, project, capsys):
    sweep_id = wandb_online.create_sweep(yaml.safe_dump(SWEEP))
    assert main(["runs", "--sweep", sweep_id]) == 0
    assert "There are no runs in the sweep team/project/" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="has no runs yet"):
        jade.load_run(f"sweep:{sweep_id}:best")


def test_show_puts_a_run_on_wandb_on_one_screen(sweep, capsys):
    capsys.readouterr()
    assert main(["show", "team/project/r0"]) == 0
    shown = capsys.readouterr().out
    assert "r0" in shown.splitlines()[0]
    assert "LineTrainer" in shown
    assert "http://127.0.0.1" in shown
    assert "last.pt" in shown
    assert "jade resume team/project/r0" in shown
    assert "Error" in shown


def test_show_asks_wandb_whether_a_run_is_running(sweep, capsys):
    _, made = sweep
    status = json.loads(made["r0"].files["jade/status.json"])
    changed = {**status, "status": "running", "updated": time.time() - 3600}
    made["r0"].files["jade/status.json"] = json.dumps(changed).encode()
    made["r0"].state = "running"
    capsys.readouterr()
    assert main(["show", "wandb:r0"]) == 0
    assert "running" in capsys.readouterr().out.splitlines()[0]
