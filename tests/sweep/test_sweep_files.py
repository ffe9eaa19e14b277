"""A sweep file by itself: all that is wrong with it is found, with its line."""

import pytest

from jade.errors import ConfigError
from jade.sweep import load_sweep, require_sweep

GOOD = {
    "program": "program: train.py",
    "method": "method: random",
    "metric": "metric: {name: Error, goal: minimize}",
    "parameters": "parameters:\n  model.lr: {min: 0.0, max: 1.0}",
}


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Load a good sweep in which some lines are replaced (None: left out)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()

    def load(**lines):
        text = "\n".join(line for line in {**GOOD, **lines}.values() if line is not None)
        path = tmp_path / "s.yml"
        path.write_text(text + "\n")
        return require_sweep(path.relative_to(tmp_path))

    return load


def test_good_file_becomes_a_typed_sweep(sweep):
    loaded = sweep(
        cap="run_cap: 20",
        stop="early_terminate: {type: hyperband, min_iter: 3, eta: 2}",
        metric="metric: {name: Acc, goal: maximize, target: 0.99}",
        name="name: first\nproject: p\nentity: e\ndescription: d",
    )
    assert (loaded.method, loaded.run_cap, loaded.num_runs) == ("random", 20, 20)
    assert (loaded.metric.name, loaded.metric.goal, loaded.metric.target) == (
        "Acc",
        "maximize",
        0.99,
    )
    assert loaded.early_stop.brackets()[:3] == [3, 6, 12]
    assert loaded.command.arguments == []
    assert loaded.notes == loaded.misread == ()
    assert loaded.where("run_cap") == "s.yml:6"


def test_hyperband_counts_back_from_the_last_bracket(sweep):
    loaded = sweep(stop="early_terminate: {type: hyperband, max_iter: 27, s: 2}")
    assert loaded.early_stop.brackets() == [3, 9]


def test_number_of_runs_is_known_where_there_is_an_end(sweep):
    assert sweep().num_runs is None
    grid = {"method": "method: grid", "parameters": "parameters: {a: {min: 1, max: 9}}"}
    assert sweep(**grid).num_runs == 9
    assert sweep(**grid, cap="run_cap: 4").num_runs == 4


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ({"x": "porject: a"}, "s.yml:6: unknown key 'porject' of a sweep. Did you mean 'project'?"),
        ({"x": "name: 3"}, "s.yml:6: name must be text, not 3."),
        ({"method": None}, "s.yml: the sweep has no method. Known: bayes, grid, random."),
        (
            {"method": "method: randm"},
            "s.yml:2: unknown method 'randm'. Did you mean 'random'?",
        ),
        ({"method": "method: custom"}, "s.yml:2: unknown method 'custom'."),
        (
            {"method": "method: grid"},
            "s.yml:5: model.lr: a grid cannot have all values of uniform. Write values",
        ),
        (
            {"method": "method: bayes", "metric": None},
            "s.yml:2: bayes needs a metric to improve: metric: {name: NAME, goal: minimize}.",
        ),
        ({"metric": "metric: Error"}, "s.yml:3: metric must be a mapping: {name: Error,"),
        ({"metric": "metric: {goal: minimize}"}, "s.yml:3: metric needs the name"),
        (
            {"metric": "metric:\n  name: E\n  goal: minimise"},
            "s.yml:5: unknown goal 'minimise' of the metric. Did you mean 'minimize'?",
        ),
        ({"metric": "metric: {name: E, gaol: x}"}, "unknown key 'gaol' of metric. Did you mean"),
        ({"metric": "metric: {name: E, target: high}"}, "target must be a number, not 'high'."),
        ({"x": "run_cap: 0"}, "s.yml:6: run_cap must be a whole number above 0, not 0."),
        ({"x": "early_terminate: 3"}, "early_terminate must be a mapping"),
        (
            {"x": "early_terminate: {type: hyperbnd, min_iter: 3}"},
            "early_terminate has no type 'hyperbnd'. Did you mean 'hyperband'?",
        ),
        ({"x": "early_terminate: {type: hyperband}"}, "needs min_iter, or max_iter and s."),
        (
            {"x": "early_terminate: {type: hyperband, min_iter: 0, eta: 1, strict: 1, q: 1}"},
            "min_iter must be a whole number above 0, not 0.",
        ),
        (
            {"x": "early_terminate: {type: hyperband, min_iter: 3}", "metric": None},
            "it needs a metric to compare runs by",
        ),
        ({"program": None}, "s.yml: there is no program and no command: what should agents run?"),
        ({"program": "program: 3"}, "s.yml:1: program must name a file, not 3."),
        (
            {"program": "program: trian.py"},
            "s.yml:1: the program trian.py does not exist in the working directory. "
            "Did you mean 'train.py'?",
        ),
        ({"x": "command: python train.py"}, "s.yml:6: command must be a list of words"),
        (
            {"x": "command: ['${env}', python, train.py]"},
            "s.yml:6: command without ${program}: train.py would not be run.",
        ),
        (
            {"program": None, "x": "command: ['${env}', '${args}']"},
            "command without ${program}: there is nothing that it runs.",
        ),
        (
            {"program": None, "x": "command: [python, '${program}']"},
            "command: ${program} stands for nothing: there is no key program.",
        ),
        (
            {"x": "command: [python, '${prgram}', '${program}']"},
            "command: W&B knows no ${prgram}. Did you mean 'program'?",
        ),
        (
            {"x": "command: [python, '${program}', '${args_append_hydra}']"},
            "${args_append_hydra} is in Hydra's form; write ${args}.",
        ),
        (
            {"x": "command: [python, '${program}', '--x=${args}']"},
            "only where it stands alone: '--x=${args}'.",
        ),
        (
            {"x": "command: [python, '${program}', '--x=${envvar:NOT_SET_HERE}']"},
            "s.yml:6: the command needs the environment variable NOT_SET_HERE, which is not set.",
        ),
        ({"parameters": None}, "s.yml: the sweep has no parameters."),
        ({"parameters": "parameters: {lr: {min: 2, max: 1}}"}, "s.yml:4: lr: min 2 is above"),
        ({"parameters": "parameters:\n  lr:\n    min: 2\n    max: 1"}, "s.yml:6: lr: min 2 is"),
        ({"parameters": "parameters: {lr:\n    -1\n    -2}"}, "a blank must follow each dash"),
    ],
)
def test_mistake_is_found_with_its_line(sweep, lines, text):
    with pytest.raises(ConfigError) as caught:
        sweep(**lines)
    assert text in str(caught.value)


