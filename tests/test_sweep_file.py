"""Facts about checking a sweep before its first agent starts."""

from pathlib import Path

import pytest

from jade.cli import main
from jade.errors import ConfigError
from jade.sweep_file import load_sweep

ROOT = Path(__file__).parent.parent
SWEEP = """
    program: train.py
    method: {method}
    metric: {{name: {metric}, goal: minimize}}
    command:
      - ${{env}}
      - ${{interpreter}}
      - ${{program}}
      - --model_conf=model.yml
      - --data_conf=data.yml
      - --eval_conf
      - eval.yml
      - --arch_impl=modules/architectures/small.py
      - --epochs=1
      - ${{args}}
    parameters:
      {key}: {spec}
"""


@pytest.fixture
def check(project, capsys):
    def check(key="model.lr", spec="{values: [0.1, 0.2]}", metric="Error", method="bayes"):
        text = SWEEP.format(key=key, spec=spec, metric=metric, method=method)
        project.write("sweep.yml", text)
        code = main(["check", "sweep.yml"])
        out, err = capsys.readouterr()
        return code, out + err

    return check


def test_good_sweep_is_checked_with_every_value(check):  # C16, T1
    code, text = check()
    assert code == 0
    assert "model.lr; 2 points checked, no problems found" in text


@pytest.mark.parametrize(
    ("key", "spec", "text"),
    [
        ("model.params.lrr", "{values: [1]}", "Did you mean 'model.params.lr'?"),
        ("model.lr", "{values: [0.1, fast]}", "model.params.lr (sweep.yml:17): expected float"),
        ("seed", "{values: [1, two]}", "seed (sweep.yml:17)"),
        ("model_conf", "{values: [model.yml, other.yml]}", "other.yml does not exist"),
        ("data.n", "{value: 3}", "data.test.params.n, data.train.params.n"),
        ("model.lr", "{value: $NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE"),
        ("model.lr", "0.1", "needs value, values, or min and max"),
        ("model.lr", "{values: 0.1}", "must be a list"),
        ("model.lr", "{min: 1}", "both min and max"),
        ("model.lr", "{min: a, max: b}", "must be numbers"),
        ("model.lr", "{min: 2, max: 1}", "above its max"),
    ],
)
def test_wrong_sweep_is_refused_with_the_place(check, key, spec, text):
    code, message = check(key, spec)
    assert code == 2
    assert text in message


def test_misspelt_metric_is_refused(check):  # T34
    code, message = check(metric="Eror")
    assert code == 2
    assert "no evaluation logs the metric 'Eror'. Did you mean 'Error'?" in message


def test_exponents_and_single_values_are_noted(check):  # T27, T33
    _, text = check(spec="{distribution: log_uniform, min: 0.001, max: 0.1}")
    assert "are exponents" in text
    assert "log_uniform_values" in text
    _, text = check(spec="{values: [0.1]}")
    assert "`value: 0.1` says the same" in text


def test_nested_parameters_are_dotted_keys(check):
    code, text = check("model", "{parameters: {params: {parameters: {lr: {value: 0.3}}}}}")
    assert code == 0
    assert "model.params.lr; 1 points checked" in text


def test_ranges_are_checked_at_their_ends_as_the_run_gets_them(tmp_path):
    path = tmp_path / "sweep.yml"
    path.write_text(
        "method: random\nparameters:\n"
        "  a: {distribution: log_uniform, min: -1, max: 0}\n  b: {min: 1, max: 4}\n"
        "  c: {distribution: normal, mu: 2.0, sigma: 1.0}\n"
    )
    sweep = load_sweep(path)
    values = {parameter.key: parameter.values for parameter in sweep.parameters}
    assert values == {"a": [pytest.approx(0.36787944), 1.0], "b": [1, 4], "c": [2.0]}
    assert sweep.notes == []


def test_other_files_are_no_sweeps(tmp_path):
    path = tmp_path / "model.yml"
    path.write_text("class: X\n")
    assert load_sweep(path) is None
    path.write_text("method: grid\nparameters: {}\n")
    with pytest.raises(ConfigError, match="has no parameters"):
        load_sweep(path)


@pytest.mark.parametrize("name", ["simple_vae_sweep.yml", "simple_vib_sweep.yml"])
def test_shipped_sweeps_pass(monkeypatch, capsys, name):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DATA_ROOT", "data")
    assert main(["check", f"sweeps/{name}"]) == 0, capsys.readouterr().err
