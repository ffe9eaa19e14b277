"""The traps of the original design, each with what JADE does instead (numbers as in its list)."""

import os
import re

import pytest
import torch

import jade
from jade.cli import main

ROOT = __import__("pathlib").Path(__file__).parent.parent


@pytest.fixture
def error(capsys):
    """Run the command line, which must refuse, and return its message."""

    def run(arguments: list[str], *more: str, code: int = 2) -> str:
        assert main([*arguments, *more]) == code
        return capsys.readouterr().err

    return run


def resolved(arguments: list[str], capsys, *more: str) -> str:
    assert main(["config", *arguments[1:], *more]) == 0
    return capsys.readouterr().out


def test_t1_short_sweep_key_takes_effect(project, arguments, capsys):
    assert re.search(r"lr: 0.5 .*argument", resolved(arguments, capsys, "--model.lr=0.5"))


def test_t1_short_key_that_fits_nothing_lists_what_there_is(project, arguments, error):
    message = error(arguments, "--model.z_dim=32")
    assert "no 'z_dim' in model" in message
    assert "model.params.lr" in message


def test_t2_params_key_names_the_datasets_that_have_it(project, arguments, error):
    message = error(arguments, "--params.seed=3")
    assert "data.train.params.seed" in message
    assert "data.test.params.seed" in message


def test_t3_list_without_blanks_shows_the_corrected_yaml(project, arguments, error):
    project.write("model.yml", "class: LineTrainer\nparams:\n  layers:\n    -1024\n    -256\n")
    message = error(arguments)
    assert "model.yml:4" in message
    assert "- 1024\n" in message
    assert "- 256\n" in message


def test_t4_wrong_keyword_of_a_library_class_is_explained(project, arguments, error):
    source = (project.root / "modules/models/line.py").read_text()
    project.write("modules/models/line.py", source.replace("shuffle=shuffle", "n_workers=0"))
    message = error(arguments, code=1)
    assert "DataLoader takes no 'n_workers'. Did you mean 'num_workers'?" in message


def test_t5_misspelt_parameter_is_matched_with_the_signature(project, arguments, error):
    message = error(arguments, "--model.params.batchsize=2")
    assert "Did you mean 'model.params.batch_size'?" in message


def test_t6_misspelt_class_lists_classes_with_their_files(project, arguments, error):
    message = error(arguments, "--model.class=Line")
    assert "Did you mean 'LineTrainer'?" in message
    assert "modules/models/line.py" in message


def test_t7_wrong_import_of_a_base_class_is_explained(project, arguments, error):
    source = (project.root / "modules/eval/errors.py").read_text()
    wrong = source.replace("DatasetEvaluation", "DatasetEvaluaiton")
    project.write("modules/eval/errors.py", wrong)
    message = error(arguments)
    assert "modules/eval/errors.py" in message
    assert "Did you mean 'DatasetEvaluation'?" in message


def test_t7_old_package_names_lead_to_the_one_import_path(project, arguments, error):
    source = (project.root / "modules/models/line.py").read_text()
    project.write("modules/models/line.py", source.replace("jade.trainer", "core.trainer"))
    assert "from jade.trainer import Trainer" in error(arguments)


def test_t8_dataset_without_length_is_explained(project, arguments, error):
    source = (project.root / "modules/data/points.py").read_text()
    project.write("modules/data/points.py", source.replace("__len__", "length"))
    message = error(arguments, code=1)
    assert "Points needs a method __len__" in message


def test_t9_error_in_user_code_shows_the_users_line_first(project, arguments, error):
    source = (project.root / "modules/architectures/small.py").read_text()
    project.write("modules/architectures/small.py", source.replace("n_out)", "n_hidden)", 2))
    project.write(
        "modules/architectures/small.py", source.replace("nn.Linear(2, n_out)", "nn.Linear(2, n)")
    )
    message = error(arguments, code=1)
    frames = re.findall(r'File "(.*?)", line', message)
    assert "modules/models/line.py" in frames[0]
    assert "modules/architectures/small.py" in frames[-1]
    assert "NameError: name 'n' is not defined" in message


