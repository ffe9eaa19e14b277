"""The runs of a grid have numbers, by which they can be counted, listed and run."""

import csv
import json

import pytest
import yaml

from jade.cli import main
from jade.run_dir import RunDir

BASE = """
    seed: 5
    epochs: 1
    wandb: disabled
    arch_impl: modules/architectures/small.py
    model: {class: LineTrainer}
    data: {train: {class: Points}, test: {class: Points, params: {seed: 1}}}
    eval: {Error: {class: SquaredError, params: {evaluate_on: test}}}
"""
GRID = """
    grid_tasks:
      - default_configs: base.yml
      - default_configs: base.yml
        overwrite: {model: {params: {lr: 0.3}}}
    grid_overwrite: {model.params.lr: 0.2, model.params.batch_size: 2}
    grid_settings: {experiment_repetitions: 2, max_concurrent_runs: 2}
"""
SWEEP = """
    method: grid
    command: ["${env}", "jade", "train", "--config=base.yml", "${args}"]
    parameters:
      model.lr: {values: [0.1, 0.2]}
      seed: {min: 0, max: 199}
"""


@pytest.fixture
def grid(project):
    # Paths with blanks must do.
    project.write("base.yml", BASE)
    return str(project.write("grids of mine/grid.yml", GRID))


def run_dirs(project, name="experiments"):
    return sorted((project.root / name).iterdir(), key=lambda path: path.stat().st_mtime_ns)


def config(directory):
    return yaml.safe_load((directory / "config.yml").read_text())


def test_number_of_runs_stands_alone_on_stdout(project, grid, capsys):
    assert main(["grid", "count", grid]) == 0
    assert capsys.readouterr() == ("4\n", "")
    assert main(["grid", "count", str(project.write("sweep.yml", SWEEP))]) == 0
    assert capsys.readouterr() == ("400\n", "")


def test_equal_points_are_said_on_stderr(project, grid, capsys):
    project.write("twice.yml", "grid_tasks: [{config: base.yml}, {config: base.yml}]")
    assert main(["grid", "count", "twice.yml"]) == 0
    out, err = capsys.readouterr()
    assert out == "1\n"
    assert "1 point is equal to another one" in err


def test_list_has_a_line_for_each_run(grid, capsys):
    assert main(["grid", "list", grid]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2", "3"]
    assert "model.params.lr=0.3" in lines[3]
    assert lines[3].endswith("repetition 2")
    assert main(["grid", "list", grid, "--limit=1"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "and 3 more"


def test_run_by_its_number_is_trained_as_any_other(project, grid, capsys):
    for index in (0, 1, 3):
        assert main(["grid", "run", grid, "--index", str(index)]) == 0
    first, second, fourth = map(config, run_dirs(project))
    assert first["seed"] == 5
    assert len({first["seed"], second["seed"], fourth["seed"]}) > 1
    assert second["seed"] != 5
    assert [c["model"]["params"]["lr"] for c in (first, second, fourth)] == [0.2, 0.2, 0.3]
    assert first["model"]["params"]["batch_size"] == 2
    capsys.readouterr()
    assert main(["grid", "list", grid]) == 0
    assert f"seed={second['seed']}" in capsys.readouterr().out.splitlines()[1]
    # What is said besides is for this run, too.
    assert main(["grid", "run", grid, "--index=2", "--epochs=2", "--experiments_root=e"]) == 0
    (last,) = run_dirs(project, "e")
    assert config(last)["epochs"] == 2


def test_number_above_255_is_the_right_one(project, grid):
    sweep = str(project.write("sweep.yml", SWEEP))
    assert main(["grid", "run", sweep, "--index=300"]) == 0
    (directory,) = run_dirs(project)
    assert config(directory)["seed"] == 100
    assert config(directory)["model"]["params"]["lr"] == 0.2


@pytest.mark.parametrize("index", ["4", "-1", "x", "1.5"])
def test_number_out_of_range_is_refused(project, grid, capsys, index):
    assert main(["grid", "run", grid, f"--index={index}"]) == 2
    assert "has the runs 0 to 3" in capsys.readouterr().err
    assert not (project.root / "experiments").exists()


def test_number_that_is_missing_is_asked_for(grid, capsys):
    assert main(["grid", "run", grid]) == 2
    assert "Which run?" in capsys.readouterr().err


def test_mistake_in_a_task_is_found_before_anything_starts(project, grid, capsys):
    text = GRID.replace("lr: 0.3", "lrr: 0.3")
    broken = str(project.write("broken.yml", text))
    assert main(["sweep", "run", broken]) == 2
    assert "lrr" in capsys.readouterr().err
    assert main(["grid", "run", broken, "--index=2"]) == 2
    assert "lrr" in capsys.readouterr().err
    assert not (project.root / "experiments").exists()


def test_grid_of_tasks_runs_as_a_sweep_and_its_runs_are_tested(project, grid, capsys):
    assert main(["sweep", "run", grid, "--workers=2"]) == 0
    runs = project.root / "experiments" / "grid" / "runs"
    found = sorted(
        map(config, runs.iterdir()), key=lambda c: (c["model"]["params"]["lr"], c["seed"])
    )
    assert [c["model"]["params"]["lr"] for c in found] == [0.2, 0.2, 0.3, 0.3]
    assert sum(c["seed"] == 5 for c in found) == 2
    assert len({c["seed"] for c in found}) > 1
    assert main(["sweep", "status", "grid"]) == 0
    capsys.readouterr()
    assert main(["grid", "test", str(runs.parent), "--repeat=2", "--max-concurrent=2"]) == 0
    assert "4 of 4 runs are tested" in capsys.readouterr().out
    for directory in runs.iterdir():
        (test,) = RunDir(directory).tests()
        assert len(json.loads(test.summary.read_text())["seed"]) == 2
    assert main(["grid", "analyze", str(runs.parent), "--csv=runs.csv"]) == 0
    with (project.root / "runs.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 4
    assert all(float(row["test/Error"]) >= 0 for row in table)


def test_grid_of_tasks_cannot_be_registered(grid, capsys, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert main(["sweep", "push", grid]) == 2
    assert "is a grid of tasks" in capsys.readouterr().err


def test_overview_lists_the_commands(capsys):
    assert main(["grid"]) == 0
    assert "jade analyze" in capsys.readouterr().out
    assert main(["grid", "cuont"]) == 2
    assert "Did you mean 'count'" in capsys.readouterr().err
