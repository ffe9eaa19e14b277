"""Facts about checking a sweep before its first agent starts."""

from pathlib import Path

import pytest

from jade.cli import main

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
    project.write("train.py", "")

    def check(
        key="model.lr", spec="{values: [0.1, 0.2]}", metric="Error", method="bayes", flags=()
    ):
        text = SWEEP.format(key=key, spec=spec, metric=metric, method=method)
        project.write("sweep.yml", text)
        code = main(["check", "sweep.yml", *flags])
        out, err = capsys.readouterr()
        return code, out + err

    return check


def declare(project, sample='{"x": torch.zeros(2), "y": torch.zeros(1)}'):
    """Let the datasets say what their samples look like."""
    path = project.root / "modules/data/points.py"
    text = path.read_text().replace(
        "class Points(Dataset):", f"class Points(Dataset):\n    example_sample = {sample}\n"
    )
    path.write_text(text)


ATTENTION = """
    from torch import nn


    class Net(nn.Module):
        def __init__(self, n_out, width=4, heads=2):
            super().__init__()
            if width % heads:
                raise ValueError(f"{heads} heads do not divide a width of {width}")
            self.layer = nn.Sequential(nn.Linear(2, width), nn.Linear(width, n_out))

        def forward(self, x):
            return self.layer(x)
"""
WIDE_TRAINER = """
    import torch
    from torch.utils.data import DataLoader

    from jade.trainer import Trainer


    class LineTrainer(Trainer):
        def initialize(self, lr: float = 0.1, width: int = 4, heads: int = 2, batch_size: int = 4):
            self.net = self.instantiate_architecture("Net", n_out=1, width=width, heads=heads)
            self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
            self.train_loader = DataLoader(self.datasets["train"], batch_size, shuffle=True)

        def train_step(self, data):
            loss = ((self.net(data["x"]) - data["y"]) ** 2).mean()
            self.add_loss_item("loss", loss)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
"""


@pytest.fixture
def heads(project):
    """A project with a network that cannot be built with every width and number of heads."""
    project.write("modules/architectures/small.py", ATTENTION)
    project.write("modules/models/line.py", WIDE_TRAINER)
    project.write("model.yml", "class: LineTrainer\n")
    declare(project)
    return project


def test_good_search_is_checked_with_every_value_and_some_samples(check):  # C16, T1
    code, text = check(spec="{min: 0.5, max: 1.5}", flags=["--samples", "5"])
    assert code == 0, text
    assert "sweep.yml: bayes without an end: stop it yourself, or set run_cap" in text
    assert "swept: model.lr" in text
    assert "7 points checked (some); networks of 3 parameters" in text
    assert text.endswith("no problems found\n")


def test_every_point_of_a_grid_is_checked(check):
    code, text = check(method="grid")
    assert code == 0, text
    assert "sweep.yml: grid of 2 points: 2 runs" in text
    assert "2 points checked (all)" in text


def test_points_that_differ_in_the_seed_are_built_once(project, check):
    path = project.root / "modules/models/line.py"
    source = path.read_text()
    body = next(text for text in source.splitlines() if "self.net = self" in text)
    indent = body[: len(body) - len(body.lstrip())]
    path.write_text(source.replace(body, f"{indent}open('built', 'a').write('x')\n{body}"))
    code, text = check("seed", "{values: [1, 2, 3]}", method="grid", metric="Error")
    assert code == 0, text
    assert "3 points checked" in text
    # Once with the names of metrics, once without.
    assert (project.root / "built").read_text() == "xx"


def test_large_grid_is_checked_at_some_points(check):
    code, text = check(method="grid", spec="{min: 1, max: 1000000}", flags=["--samples", "3"])
    assert code == 0, text
    assert "grid of 1,000,000 points: 1,000,000 runs" in text
    assert "5 points checked (some)" in text


def test_impossible_points_are_listed_with_the_reason(heads, check):
    code, text = check(
        "model",
        "{parameters: {heads: {values: [2, 3, 4]}, width: {values: [4, 6, 8]}}}",
        method="grid",
    )
    assert code == 2
    assert "9 points checked (all); 3 cannot run; networks of 17 to 33 parameters" in text
    assert (
        "ValueError: 3 heads do not divide a width of 4 (modules/architectures/small.py:9)\n"
        "  3 points:\n"
        "    model.heads=3, model.width=4\n"
        "    model.heads=3, model.width=8\n"
        "    model.heads=4, model.width=6"
    ) in text


def test_many_impossible_points_are_counted(heads, check):
    code, text = check(
        "model",
        "{parameters: {heads: {value: 2}, width: {values: [3, 4, 5, 7, 9, 11]}}}",
        method="grid",
    )
    assert code == 2
    assert "5 points:" in text
    assert "and 2 more" in text


