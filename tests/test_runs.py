import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_files import write_run

from jade.errors import ConfigError
from jade.lock import STALE_S, RunLock
from jade.run_dir import RunDir
from jade.runs import find_run, find_runs, load_run_summary

ROOT = Path(__file__).parent.parent


def ids(runs):
    return [run.id for run in runs]


def status_of(run):
    return load_run_summary(run.root).status


# Finding all


def test_runs_are_found_at_any_depth_newest_first(tmp_path):
    now = time.time()
    write_run(tmp_path, "old", started=now - 50)
    write_run(tmp_path / "sweep" / "deeper", "new", started=now - 5)
    write_run(tmp_path / "sweep", "middle", started=now - 20)

    assert ids(find_runs(tmp_path)) == ["new", "middle", "old"]


def test_runs_inside_a_run_directory_are_not_looked_for(tmp_path):
    run = write_run(tmp_path, "outer")
    write_run(run.root, "inner")

    assert ids(find_runs(tmp_path)) == ["outer"]


def test_runs_below_a_run_directory_are_itself(tmp_path):
    assert ids(find_runs(write_run(tmp_path, "alone").root)) == ["alone"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", '{"status": 3}', "\0", '{"state": "ok"}'])
def test_runs_leave_out_foreign_folders(tmp_path, text):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "status.json").write_text(text)
    write_run(foreign / "below", "ours")

    assert ids(find_runs(tmp_path)) == ["ours"]


def test_runs_show_one_whose_status_was_lost_as_unknown(tmp_path):
    run = write_run(tmp_path, "torn")
    run.config.touch()
    run.status_file.write_text('{"status": "runn')

    assert status_of(run) == "unknown"


def test_runs_show_a_status_that_nobody_knows_as_unknown(tmp_path):
    assert status_of(write_run(tmp_path, "odd", "dreaming")) == "unknown"


def test_runs_behind_links_in_a_circle_are_found_once(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    write_run(elsewhere, "linked")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(elsewhere)
    (root / "again").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(root)
    (root / "broken").symlink_to(tmp_path / "nowhere")

    assert ids(find_runs(root)) == ["linked"]


def test_runs_leave_out_hidden_folders(tmp_path):
    write_run(tmp_path / ".trash", "thrown")

    assert find_runs(tmp_path) == []


def test_runs_of_a_missing_folder_are_none(tmp_path):
    assert find_runs(tmp_path / "nowhere") == []


def test_runs_with_odd_fields_are_listed_without_them(tmp_path):
    run = write_run(
        tmp_path,
        "odd",
        started="yesterday",
        updated=None,
        fraction="half",
        best={"metric": "E"},
        latest=[1],
        host=3,
        pid=True,
        epochs=1.5,
    )

    found = load_run_summary(run.root)

    assert found.fraction == 1.0  # it says that it is finished
    assert (found.best, found.latest) == (None, {})
    assert (found.host, found.pid, found.epochs) == (None, None, None)
    assert abs(found.age_s) < 60


def test_runs_read_numbers_that_json_does_not_have(tmp_path):
    run = write_run(
        tmp_path,
        "nan",
        latest={"loss": "nan"},
        best={"metric": "E", "value": "inf", "iteration": 3, "mode": "max"},
    )

    found = load_run_summary(run.root)

    assert found.latest["loss"] != found.latest["loss"]
    assert found.best.value == float("inf")
    json.dumps(found.to_json(), allow_nan=False)


# Running or crashed


def test_run_whose_lock_is_held_is_running(tmp_path):
    run = write_run(tmp_path, "busy", "running", updated=0)

    with RunLock(run.root):
        assert status_of(run) == "running"

    assert status_of(run) == "crashed"


def test_run_of_a_killed_process_is_crashed_at_once(tmp_path):
    run = write_run(tmp_path, "killed", "running")
    script = "import os, sys\nfrom pathlib import Path\nfrom jade.lock import RunLock\nRunLock(Path(sys.argv[1])).acquire()\nos.kill(os.getpid(), 9)"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}

    subprocess.run([sys.executable, "-c", script, run.root], env=environ, check=False)

    assert run.owner.exists()
    assert status_of(run) == "crashed"


@pytest.mark.parametrize(("age_s", "status"), [(1, "running"), (STALE_S + 1, "crashed")])
def test_run_of_another_host_is_judged_by_its_signs_of_life(tmp_path, age_s, status):
    run = write_run(tmp_path, "far", "running", host="elsewhere", updated=time.time() - age_s)
    run.lock.touch()
    run.owner.write_text(json.dumps({"host": "elsewhere", "pid": 1, "since": 0}))

    assert status_of(run) == status