def test_all_mistakes_come_at_once(sweep):
    with pytest.raises(ConfigError, match="3 problems"):
        sweep(x="nmae: a", method="method: gird", parameters="parameters: {a: {value: 1, q: 2}}")


def test_command_without_program_may_run_jade_itself(sweep):
    loaded = sweep(program=None, x="command: ['${env}', jade, train, --epochs=3, '${args}']")
    assert loaded.command.arguments == ["--epochs=3"]


def test_arguments_stand_behind_the_program(sweep):
    loaded = sweep(program=None, x="command: [nice, python, my.py, base.yml, --epochs, 3]")
    assert loaded.command.arguments == ["base.yml", "--epochs", "3"]


def test_variables_of_the_command_are_filled_in(sweep, monkeypatch):
    monkeypatch.setenv("MODEL", "m.yml")
    loaded = sweep(x="command: [python, '${program}', '--model_conf=${envvar:MODEL}', '${args}']")
    assert loaded.command.filled_in({"MODEL": "m.yml"}) == ["--model_conf=m.yml"]


def test_values_that_wandb_reads_otherwise_are_found(sweep):  # T32
    loaded = sweep(
        parameters="parameters:\n  a:\n    distribution: log_uniform_values\n"
        "    min: 1e-6\n    max: 1.0\n  b: {values: [yes, 1.0e-5, 3e6, relu, '1e-6']}"
    )
    assert loaded.misread == (
        "s.yml:7: `wandb sweep` reads 1e-06 as '1e-6'; write 1.0e-06.",
        "s.yml:9: `wandb sweep` reads 'yes' as True; write 'yes'.",
        "s.yml:9: `wandb sweep` reads 3000000.0 as '3e6'; write 3000000.0.",
    )
    assert loaded.parameters[0].distribution.low == 1e-6


def test_launch_jobs_need_no_program(sweep):
    assert sweep(program=None, x="job: e/p/j:v0").values["job"] == "e/p/j:v0"


def test_custom_method_belongs_to_a_scheduler(sweep):
    loaded = sweep(method="method: custom", x="scheduler: {engine: optuna}")
    assert loaded.method == "custom"


def test_section_jade_is_reserved_for_us(sweep):
    assert sweep(x="jade: {repetitions: 3}").values["jade"] == {"repetitions": 3}


def test_other_files_are_no_sweeps(tmp_path):
    path = tmp_path / "model.yml"
    path.write_text("class: X\n")
    assert load_sweep(path) is None