@pytest.mark.parametrize(
    "definition",
    [
        "def compute_loss_components(self, x):\n        return x.sum(1), x.mean(1)",
        "def compute_loss_components(self, data):\n        x = data['x']\n"
        "        return {'reconstruction': x.sum(1), 'regularization': x.mean(1)}",
    ],
)
def test_t10_shipped_evaluators_take_both_forms_of_loss_components(project, arguments, definition):
    source = (project.root / "modules/models/line.py").read_text()
    (project.root / "modules/models/line.py").write_text(f"{source}\n    {definition}\n")
    (project.root / "modules/eval/elbo.py").write_text((ROOT / "modules/eval/elbo.py").read_text())
    run = jade.train(
        "model.yml",
        "data.yml",
        {"Bound": {"class": "ELBOEvaluation", "params": {"evaluate_on": "test"}}},
        "modules/architectures/small.py",
        epochs=0,
        wandb="disabled",
    )
    x = run.trainer.datasets["test"].x
    assert run.metrics["Bound"] == pytest.approx(
        float((x.sum(1) + x.mean(1)).double().mean()), rel=1e-4
    )


def test_t11_mean_over_a_dataset_is_exact_on_an_uneven_last_batch(project, arguments):
    run = jade.train(
        "model.yml",
        "data.yml",
        {"Error": {"class": "SquaredError", "params": {"evaluate_on": "test", "batch_size": 3}}},
        "modules/architectures/small.py",
        epochs=0,
        wandb="disabled",
    )
    test = run.trainer.datasets["test"]
    with torch.no_grad():
        expected = (run.trainer.net(test.x) - test.y).square().mean()
    assert run.metrics["Error"] == pytest.approx(float(expected), rel=1e-6)


def test_t12_old_name_of_a_parameter_is_matched(project, arguments, error):
    assert "Did you mean 'eval.Error.params.resample'?" in error(
        arguments, "--eval.Error.params.resample_x=true"
    )


def test_t14_help_of_each_file_flag_says_which_file_it_takes(capsys):
    assert main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"--eval_conf FILE\s+YAML with one description per evaluation", text)
    assert re.search(r"--data_conf FILE\s+YAML with one description .* per dataset", text)


def test_t15_dataset_sizes_are_reported_and_kept(project, arguments, capsys):
    assert main([*arguments, "--data.train.params.n=7"]) == 0
    assert "dataset train: Points, 7 samples" in capsys.readouterr().err
    [run] = (project.root / "experiments").iterdir()
    assert '"samples/train": 7' in (run / "summary.json").read_text()


def test_t16_log_loss_every_is_a_flag_and_a_key(project, arguments, capsys, error):
    text = resolved(arguments, capsys, "--log_loss_every=1 iteration")
    assert "log_loss_every: 1 iteration" in text
    message = error(arguments, "--model.params.log_loss_every=2")
    assert "--log_loss_every" in message


def test_t18_torchvision_like_list_batches_train(project, arguments):
    project.write(
        "modules/data/pairs.py",
        """
        from torch.utils.data import Dataset


        class Pairs(Dataset):
            def __init__(self, transform):
                self.transform = transform

            def __len__(self):
                return 8

            def __getitem__(self, index):
                return self.transform([float(index), 1.0]), index
        """,
    )
    project.write(
        "modules/data/transforms.py",
        """
        import torch


        class Scale:
            def __init__(self, factor: float):
                self.factor = factor

            def __call__(self, values):
                return torch.tensor(values) * self.factor
        """,
    )
    source = (project.root / "modules/models/line.py").read_text()
    step = source.replace('data["x"]', "data[0]").replace('data["y"]', "data[1].float()")
    (project.root / "modules/models/line.py").write_text(step)
    transform = {"class": "Scale", "params": {"factor": 0.1}}
    run = jade.train(
        {"class": "LineTrainer"},
        {"train": {"class": "Pairs", "params": {"transform": transform}}},
        arch_impl="modules/architectures/small.py",
        epochs=1,
        wandb="disabled",
    )
    assert run.trainer.iterations == 2


