"""A grid of tasks is a sweep: one point for each task, with what is changed in its configuration."""

import re

import pytest

from jade.errors import ConfigError
from jade.sweep import NumberedRuns, derive_seed, is_sweep, load_sweep, point_key, require_sweep

BASE = "seed: 5\nmodel: {class: A, params: {a: 1, b: 1, c: 1, d: 1}}\n"


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """Write files into a folder with a blank in its name, and read a grid of tasks."""
    folder = tmp_path / "my grids"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "base.yml").write_text(BASE)
    (folder / "other.yml").write_text("default_configs: base.yml\nseed: 0\n")

    def read(text):
        (folder / "grid.yml").write_text(text)
        return require_sweep(folder / "grid.yml")

    return read


def points(sweep):
    return [dict(point.values) for point in sweep.grid]


def test_each_task_is_a_point(grid):
    sweep = grid(
        "grid_tasks:\n- default_configs: base.yml\n- {default_configs: other.yml, epochs: 3}\n"
    )
    assert points(sweep) == [{"config": ["base.yml"]}, {"config": ["other.yml"], "epochs": 3}]
    assert sweep.command.arguments == []
    assert load_sweep(sweep.path).num_runs == 2
    assert is_sweep(sweep.values)


def test_overwrite_wins_over_grid_overwrite_over_the_task_over_its_files(grid):
    sweep = grid(
        """
        grid_tasks:
          - default_configs: [base.yml, other.yml]
            model: {params: {a: task, b: task, c: task}}
            overwrite: {model.params.a: own}
          - default_configs: "base.yml, other.yml"
        overwrite: {model: {params: {b: file}}}
        grid_overwrite: {model: {params: {a: grid, b: grid, c: grid}}}
        """
    )
    first, second = points(sweep)
    assert first["config"] == second["config"] == ["base.yml", "other.yml"]
    assert [first[f"model.params.{key}"] for key in "abc"] == ["own", "file", "grid"]
    assert [second[f"model.params.{key}"] for key in "abc"] == ["grid", "file", "grid"]
    assert "model.params.d" not in first


def test_settings_are_those_of_the_sweep(grid):
    sweep = grid(
        "grid_tasks: [{default_configs: base.yml}]\n"
        "grid_settings: {experiment_repetitions: 3, max_concurrent_runs: 2, trainer: jade train}\n"
    )
    assert sweep.local.repetitions == 3
    assert sweep.local.max_concurrent_runs == 2
    assert NumberedRuns(sweep).count == 3


def test_seed_of_the_files_is_kept_for_the_first_repetition_and_others_follow(grid):
    sweep = grid(
        "grid_tasks: [{default_configs: base.yml}, {default_configs: other.yml}]\n"
        "grid_settings: {experiment_repetitions: 3}\n"
    )
    runs = NumberedRuns(sweep)
    seeds = [{o.key: o.value for o in runs[i].overrides(None)}["seed"] for i in range(runs.count)]
    assert (seeds[0], seeds[3]) == (5, 0)
    assert len(set(seeds)) == 6
    assert seeds[1] == derive_seed(5, point_key(runs[0].point.values), 2)
    again = NumberedRuns(require_sweep(sweep.path))
    assert [str(again[i]) for i in range(6)] == [str(runs[i]) for i in range(6)]
    assert f"seed={seeds[1]}" in str(runs[1])


def test_tasks_that_are_equal_are_one_point(grid):
    sweep = grid(
        """
        grid_tasks:
          - {default_configs: base.yml, model.params.a: 1}
          - {default_configs: base.yml, model: {params: {a: 2}}, overwrite: {model: {params: {a: 1}}}}
          - {default_configs: other.yml}
        """
    )
    runs = NumberedRuns(sweep)
    assert (runs.count, runs.num_duplicates) == (2, 1)


def test_program_of_the_user_is_run_for_each_task(grid, tmp_path):
    text = "grid_tasks: [{default_configs: base.yml}]\ngrid_settings: {trainer: train.py}\n"
    with pytest.raises(ConfigError, match=r"grid.yml:2: there is no program train\.py"):
        grid(text)
    (tmp_path / "my grids" / "train.py").touch()
    assert grid(text).command.program == "train.py"


