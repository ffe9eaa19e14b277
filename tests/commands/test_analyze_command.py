import csv
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from analyzed_runs import write_measured_run
from run_files import write_run
from served_runs import serve
from terminal import show_on_terminal

from jade.cli import main

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "experiments"
    for number, (lr, loss) in enumerate([(0.1, 2.0), (0.1, 2.2), (0.2, 1.0), (0.2, 1.1)]):
        values = {"lr": lr, "seed": number % 2}
        write_measured_run(root, f"r{number}", values, {"Loss": [loss]}, started=100.0 + number)
    write_measured_run(root, "bad", {"lr": 0.3}, {}, "failed", started=200.0)
    return root


def run(capsys, *arguments):
    code = main(["analyze", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def read(path):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_best_runs_come_first_and_none_is_dropped(root, capsys):
    lines = run(capsys).splitlines()

    assert lines[0].split() == ["run", "name", "status", "lr", "seed", "Loss", "took"]
    assert [line.split()[0] for line in lines[1:6]] == ["r2", "r3", "r0", "r1", "bad"]
    assert lines[6] == "5 runs: 4 finished, 1 failed"
    assert lines[7].startswith("compared by Loss (--metric chooses another one); less is better")


def test_limit_shows_the_best_ones(root, capsys):
    text = run(capsys, "--limit=2", "--mode=max", "--metric=Loss")

    assert "5 runs, the best 2 shown: 4 finished, 1 failed" in text
    assert [line.split()[0] for line in text.splitlines()[1:3]] == ["r1", "r0"]
    assert "more is better, as --mode says" in text


def test_summary_shows_means_and_ties(root, capsys):
    text = run(capsys, "--summary")

    assert "1 tie  0.2  1.05 ± 0.64" in text
    assert "2 tie  0.1  2.10 ± 1.27" in text
    assert "0 of 1" in text
    assert "3 configurations; 2 are tied for the best: their intervals overlap" in text


def test_summary_names_the_best_configuration_for_each_metric(tmp_path, capsys):
    for number, lr in enumerate((0.1, 0.1, 0.2, 0.2)):
        metrics = {"Loss": [1.0 + lr + number / 1000], "Acc": [0.5 + lr], "Flat": [3.0]}
        write_measured_run(tmp_path, f"r{number}", {"lr": lr, "seed": number % 2}, metrics)

    text = run(capsys, tmp_path, "--summary", "--metric=Loss")

    assert "2 configurations; the best one is ahead of all others" in text
    found = [line.split() for line in text[text.index("best of") :].splitlines()]
    assert found[1] == ["Acc", "(max)", "0.7", "±", "0", "0.2"]
    assert found[2][:6] == ["Flat", "(min)", "3", "±", "0", "tied"]


def test_notes_of_many_runs_are_cut(tmp_path, capsys):
    for number in range(7):
        write_run(tmp_path, f"r{number}", "failed")

    text = run(capsys, tmp_path)

    assert text.count("config.yml is missing") == 12
    assert "note: 2 more runs have something missing: --csv lists them" in text


def test_files_hold_everything(root, capsys):
    text = run(capsys, "--csv=a.csv", "--latex=a.tex", "--summary")

    assert text.endswith("written: a.csv\nwritten: a_summary.csv\nwritten: a.tex\n")
    found = read("a.csv")
    assert [row["run"] for row in found] == ["r0", "r1", "r2", "r3", "bad"]
    assert found[2]["last/Loss"] == "1.0"
    assert found[4]["status"] == "failed"
    (first, *_) = read("a_summary.csv")
    assert (first["model.params.lr"], first["mean"], first["count"]) == ("0.2", "1.05", "2")
    assert "r2, r3" in Path("a.tex").read_text()
    before = Path("a.csv").read_bytes()
    run(capsys, "--csv=a.csv")
    assert Path("a.csv").read_bytes() == before


def test_sweep_is_found_by_its_folder_file_and_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_measured_run(Path("experiments/mine/runs"), "a", {"lr": 1}, {"Loss": [1.0]})
    text = "method: grid\nmetric: {name: Loss}\nparameters: {model.lr: {values: [1]}}\n"
    Path("experiments/mine/sweep.yml").write_text(text)
    Path("mine.yml").write_text(text)
    Path("other.yml").write_text(f"name: mine\n{text}")

    outputs = [
        run(capsys, source)
        for source in (
            "experiments/mine",
            "experiments/mine/sweep.yml",
            "mine",
            "mine.yml",
            "other.yml",
        )
    ]

    assert len(set(outputs)) == 1
    assert "compared by Loss (the metric of the sweep)" in outputs[0]


def test_metric_of_a_sweep_that_no_run_has_is_a_note(tmp_path, capsys):
    write_measured_run(tmp_path / "runs", "a", {"lr": 1}, {"Loss": [1.0]})
    (tmp_path / "sweep.yml").write_text("method: grid\nmetric: {name: Los}\nparameters: {}\n")

    assert "note: no run has logged 'Los', the metric of the sweep" in run(capsys, tmp_path)


def test_runs_without_any_metric_are_listed(tmp_path, capsys):
    write_run(tmp_path, "x", "failed")

    text = run(capsys, tmp_path, "--csv", tmp_path / "a.csv", "--summary")

    assert "1 run: 1 failed" in text
    assert "note: x: config.yml is missing" in text
    assert read(tmp_path / "a.csv")[0]["note"] == "config.yml is missing"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["experimnets"], "There is no folder experimnets. Did you mean experiments?"),
        (["experiments/r0/status.json"], "is a file; a folder with runs, or a sweep, is needed."),
        (["other.yml"], "there is no folder other with runs of this sweep."),
        (["empty"], "There are no runs in empty."),
        (["--metric=Los"], "--metric: None of the 5 runs has logged 'Los'. Did you mean 'Loss'?"),
        (["experiments/bad", "--metric=Loss"], "--metric Loss: no run has logged anything yet."),
        (["experiments/bad", "--latex=a.tex"], "--latex: no run has logged anything yet."),
        (["--csv=nowhere/a.csv"], "nowhere/a.csv cannot be written: there is no folder nowhere."),
        (["--html=empty"], "empty is a folder; the name of a file is needed."),
        (["--mode=best"], "invalid choice: 'best'"),
        (["--limit=0"], "'0' is not a number of rows"),
        (["--latx=a"], "There is no flag --latx. Did you mean --latex?"),
        (["team/project/sweep"], "Nobody is logged in to"),
    ],
)
def test_what_makes_no_sense_is_refused(root, capsys, arguments, text):
    Path("empty").mkdir()
    Path("other.yml").write_text("method: grid\n")

    assert main(["analyze", *arguments]) == 2

    assert text in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["empty", "experiments", "other.yml"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_is_not_writable_is_refused(root, capsys):
    Path("closed").mkdir(mode=0o500)

    assert main(["analyze", "--csv=closed/a.csv"]) == 2
    assert "closed is not writable" in capsys.readouterr().err


def test_full_disk_is_one_message(root, tmp_path, capsys):
    # What is written to this device fails for want of space.
    assert main(["analyze", "--csv=/dev/full"]) == 2
    assert "/dev/full cannot be written: No space left on device." in capsys.readouterr().err
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_link_stays_a_link(root, capsys):
    Path("link.csv").symlink_to("target.csv")

    run(capsys, "--csv=link.csv")

    assert Path("link.csv").is_symlink()
    assert len(read("target.csv")) == 5


def test_table_on_a_terminal_fits_its_width(root):
    lines = show_on_terminal(["analyze"], columns=60)

    assert max(map(len, lines.plain)) <= 60
    assert any("\x1b[31mfailed" in line for line in lines.coloured)


def test_killed_while_it_writes_the_old_file_stays_whole(root):
    script = (
        "import sys, jade.whole_file as w\nfrom jade.cli import main\n"
        "def replace(self, other):\n"
        "    print('ready', flush=True)\n    sys.stdin.read()\n"
        "w.Path.replace = replace\n"
        "main(['analyze', '--csv', 'a.csv'])\n"
    )
    Path("a.csv").write_text("old")
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        while (line := process.stdout.readline()) and "ready" not in line:
            time.sleep(0)
        assert "ready" in line
        process.send_signal(signal.SIGKILL)
        process.wait()
    finally:
        watchdog.cancel()
        process.stdin.close()
        process.stdout.close()

    assert Path("a.csv").read_text() == "old"


@pytest.mark.parametrize("more", [[], ["--csv=a.csv", "--latex=a.tex", "--summary"]])
def test_analysis_loads_nothing_heavy(root, more):
    script = (
        "import sys\nfrom jade.cli import main\nassert main(sys.argv[1:]) == 0\nprint(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, "analyze", *more],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert {"torch", "numpy", "wandb", "optuna", "plotly"} & set(result.stdout.split()) == set()


def test_sweep_on_wandb_and_folders_are_one_table(tmp_path, wandb_online, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sweep = wandb_online.create_sweep(
        "method: grid\nmetric: {name: Loss, goal: minimize}\n"
        "parameters: {model.lr: {values: [0.1, 0.2, 0.3]}}\n"
    )
    for run_id, lr, loss in (("x", 0.1, 3.0), ("y", 0.2, 2.0)):
        made = write_measured_run(Path("there"), run_id, {"lr": lr}, {"Loss": [9.0, loss]})
        made.summary.write_text(f'{{"Loss": {loss}, "min/Loss": {loss}, "run/iterations": 2}}')
        served = serve(wandb_online, made.root, sweep=sweep)
        # As W&B has swept keys besides the configuration: dotted, in the form of the sweep.
        served.raw_config["model.lr"] = {"value": lr}
    # The second one is here, too, and one that is only here.
    (Path("here")).mkdir()
    Path("there/y").rename("here/y")
    write_measured_run(Path("here"), "z", {"lr": 0.3}, {"Loss": [1.0]})

    text = run(capsys, "here", f"team/project/{sweep}", "--csv=a.csv")

    found = {row["run"]: row for row in read("a.csv")}
    assert [row.split()[0] for row in text.splitlines()[1:4]] == ["z", "y", "x"]
    assert {key: row["model.params.lr"] for key, row in found.items()} == {
        "x": "0.1",
        "y": "0.2",
        "z": "0.3",
    }
    assert (found["x"]["last/Loss"], found["x"]["best/Loss"]) == ("3.0", "3.0")
    assert found["x"]["wandb_id"] == "team/project/x"
    assert found["y"]["path"] == "here/y"
    assert "model.lr" not in found["x"]


def test_sweep_that_wandb_does_not_know_is_one_message(wandb_online, capsys):
    assert main(["analyze", "team/project/nothing"]) == 2
    assert "There is no sweep team/project/nothing on W&B" in capsys.readouterr().err


def test_sweep_without_runs_is_one_message(wandb_online, capsys):
    sweep = wandb_online.create_sweep("method: grid\nparameters: {a: {values: [1]}}\n")

    assert main(["analyze", f"sweep:team/project/{sweep}"]) == 2
    assert "has no runs yet" in capsys.readouterr().err