def test_t18_pictures_that_cannot_be_collated_are_explained(project, arguments, error):
    source = (project.root / "modules/data/points.py").read_text()
    picture = '__import__("PIL.Image").Image.new("L", (2, 2))'
    project.write("modules/data/points.py", source.replace("self.x[index]", picture))
    assert "transform: {class: ToTensor}" in error(arguments, "--evaluate_first=false", code=1)


def test_t21_evaluate_every_is_accepted_beside_and_inside_params(project, arguments, capsys):
    project.write(
        "eval.yml",
        "Error:\n  class: SquaredError\n  params:\n    evaluate_on: test\n    evaluate_every: 2\n",
    )
    assert "evaluate_every: 2" in resolved(arguments, capsys)


@pytest.mark.parametrize(
    ("every", "rows"),
    [("1", [0, 3, 6]), ("2", [0, 6]), ("2 iterations", [0, 2, 4, 6]), ("10 minutes", [0, 6])],
)
def test_t22_evaluation_intervals_take_any_unit(project, arguments, every, rows):
    run = jade.train(
        "model.yml",
        "data.yml",
        "eval.yml",
        "modules/architectures/small.py",
        epochs=2,
        wandb="disabled",
        log_loss_every="100 iterations",
        overrides={"eval.Error.evaluate_every": every},
    )
    assert [row["iteration"] for row in run.history() if "Error" in row] == rows


def test_t23_flag_wins_over_environment(project, arguments, capsys, monkeypatch):
    monkeypatch.setenv("EXPERIMENTS_ROOT", "from_environment")
    assert "experiments_root: from_environment" in resolved(arguments, capsys)
    flag = resolved(arguments, capsys, "--experiments_root=from_flag")
    assert "experiments_root: from_flag" in flag


def test_t28_sweep_values_as_arguments_and_file_are_no_conflict(
    project, arguments, capsys, monkeypatch
):
    project.write("sweep.yml", "wandb_version: 1\nmodel.params.lr:\n  value: 1.0e-05\n")
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", "sweep.yml")
    text = resolved(arguments, capsys, "--model.params.lr=1e-05")
    assert re.search(r"lr: 1.0e-05 .*sweep", text)
    assert "replaces 1e-05" not in text


def test_t29_sweep_that_replaces_a_flag_is_reported(project, arguments, capsys, monkeypatch):
    project.write("sweep.yml", "wandb_version: 1\nseed:\n  value: 7\n")
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", "sweep.yml")
    assert main(arguments) == 0
    assert "seed = 7 (sweep) replaces 1 (argument --seed)" in capsys.readouterr().err


def test_t30_variable_in_a_comment_is_not_looked_up(project, arguments):
    text = (project.root / "model.yml").read_text()
    project.write("model.yml", f"# set b${{env}}y hand\n{text}")
    assert main(arguments) == 0


def test_t31_small_numbers_are_numbers(project, arguments, capsys):
    project.write("model.yml", "class: LineTrainer\nparams:\n  lr: 1e-4\n")
    assert "lr: 0.0001" in resolved(arguments, capsys)


def test_t32_words_of_yaml_1_1_are_text_and_checked_against_types(project, arguments, error):
    project.write("model.yml", "class: LineTrainer\nparams:\n  shuffle: yes\n")
    message = error(arguments)
    assert "model.params.shuffle (model.yml:3): expected true or false, not 'yes'" in message


def test_t36_all_missing_variables_are_listed_at_once(project, arguments, error):
    project.write("model.yml", "class: LineTrainer\nparams:\n  lr: $RATE\n  batch_size: ${SIZE}\n")
    message = error(arguments)
    assert "RATE for model.params.lr (model.yml:3)" in message
    assert "SIZE for model.params.batch_size (model.yml:4)" in message


def test_t40_version_is_shown(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"jade {jade.__version__}\n"


def test_t41_trainer_section_means_model(project, capsys):
    project.write(
        "run.yml",
        "trainer:\n  class: LineTrainer\ndata:\n  train:\n    class: Points\n"
        "architectures: modules/architectures/small.py\nepochs: 1\nwandb: disabled\n",
    )
    assert main(["train", "--config=run.yml"]) == 0


def test_environment_is_left_as_it_was(project, arguments):
    before = dict(os.environ)
    assert main(arguments) == 0
    assert dict(os.environ) == before
