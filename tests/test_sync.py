import hashlib
import json
import os
import subprocess
import sys

import pytest
from served_runs import serve

from jade import yaml_file
from jade.cli import main
from jade.lock import RunLock
from jade.metrics_table import MetricsTable
from jade.run_dir import RunDir

PICTURES = """
    import numpy as np

    from jade import Evaluation, Media


    class Show(Evaluation):
        def evaluate(self):
            wave = np.linspace(-1, 1, 8000)
            return {
                "number": 0.5,
                "picture": Media("image", np.zeros((4, 4))),
                "table": Media("table", [{"class": "cat", "n": 3, "share": 0.5}]),
                "spread": Media("histogram", [1.0, 2.0, 3.0]),
                "note": Media("text", "a < b"),
                "sound": Media("audio", wave, sample_rate=8000),
            }
"""
KINDS = {
    "Show/picture": "image-file",
    "Show/table": "table-file",
    "Show/spread": "histogram",
    "Show/note": "html-file",
    "Show/sound": "audio-file",
}


@pytest.fixture
def run(trained, wandb_online):
    """A run of two epochs that W&B has never heard of."""
    return trained(
        "--log_loss_every=1 iteration",
        "--best_metric=Error",
        "--run_name=first",
        "--group=them",
        "--tags=a,b",
        "--notes=why",
        "--job_type=train",
    )


def rows_of(directory):
    return MetricsTable.load(RunDir(directory).metrics).records()


def rows_on(served):
    return [{k: v for k, v in row.items() if not k.startswith("_")} for row in served.history]


def set_status(directory, **changes):
    path = RunDir(directory).status_file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def starts(server):
    return server.count("graphql", "UpsertBucket")


def test_run_made_offline_becomes_one_run_with_all_that_it_has(run, wandb_online, capsys):
    assert main(["sync", run.name]) == 0
    assert f"{run.name}: new run, 7 rows, 9 files sent, http://127.0.0.1" in capsys.readouterr().out
    served = wandb_online.runs[run.name]
    assert (served.state, served.exit_code, served.num_starts) == ("finished", 0, 1)
    assert rows_on(served) == rows_of(run)
    assert [row["_step"] for row in served.history] == list(range(7))
    assert served.config == json.loads(json.dumps(yaml_file.load(run / "config.yml").values))
    known = json.loads((run / "summary.json").read_text())
    assert {name: served.summary[name] for name in known} == known
    assert (served.display_name, served.group, served.notes) == ("first", "them", "why")
    assert (served.job_type, served.tags) == ("train", ["a", "b"])
    for name in ("config.yml", "metrics.csv", "summary.json", "checkpoints/best.pt"):
        assert served.files[f"jade/{name}"] == (run / name).read_bytes()
    assert json.loads(served.files["jade/status.json"]) == json.loads(
        (run / "status.json").read_text()
    )


def test_second_time_changes_nothing(run, wandb_online, capsys):
    assert main(["sync", run.name]) == 0
    before, uploads = starts(wandb_online), dict(wandb_online.runs[run.name].num_uploads)
    assert main(["sync", run.name]) == 0
    assert f"{run.name}: W&B has all of it" in capsys.readouterr().out
    assert starts(wandb_online) == before
    assert dict(wandb_online.runs[run.name].num_uploads) == uploads


def test_run_resumed_offline_in_pieces_is_one_run(run, wandb_online):
    for total in (3, 4):
        assert main(["resume", run.name, f"--total={total} epochs", "--wandb=disabled"]) == 0
    assert main(["sync", run.name]) == 0
    served = wandb_online.runs[run.name]
    assert rows_on(served) == rows_of(run)
    assert [row["_step"] for row in served.history] == list(range(13))


def test_run_that_went_on_after_a_sync_is_completed(run, wandb_online, capsys):
    assert main(["sync", run.name]) == 0
    assert main(["resume", run.name, "--total=3 epochs", "--wandb=disabled"]) == 0
    assert main(["sync", run.name]) == 0
    assert "completed, 3 rows" in capsys.readouterr().out
    served = wandb_online.runs[run.name]
    assert rows_on(served) == rows_of(run)
    assert served.files["jade/checkpoints/last.pt"] == (run / "checkpoints/last.pt").read_bytes()


def test_lost_connection_is_made_good_without_sending_anything_twice(run, wandb_online, capsys):
    served = serve(wandb_online, run, state="crashed", upload=False)
    lines = served.lines["wandb-history.jsonl"]
    del lines[4:]
    first = list(lines)
    assert main(["sync", run.name]) == 0
    assert "completed, 3 rows" in capsys.readouterr().out
    assert served.lines["wandb-history.jsonl"][:4] == first
    assert [row["loss"] for row in rows_on(served)[1:]] == [row["loss"] for row in rows_of(run)[1:]]
    assert served.state == "finished"