def test_shapes_that_do_not_fit_are_found_by_a_batch(heads, check):
    declare_wrong = (
        (heads.root / "modules/data/points.py").read_text().replace("zeros(2)", "zeros(3)")
    )
    (heads.root / "modules/data/points.py").write_text(declare_wrong)
    code, text = check(method="grid")
    assert code == 2, text
    assert "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 2x4)" in text
    assert "(modules/architectures/small.py:13)" in text


def test_dataset_that_declares_no_sample_is_said_once(check):
    code, text = check(method="grid")
    assert code == 0
    assert text.count("not tried") == 1
    assert (
        "note: not tried: no batch is passed: the dataset 'train' is not read, and a sample "
        "(Points has no example_sample) was needed"
    ) in text


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
        ("model.lr", "{values: [1e-3, 0.1]}", "`wandb sweep` reads 0.001 as '1e-3'; write 0.001"),
    ],
)
def test_wrong_sweep_is_refused_with_the_place(check, key, spec, text):  # T1, T2, T3, T36
    code, message = check(key, spec)
    assert code == 2
    assert text in message


def test_short_and_long_form_of_one_parameter_are_refused(check):
    code, text = check(
        "model.params.lr", "{values: [0.3]}\n      model.lr: {values: [0.1, 0.3]}", method="grid"
    )
    assert code == 2
    assert "has no effect" in text
    assert "1 point:\n" in text


def test_problem_of_one_value_names_its_points(check):
    _, text = check(spec="{values: [0.1, fast]}", method="grid")
    assert "1 point:\n    model.lr='fast'" in text


def test_misspelt_metric_is_refused(check):  # T34
    code, message = check(metric="Eror")
    assert code == 2
    assert "sweep.yml:4: no evaluation logs the metric 'Eror'. Did you mean 'Error'?" in message


@pytest.mark.parametrize(
    ("metric", "code", "text"),
    [
        ("Error", 0, ""),
        ("loss", 0, ""),
        ("Error/mse", 2, "sweep.yml:4: nothing logs the metric 'Error/mse'. Did you mean 'Error'?"),
        ("throughput", 2, "nothing logs the metric 'throughput'. Known: Error, loss."),
    ],
)
def test_metric_is_known_where_samples_are_declared(project, check, metric, code, text):  # T34
    declare(project)
    found, message = check(metric=metric)
    assert found == code
    assert text in message


def test_parts_of_an_evaluation_are_known_where_samples_are_declared(project, check):
    declare(project)
    project.write(
        "modules/eval/errors.py",
        """
        from jade.eval import DatasetEvaluation


        class SquaredError(DatasetEvaluation):
            def evaluate_batch(self, data):
                error = (self.trainer.net(data["x"]) - data["y"]).square().squeeze(1)
                return {"squared": error, "absolute": error.sqrt()}
        """,
    )
    assert check(metric="Error/absolute")[0] == check(metric="Error")[0] == 0
    code, text = check(metric="Error/abslute")
    assert code == 2
    assert (
        "Did you mean 'Error/absolute'? Known: Error, Error/absolute, Error/squared, loss." in text
    )


def test_metric_that_only_a_run_knows_is_a_note(check):
    code, text = check(metric="Error/part")
    assert code == 0
    assert "note: sweep.yml:4: whether Error logs 'Error/part' is known when it runs." in text
    code, text = check(metric="throughput")
    assert code == 0
    assert "it must be a loss item" in text


def test_exponents_and_single_values_are_noted(check):  # T27, T33
    _, text = check(spec="{distribution: log_uniform, min: 0.001, max: 0.1}")
    assert "are exponents" in text
    assert "log_uniform_values" in text
    _, text = check(spec="{values: [0.1]}")
    assert "`value: 0.1` says the same" in text


def test_nested_parameters_are_dotted_keys(check):  # W2
    code, text = check("model", "{parameters: {params: {parameters: {lr: {value: 0.3}}}}}")
    assert code == 0
    assert "swept: model.params.lr" in text


def test_arguments_beside_the_file_count(check):
    code, text = check(flags=["--model.params.lr=fast"])
    assert code == 0, text
    code, text = check(flags=["--model.params.batch_size=big"])
    assert code == 2
    assert "expected int, not 'big'" in text


def test_samples_are_for_sweeps(project, arguments, capsys):
    assert main(["check", *arguments[1:], "--samples=3"]) == 2
    assert "--samples is for sweeps" in capsys.readouterr().err
    assert main(["check", "--samples=none"]) == 2


@pytest.mark.parametrize("name", ["simple_vae_sweep.yml", "simple_vib_sweep.yml"])
def test_shipped_sweeps_pass(monkeypatch, capsys, name):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DATA_ROOT", "data")
    assert main(["check", f"sweeps/{name}", "--samples=2"]) == 0, capsys.readouterr().err
    assert "not tried" not in capsys.readouterr().out
