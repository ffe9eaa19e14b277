"""What an installation brings, and what works without the optional packages."""

import ast
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OPTIONAL = ("wandb", "tensorboard", "torchvision", "sklearn", "matplotlib", "pyro")


def test_installation_needs_only_the_core_and_offers_the_rest_as_extras():
    requirements = metadata.requires("jade-trainer") or []
    required = {item.split(">")[0].strip() for item in requirements if "extra ==" not in item}
    assert required == {"torch", "numpy", "pyyaml", "python-dotenv", "rich", "pillow", "optuna"}
    extras = set(metadata.metadata("jade-trainer").get_all("Provides-Extra") or [])
    assert {"wandb", "vision", "tensorboard", "examples", "all", "bench", "dev"} <= extras


def test_installation_gives_the_command():
    [script] = metadata.entry_points(group="console_scripts", name="jade")
    assert script.value == "jade.cli:jade_program"
    assert callable(script.load())


def test_installation_brings_every_file_of_the_package():
    tomllib = pytest.importorskip("tomllib")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    brought = {
        ROOT.joinpath(*package.split("."), name)
        for package, names in settings["package-data"].items()
        for name in names
    }
    files = {path for path in (ROOT / "jade").rglob("*") if path.is_file()}
    assert {p for p in files if p.suffix not in (".py", ".pyc")} == brought


@pytest.mark.slow
def test_run_works_without_any_optional_package(project, arguments, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in OPTIONAL)
    flags = [flag for flag in arguments if not flag.startswith("--wandb")]
    code = f"import sys; {blocked}; from jade.cli import main; sys.exit(main({flags!r}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "jade-trainer[wandb]" in result.stderr


@pytest.mark.parametrize("path", sorted((ROOT / "jade").rglob("*.py")), ids=lambda p: p.name)
def test_library_is_written_for_the_oldest_supported_python(path):
    ast.parse(path.read_text(), feature_version=(3, 10))
