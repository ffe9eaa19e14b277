import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_files import write_run
from terminal import show_on_terminal

from jade.cli import main
from jade.runs import STATUSES

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Four runs in the default folder, the newest first: failed, finished, preempted, crashed."""
    monkeypatch.chdir(tmp_path)
    root, now = tmp_path / "experiments", time.time()
    write_run(root, "d", "running", started=now - 7200, updated=now - 3600, fraction=0.29)
    accuracy = {"metric": "Accuracy", "iteration": 9, "mode": "max"}
    write_run(
        root, "c", "preempted", started=now - 300, fraction=0.5, best={**accuracy, "value": 0.97}
    )
    write_run(root, "b", started=now - 190, updated=now - 70, best={**accuracy, "value": 0.5})
    reason = "RuntimeError: " + "far too long to be shown on any terminal, " * 5 + "at last"
    write_run(
        root,
        "a",
        "failed",
        started=now - 20,
        host="node07",
        reason=reason,
        latest={"Acc": 0.2, "Rec Loss": 1.23456789},
    )
    return root


def table(text):
    """Return the rows of what was printed, by the id of the run, and the line below them."""
    _, *rows, count = text.splitlines()
    return {row.split()[0]: row for row in rows}, count


def run(capsys, *arguments):
    code = main(["runs", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return table(captured.out)


def listed(capsys, *arguments):
    return list(run(capsys, *arguments)[0])


def test_runs_are_listed_newest_first_with_all_that_matters(root, capsys):
    rows, count = run(capsys)

    assert list(rows) == ["a", "b", "c", "d"]
    assert "Rec Loss 1.2346" in rows["a"]
    assert "node07" in rows["a"]
    assert rows["b"].split()[1:] == [
        "finished",
        "━" * 8,
        "100%",
        *["Accuracy", "0.5", "3", "min", "ago", "2:00"],
    ]
    assert "━━━━────  50%" in rows["c"]
    assert "crashed" in rows["d"]
    assert " 29%" in rows["d"]
    assert count == "4 runs: 1 failed, 1 finished, 1 preempted, 1 crashed"


def test_runs_in_a_pipe_are_plain_and_never_cut(root, capsys):
    rows, _ = run(capsys)

    assert rows["a"].endswith("at last")
    assert not any("\x1b" in row or row.endswith(" ") for row in rows.values())


def test_runs_on_a_terminal_are_coloured_and_fit_its_width(root):
    lines = show_on_terminal(["runs"], columns=100)

    assert any("\x1b[31mfailed" in line for line in lines.coloured)
    assert max(map(len, lines.plain)) <= 100
    assert any(line.startswith("a ") for line in lines.plain)


def test_runs_on_a_wide_terminal_show_the_beginning_of_the_reason(root):
    lines = show_on_terminal(["runs"], columns=140).plain

    assert max(map(len, lines)) == 140
    (cut,) = (line for line in lines if line.endswith("…"))
    assert "RuntimeError: far" in cut


def test_runs_on_a_narrow_terminal_leave_out_bar_and_reason(root):
    header, *lines = show_on_terminal(["runs"], columns=80).plain

    assert "reason" not in header
    assert not any("━" in line or line.endswith("…") for line in lines)


def test_runs_on_a_terminal_without_unicode_are_ascii(root):
    lines = show_on_terminal(["runs"], columns=120, PYTHONIOENCODING="ascii").plain

    assert any("####----  50%" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (["--status", "failed,crashed"], ["a", "d"]),
        (["--status=preempted"], ["c"]),
        (["--sort", "best"], ["c", "b", "a", "d"]),
        (["--sort=progress"], ["b", "c", "d", "a"]),
        (["--sort", "name", "--limit", "2"], ["a", "b"]),
        (["experiments/b"], ["b"]),
    ],
)
def test_runs_are_chosen_and_sorted_as_asked(root, capsys, arguments, ids):
    assert listed(capsys, *arguments) == ids


def test_runs_with_a_metric_to_minimize_are_sorted_the_other_way(tmp_path, capsys):
    for run_id, value in (("x", 2.0), ("y", 1.0)):
        best = {"metric": "Error", "value": value, "iteration": 1, "mode": "min"}
        write_run(tmp_path, run_id, best=best)

    assert listed(capsys, tmp_path, "--sort=best") == ["y", "x"]


def test_runs_with_names_show_them(tmp_path, capsys):
    write_run(tmp_path, "x", name="a\x1b[31m name")

    rows, count = run(capsys, tmp_path)

    assert "a [31m name" in rows["x"]
    assert count == "1 run: 1 finished"


def test_runs_left_out_are_counted(root, capsys):
    assert run(capsys, "--limit=1")[1].startswith("4 runs, 1 of them shown: ")


def test_runs_as_json_say_all_that_is_known(root, capsys):
    assert main(["runs", "--json", "--limit=2"]) == 0

    first, second = json.loads(capsys.readouterr().out)

    assert (first["id"], first["status"], first["host"]) == ("a", "failed", "node07")
    assert second["best"] == {"metric": "Accuracy", "value": 0.5, "iteration": 9, "mode": "max"}
    assert second["duration_s"] == pytest.approx(120, abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["experimnets"], "There is no folder experimnets. Did you mean experiments?"),
        (["experiments/a/status.json"], "is a file; a folder with runs is needed."),
        (["--status=faild"], "--status: there is no status 'faild'. Did you mean 'failed'?"),
        (["--stats=failed"], "There is no flag --stats. Did you mean --status?"),
        (["--sort=size"], "invalid choice: 'size'"),
        (["--limit=-1"], "'-1' is not a number of runs"),
        (["experiments", "more"], "'more' is too much."),
    ],
)
def test_runs_refuse_what_makes_no_sense(root, capsys, arguments, text):
    assert main(["runs", *arguments]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: None, "There are no runs below experiments yet. `jade train` starts one.\n"),
        (lambda: write_run(Path("experiments"), "x"), "None of these. 1 run: 1 finished\n"),
    ],
)
def test_runs_that_are_not_there_are_a_friendly_line(tmp_path, monkeypatch, capsys, make, text):
    monkeypatch.chdir(tmp_path)
    make()

    assert main(["runs", "--status=failed"]) == 0
    assert capsys.readouterr().out == text


def test_runs_below_the_root_of_the_environment_are_the_default(
    root, tmp_path, monkeypatch, capsys
):
    write_run(tmp_path / "other", "there")
    monkeypatch.setenv("EXPERIMENTS_ROOT", str(tmp_path / "other"))

    assert listed(capsys) == ["there"]


def test_runs_help_names_every_status(capsys):
    assert main(["runs", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(status in text for status in STATUSES)


@pytest.mark.parametrize("command", [["runs"], ["show", "c"]])
def test_runs_and_show_load_nothing_heavy(root, command):
    script = (
        "import sys\nfrom jade.cli import main\nassert main(sys.argv[1:]) == 0\nprint(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *command],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert {"torch", "numpy", "wandb"} & set(result.stdout.split()) == set()


def test_run_of_a_sweep_shows_the_metric_of_the_sweep(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    latest = {"loss": 0.25, "Error": 0.125, "Other": 1.0}
    write_run(tmp_path / "experiments/grid/runs", "swept", latest=latest)
    write_run(tmp_path / "experiments", "alone", latest=latest)
    sweep = "metric: {name: Error}\nparameters: {}\n"
    (tmp_path / "experiments/grid/sweep.yml").write_text(sweep)

    rows, _ = run(capsys)

    assert "Error 0.125" in rows["swept"]
    assert "loss 0.25" in rows["alone"]