def test_rows_that_the_server_can_not_take_any_more_are_named(run, wandb_online, caplog):
    served = serve(wandb_online, run, upload=False)
    del served.lines["wandb-history.jsonl"][:5]
    assert main(["sync", run.name]) == 0
    assert (
        "W&B has 2 of the 7 rows up to iteration 6, and takes none before its last" in caplog.text
    )


def test_media_come_along_as_what_they_are(project, trained, wandb_online, capsys):
    project.write("modules/eval/show.py", PICTURES)
    project.write("eval.yml", "Show:\n  class: Show\n")
    run = trained("--epochs=1")
    assert main(["sync", run.name]) == 0
    assert "10 media" in capsys.readouterr().out
    served = wandb_online.runs[run.name]
    for row in served.history:
        assert {name: row[name]["_type"] for name in KINDS} == KINDS
    table = next(name for name in served.files if name.endswith("table.json"))
    content = json.loads(served.files[table])
    assert (content["columns"], content["data"]) == (["class", "n", "share"], [["cat", 3, 0.5]])
    digests = {hashlib.md5(content).digest() for content in served.files.values()}
    pictures = sorted((run / "evaluations").rglob("*.png"))
    assert {hashlib.md5(path.read_bytes()).digest() for path in pictures} <= digests


@pytest.mark.parametrize(
    ("status", "exit_code", "state", "code"),
    [
        ("failed", 1, "failed", 1),
        ("interrupted", 130, "failed", 130),
        ("preempted", 75, "preempted", 75),
        ("stopped", 0, "finished", 0),
        ("running", None, "failed", 1),
    ],
)
def test_final_state_is_the_one_of_the_run(run, wandb_online, status, exit_code, state, code):
    set_status(run, status=status, exit_code=exit_code)
    assert main(["sync", run.name]) == 0
    served = wandb_online.runs[run.name]
    assert (served.state, served.exit_code) == (state, code)
    before = starts(wandb_online)
    assert main(["sync", run.name]) == 0
    assert starts(wandb_online) == before


@pytest.mark.parametrize(
    ("level", "names"), [("none", set()), ("last", {"last"}), ("best", {"last", "best"})]
)
def test_upload_says_which_checkpoints_come_along(run, wandb_online, level, names):
    assert main(["sync", run.name, f"--upload={level}"]) == 0
    files = wandb_online.runs[run.name].files
    found = {name for name in files if name.endswith(".pt")}
    assert found == {f"jade/checkpoints/{name}.pt" for name in names}