def test_run_that_ends_while_it_is_looked_at_is_not_crashed(tmp_path, monkeypatch):
    run = write_run(tmp_path, "ending", "running")

    def end(directory):
        run.write_status("finished")
        return False

    monkeypatch.setattr("jade.runs.is_held", end)
    assert status_of(run) == "finished"


def test_run_that_ended_well_is_never_crashed(tmp_path):
    assert status_of(write_run(tmp_path, "done", "preempted", updated=0)) == "preempted"


def test_run_lasts_until_now_while_running_and_until_its_last_sign_afterwards(tmp_path):
    now = time.time()
    times = {"started": now - 100, "updated": now - 40}
    running = write_run(tmp_path, "running", "running", **times)
    failed = write_run(tmp_path, "failed", "failed", **times)

    assert load_run_summary(running.root).duration_s == pytest.approx(100, abs=30)
    assert load_run_summary(failed.root).duration_s == pytest.approx(60, abs=0.001)


# Finding one


@pytest.fixture
def three(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    now = time.time()
    for age_s, run_id in enumerate(["20260102-b", "20260101-a2", "20260101-a1"]):
        write_run(tmp_path / "experiments", run_id, started=now - age_s)


@pytest.mark.parametrize(
    ("wanted", "run_id"),
    [
        ("20260101-a1", "20260101-a1"),
        ("experiments/20260101-a1", "20260101-a1"),
        ("experiments/20260101-a1/", "20260101-a1"),
        (Path("experiments/20260101-a1"), "20260101-a1"),
        ("20260102", "20260102-b"),
        ("last", "20260102-b"),
    ],
)
def test_run_is_found_by_path_id_beginning_and_age(three, wanted, run_id):
    assert find_run(wanted).id == run_id


def test_run_is_found_where_it_is_looked_for(three, tmp_path, monkeypatch):
    write_run(tmp_path / "other", "here")

    assert find_run("here", tmp_path / "other").id == "here"
    monkeypatch.setenv("EXPERIMENTS_ROOT", "other")
    assert find_run("last").id == "here"


def test_run_is_found_below_the_root_that_a_file_env_names(three, tmp_path):
    write_run(tmp_path / "other", "here")
    Path(".env").write_text("EXPERIMENTS_ROOT=other\n")

    assert find_run("he").id == "here"


def test_run_in_the_working_directory_has_the_name_of_it(three, monkeypatch):
    monkeypatch.chdir("experiments/20260102-b")

    assert find_run(".").id == "20260102-b"


def test_run_whose_id_begins_another_is_found_by_it(three, tmp_path):
    write_run(tmp_path / "experiments", "20260101-a")

    assert find_run("20260101-a").id == "20260101-a"


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("20260101", "begins the ids of 2 runs: 20260101-a2, 20260101-a1. Give more of it."),
        ("20260101-a3", "There is no run '20260101-a3' below experiments. Did you mean '2026"),
        ("x", "There is no run 'x' below experiments. The newest: 20260102-b,"),
        ("experiments", "experiments is not the directory of a run. `jade runs experiments` lists"),
    ],
)
def test_run_that_is_not_clear_is_refused_with_suggestions(three, wanted, text):
    with pytest.raises(ConfigError) as caught:
        find_run(wanted)

    assert text in str(caught.value)


def test_run_whose_id_stands_twice_is_refused_with_the_places(tmp_path):
    for folder in ("a", "b"):
        write_run(tmp_path / folder, "same")

    with pytest.raises(ConfigError, match=r"is the id of 2 runs: .*same.*Give the directory"):
        find_run("same", tmp_path)


@pytest.mark.parametrize("exists", [True, False])
def test_run_where_there_is_none_is_refused(tmp_path, exists):
    root = tmp_path / "root"
    if exists:
        root.mkdir()

    with pytest.raises(ConfigError, match=r"below .* none at all" if exists else "no folder"):
        find_run("last", root)


# The real thing


def test_run_that_was_trained_is_summarized(project, arguments, capsys):
    from jade.cli import main

    assert main(arguments) == 0

    (found,) = find_runs(Path("experiments"))
    assert found.status == "finished"
    assert found.fraction == 1.0
    assert (found.epochs, found.reason, found.exit_code) == (2, "2 epochs done", 0)
    assert RunDir(found.path).metrics.is_file()
