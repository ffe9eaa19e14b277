"""What the package looks like from outside: light to import, small on its surface."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

import jade
from jade.command_line import add_settings

PACKAGE = Path(jade.__file__).parent
HEAVY = ("torch", "numpy", "wandb", "rich", "tensorboard", "torchvision", "matplotlib", "PIL")


def modules_after(code):
    """Run a line in a fresh process, and list the modules that it loads."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import jade",
        "import jade; jade.ConfigError",
        "import jade.remote.place",
        "from jade.cli import main; main(['--version'])",
        "import contextlib, io\nfrom jade.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()): main(['train', '--help'])",
        # On a login node.
        "import contextlib, io\nfrom jade.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    assert main(['submit', 'sweep', 'sweeps/digits_vae_sweep.yml', '--print']) == 0",
        "import contextlib, io\nfrom jade.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    assert main(['submit', 'grid', 'sweeps/digits_vae_sweep.yml', '--print']) == 0",
        "import contextlib, io\nfrom jade.cli import main\n"
        "import jade.launch.job_list, jade.launch.job_cancel, jade.launch.submission",
    ],
)
def test_import_and_help_load_no_heavy_package(code):
    assert modules_after(code) & set(HEAVY) == set()


def test_public_names_are_exactly_those_that_are_promised():
    public = {name for name in dir(jade) if not name.startswith("_")}
    modules = {"batch", "errors", "eval", "nn", "trainer"}
    assert public == {*jade.__all__, *modules}
    assert jade.__all__ == sorted(jade.__all__)


def test_public_names_resolve():
    for name in dir(jade):
        assert getattr(jade, name) is not None


def test_public_names_are_where_the_documentation_imports_them_from():
    from jade import DatasetEvaluation, Evaluation, Logger, Trainer
    from jade.eval import DatasetEvaluation as Dataset
    from jade.eval import Evaluation as Single
    from jade.loggers import Logger as Base
    from jade.trainer import Trainer as Parent

    assert (DatasetEvaluation, Evaluation, Logger, Trainer) == (Dataset, Single, Base, Parent)


def test_name_that_is_misspelt_is_suggested():
    with pytest.raises(AttributeError, match=r"no attribute 'Trianer'. Did you mean 'Trainer'\?"):
        jade.Trianer  # noqa: B018


def test_command_line_has_exactly_these_flags():
    # Whoever removes or renames a flag breaks somebody's scripts: do it knowingly, here too.
    parser = argparse.ArgumentParser()
    add_settings(parser)
    flags = {name for action in parser._actions for name in action.option_strings}
    assert {flag for flag in flags if "_" in flag or "-" not in flag[2:]} == {
        "-h",
        "--arch_impl",
        "--backup_every",
        "--best_metric",
        "--best_mode",
        "--checkpoint_every",
        "--config",
        "--data_conf",
        "--deterministic",
        "--device",
        "--dry_run",
        "--env_file",
        "--epochs",
        "--eval_conf",
        "--evaluate_first",
        "--experiments_root",
        "--group",
        "--help",
        "--job_type",
        "--keep_last",
        "--load",
        "--load_strict",
        "--log_level",
        "--log_loss_every",
        "--min_delta",
        "--model_conf",
        "--modules",
        "--notes",
        "--patience",
        "--resume",
        "--run_name",
        "--seed",
        "--set",
        "--stop_on_nan",
        "--stop_when",
        "--tags",
        "--tensorboard",
        "--artifact",
        "--upload",
        "--time_limit",
        "--train_for",
        "--wandb",
    }


def test_command_line_takes_every_flag_with_hyphens_too():
    parser = argparse.ArgumentParser()
    add_settings(parser)
    flags = {name for action in parser._actions for name in action.option_strings}
    assert {flag.replace("_", "-") for flag in flags} <= flags


def test_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.name))
def test_module_opens_with_one_sentence(path):
    import ast

    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text is not None
    first = text.partition("\n")[0]
    assert first.endswith((".", ":"))
    assert len(first) <= 100