def test_running_run_is_refused(run, wandb_online, capsys):
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom jade.lock import RunLock\n"
        "RunLock(Path(sys.argv[1])).acquire()\nprint('held', flush=True)\ntime.sleep(60)"
    )
    set_status(run, status="running")
    holder = subprocess.Popen([sys.executable, "-c", code, run], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        assert main(["sync", run.name]) == 73
    finally:
        holder.kill()
        holder.communicate()
    assert "is still running" in capsys.readouterr().err
    assert wandb_online.runs == {}


def test_run_id_of_another_configuration_is_refused(run, trained, wandb_online, capsys, tmp_path):
    other = trained("--model.params.lr=0.7")
    run.rename(tmp_path / "moved")
    other.rename(run)
    served = serve(wandb_online, tmp_path / "moved")
    served.id = run.name
    wandb_online.world.runs[("team", "project", run.name)] = served
    assert main(["sync", run.name]) == 2
    assert "is one of another configuration" in capsys.readouterr().err
    assert starts(wandb_online) == 0


def test_all_brings_those_that_were_not_kept_from_it(run, project, wandb_online, capsys):
    config = run / "config.yml"
    config.write_text(config.read_text().replace("wandb: disabled", "wandb: offline"))
    kept = project.root / "experiments" / "kept"
    kept.mkdir()
    for path in run.rglob("*"):
        target = kept / path.relative_to(run)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            target.write_bytes(path.read_bytes())
    text = (kept / "config.yml").read_text()
    (kept / "config.yml").write_text(text.replace("wandb: offline", "wandb: disabled"))
    assert main(["sync", "--all"]) == 0
    assert set(wandb_online.runs) == {run.name}


def test_one_that_fails_does_not_keep_the_others_back(run, project, wandb_online, capsys):
    broken = project.root / "experiments" / "broken"
    (broken / "checkpoints").mkdir(parents=True)
    (broken / "config.yml").write_text("model: [")
    (broken / "status.json").write_text('{"status": "failed"}')
    assert main(["sync", "broken", run.name]) == 2
    assert set(wandb_online.runs) == {run.name}
    assert "broken:" in capsys.readouterr().err


def test_server_that_is_away_is_said_and_nothing_is_left(run, wandb_online, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_HTTP_TIMEOUT", "2")
    before = sorted(run.rglob("*"))
    wandb_online.close_door()
    assert main(["sync", run.name]) == 1
    assert "W&B at http://127.0.0.1" in capsys.readouterr().err
    assert sorted(run.rglob("*")) == before


def test_wrong_key_is_said(run, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert main(["sync", run.name]) == 2
    assert "does not accept the API key" in capsys.readouterr().err


def test_nothing_named_is_asked_back(capsys):
    assert main(["sync"]) == 2
    assert main(["sync", "x", "--all"]) == 2
    assert "Which runs?" in capsys.readouterr().err


def test_sweep_in_the_environment_is_not_taken_for_that_of_the_run(run, wandb_online, monkeypatch):
    monkeypatch.setenv("WANDB_SWEEP_ID", "foreign")
    monkeypatch.setenv("WANDB_RUN_ID", "other")
    assert main(["sync", run.name]) == 0
    assert set(wandb_online.runs) == {run.name}
    assert wandb_online.runs[run.name].sweep is None
    assert os.environ["WANDB_SWEEP_ID"] == "foreign"


def test_run_is_locked_while_it_is_brought_and_free_afterwards(run, wandb_online):
    assert main(["sync", run.name]) == 0
    with RunLock(run):
        pass


def test_run_that_was_online_all_the_time_needs_nothing(trained, wandb_online, capsys):
    run = trained("--wandb=online")
    before = starts(wandb_online)
    assert main(["sync", run.name]) == 0
    assert "W&B has all of it" in capsys.readouterr().out
    assert starts(wandb_online) == before


def test_run_that_could_not_reach_the_server_is_brought_there_later(
    trained, wandb_online, monkeypatch, capsys
):
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "2")
    wandb_online.close_door()
    run = trained("--wandb=online", "--log_loss_every=1 iteration")
    wandb_online.open_door()
    assert main(["sync", run.name]) == 0
    served = wandb_online.runs[run.name]
    assert (rows_on(served), served.state) == (rows_of(run), "finished")


def test_run_recorded_offline_is_brought_there_without_the_folder_of_wandb(trained, wandb_online):
    run = trained("--wandb=offline", "--log_loss_every=1 iteration")
    for path in sorted((run / "wandb").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert main(["sync", run.name]) == 0
    assert rows_on(wandb_online.runs[run.name]) == rows_of(run)


def test_trial_made_offline_ends_up_in_its_sweep(
    project, arguments, wandb_online, monkeypatch, caplog
):
    text = "method: grid\nparameters: {seed: {values: [1]}}\n"
    sweep = wandb_online.create_sweep(text, project="elsewhere", entity="user")
    with monkeypatch.context() as agent:
        for name, value in (
            ("WANDB_SWEEP_ID", sweep),
            ("WANDB_RUN_ID", "trial"),
            ("WANDB_ENTITY", "user"),
            ("WANDB_PROJECT", "elsewhere"),
        ):
            agent.setenv(name, value)
        assert main([*arguments, "--wandb=offline"]) == 0
    monkeypatch.delenv("WANDB_PROJECT")
    monkeypatch.delenv("WANDB_ENTITY")
    assert main(["sync", "trial"]) == 0
    served = wandb_online.runs["trial"]
    assert (served.entity, served.project, served.sweep) == ("user", "elsewhere", sweep)
    assert served.state == "finished"
    monkeypatch.setenv("WANDB_PROJECT", "third")
    assert main(["sync", "trial"]) == 0
    assert "trial belongs to the project elsewhere on W&B" in caplog.text
    assert list(wandb_online.runs) == ["trial"]


def test_upload_that_takes_too_long_is_one_message_and_goes_on_later(
    run, wandb_online, monkeypatch, capsys
):
    monkeypatch.setattr("jade.sync.FINISH_TIMEOUT_S", 0.2)
    monkeypatch.setattr("jade.sync.LEAST_BYTES_PER_SECOND", 1e12)
    wandb_online.faults.hold("put")
    assert main(["sync", run.name]) == 1
    assert "has not got everything in time. Call it again" in capsys.readouterr().err
    wandb_online.faults.clear()
    # As slow as that, it has all the time that it needs.
    monkeypatch.setattr("jade.sync.LEAST_BYTES_PER_SECOND", 100.0)
    assert main(["sync", run.name]) == 0
    assert wandb_online.runs[run.name].state == "finished"