TASK = "grid_tasks: [{default_configs: base.yml}]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grid_tasks: []", r"grid_tasks must be a list of tasks, but is \[\]"),
        ("grid_overwrite: {epochs: 3}", "grid_tasks must be a list of tasks, but is missing"),
        ("grid_tasks:\n- epochs: 3\n", "grid.yml:2: task 1 has no configuration"),
        ("grid_tasks:\n- default_configs:\n", "task 1 has no configuration"),
        ("grid_tasks: [base.yml]", "task 1 has no configuration"),
        ("grid_tasks: [{default_configs: bas.yml}]", "names 'bas.yml'; there is no"),
        ("grid_tasks: [{default_configs: 3}]", "takes a path or a list of paths"),
        (
            "grid_tasks: [{default_config: base.yml, config: base.yml}]",
            "Did you mean 'default_configs'",
        ),
        ("grid_tasks: [{default_configs: base.yml, modle: {}}]", "Did you mean 'model'"),
        (
            "grid_tasks: [{default_configs: base.yml, overwrite: {epoch: 3}}]",
            "Did you mean 'epochs'",
        ),
        (f"{TASK}overwrite: 3", "overwrite must be a mapping"),
        (
            f"{TASK}grid_overwrite: {{modle.params.x: 3}}",
            "grid.yml:2: unknown key 'modle.params.x'.*Did you mean 'model'",
        ),
        (f"{TASK}grid_setting: {{}}", "Did you mean 'grid_settings'"),
        (f"{TASK}grid_settings: 3", "grid_settings must be a mapping"),
        (f"{TASK}grid_settings: {{repetitions: 3}}", "Did you mean 'experiment_repetitions'"),
        (f"{TASK}grid_settings: {{experiment_repetitions: 0}}", "above 0, not 0"),
        (f"{TASK}grid_settings: {{max_concurrent_runs: many}}", "above 0, not 'many'"),
        (f"{TASK}grid_settings: {{trainer: jade trian}}", "Did you mean 'jade train'"),
    ],
)
def test_mistake_is_an_error_that_says_where(grid, text, message):
    with pytest.raises(ConfigError, match=message):
        grid(text)


def test_all_mistakes_are_said_at_once(grid):
    with pytest.raises(ConfigError) as caught:
        grid(
            "grid_tasks: [{epochs: 3}, {default_configs: none.yml}]\ngrid_settings: {trainer: 3}\n"
        )
    assert len(caught.value.problems) == 3


def test_runs_of_a_search_have_numbers_only_if_they_are_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    search = "program: train.py\nmethod: {}\nparameters: {{lr: {{min: 0.0, max: 1.0}}}}\n"
    metric = "metric: {name: loss}\n"
    path = tmp_path / "sweep.yml"
    path.write_text(search.format("random"))
    with pytest.raises(ConfigError, match="Give it a run_cap"):
        NumberedRuns(require_sweep(path))
    path.write_text(search.format("bayes") + metric + "run_cap: 3\n")
    with pytest.raises(ConfigError, match="method bayes are not known before"):
        NumberedRuns(require_sweep(path))
    path.write_text(search.format("random") + "run_cap: 3\n")
    runs = NumberedRuns(require_sweep(path))
    assert runs.count == 3
    assert len({str(runs[i]) for i in range(3)}) == 3
    assert str(runs[1]) == str(NumberedRuns(require_sweep(path))[1])
    with pytest.raises(IndexError):
        runs[3]


def test_values_that_are_written_twice_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    path = tmp_path / "sweep.yml"
    path.write_text(
        "program: train.py\nmethod: grid\nparameters: {a: {values: [1, 1.0, 2]}, b: {values: [3, 4]}}\n"
    )
    runs = NumberedRuns(require_sweep(path))
    assert (runs.count, runs.num_duplicates) == (4, 2)
    path.write_text(path.read_text() + "jade: {when: {b: {a: 1}}}\n")
    runs = NumberedRuns(require_sweep(path))
    # Where a is 2, b does not matter.
    assert runs.count == 3
    assert runs.num_duplicates > 0
    assert not re.search("b=", str(runs[2]))
