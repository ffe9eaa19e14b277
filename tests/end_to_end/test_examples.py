"""The shipped examples, run as their users run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jade

ROOT = Path(__file__).parent.parent.parent
CONFIGURATIONS = ROOT / "configurations"


@pytest.fixture(autouse=True)
def in_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def train_digits(model: str, data: str, evaluations: str, root: Path, **settings):
    return jade.train(
        CONFIGURATIONS / "models" / model,
        CONFIGURATIONS / "data" / data,
        CONFIGURATIONS / "eval" / evaluations,
        ROOT / "modules/architectures/simple_digits.py",
        experiments_root=root,
        wandb="disabled",
        show_progress=False,
        **settings,
    )


@pytest.mark.parametrize(
    ("data", "evaluations", "sizes"),
    [
        ("Digits_valid.yml", "VAE_simple.yml", {"train": 1200, "test": 300}),
        ("Digits_final.yml", "VAE_simple_final.yml", {"train": 1500, "test": 297}),
    ],
)
def test_vae_on_digits_learns_and_shows_reconstructions(tmp_path, data, evaluations, sizes):
    run = train_digits("VAE_digits.yml", data, evaluations, tmp_path, epochs=2, seed=0)

    errors = [row["TestReconstructionsError"] for row in run.history() if "Rec Loss" not in row]
    assert errors[-1] < errors[0] / 2
    assert run.dataset_sizes == sizes
    parts = run.metrics["TestErrorComponents/reconstruction"], run.metrics["TestErrorComponents"]
    assert parts[0] == parts[1]
    shown = {picture.parent.name for picture in run.pictures()}
    assert shown == {"TrainImageReconstructions", "TestImageReconstructions"}
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in run.pictures())


@pytest.mark.parametrize(
    ("data", "evaluations"),
    [("Digits_valid.yml", "VIB_simple.yml"), ("Digits_final.yml", "VIB_simple_final.yml")],
)
def test_vib_on_digits_classifies(tmp_path, data, evaluations):
    run = train_digits("VIB_digits.yml", data, evaluations, tmp_path, epochs=6, seed=0)
    assert run.metrics["TestAccuracy"] > 0.85
    assert run.metrics["TrainAccuracy"] > 0.85


def test_values_of_a_sweep_reach_the_run_unchanged(tmp_path, monkeypatch):
    values = tmp_path / "values.yml"
    values.write_text(
        "wandb_version: 1\nmodel.params.beta:\n  value: 1.0e-05\nmodel.z_dim: {value: 4}\n"
    )
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", str(values))
    run = train_digits(
        "VAE_digits.yml", "Digits_valid.yml", "VAE_simple.yml", tmp_path, epochs=0, seed=0
    )
    assert run.trainer.beta == 1e-05
    assert run.trainer.prior.mu.shape == (4,)
    assert run.config["model"]["params"]["z_dim"] == 4
    assert "z_dim" not in run.config["model"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "command"), [("VAE", [sys.executable, "train.py"]), ("VIB", ["jade", "train"])]
)
def test_reference_command_trains_on_mnist_files(tmp_path, mnist_root, model, command):
    environ = {**os.environ, "DATA_ROOT": str(mnist_root), "OMP_NUM_THREADS": "1"}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    result = subprocess.run(
        [
            *command,
            "--data-conf",
            "configurations/data/MNIST_valid.yml",
            "--eval_conf",
            f"configurations/eval/{model}_simple.yml",
            f"--model_conf=configurations/models/{model}.yml",
            "--arch-impl=modules/architectures/simple_MNIST.py",
            "--epochs=10",
            "--train_for=3 iterations",
            "--seed=42",
            f"--experiments-root={tmp_path / 'runs'}",
        ],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "dataset train: MNISTWrapper, 50000 samples" in result.stderr
    assert "dataset test: MNISTWrapper, 200 samples" in result.stderr
    assert "3 iterations done" in result.stdout
    [directory] = (tmp_path / "runs").iterdir()
    assert str(directory) in result.stdout
    stored = (directory / "config.yml").read_text()
    assert re.search(r"root: \$DATA_ROOT$", stored, re.MULTILINE)
    assert str(mnist_root) in (directory / "config_expanded.yml").read_text()
