"""Every block of the README and of docs/ does what it says, and every link leads somewhere."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import slurm_cluster

ROOT = Path(__file__).parent.parent
MAP = ROOT / "CONTRIBUTING.md"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)#]+)[^)]*\)")
FILE = re.compile(r"# file: (?P<name>\S+)\n")


@dataclass
class Block:
    language: str
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        match = FILE.match(self.text)
        return match["name"] if match else None


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    return [
        Block(match["language"], match["text"], text[: match.start()].count("\n") + 1)
        for match in FENCE.finditer(text)
    ]


@pytest.fixture
def checkout(tmp_path):
    """A copy of the project, as a newcomer has it after cloning."""
    folder = tmp_path / "checkout"
    for name in ("modules", "configurations", "sweeps", "slurm"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("train.py", "Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=300
    )


def run_shell(text: str, folder: Path, look: Callable[[], None]) -> None:
    """Run the commands of a block; installing and testing is only rehearsed from within a test."""
    for command in text.replace("\\\n", " ").splitlines():
        if not command.strip() or command.startswith("#"):
            continue
        rehearsed = re.sub(r"^make ", "make -n ", command)
        result = run(["bash", "-c", rehearsed], folder)
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
        look()


@pytest.mark.slow
def test_readme_blocks_run_as_a_newcomer_would_run_them(
    checkout, wandb_server, tmp_path, monkeypatch, request
):
    """Up to the section on sweeps without W&B; from there on with an account."""
    readme = blocks(ROOT / "README.md")
    for block in readme:
        if block.file_name is not None:
            path = checkout / block.file_name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
    commands = [block for block in readme if block.file_name is None]
    assert {block.language for block in commands} == {"bash", "python"}
    for block in commands:
        if "jade sweep push" in block.text:
            for name, value in wandb_server.environ(tmp_path / "account").items():
                monkeypatch.setenv(name, value)
        if "jade submit" in block.text and not has_cluster(request):
            continue
        if block.language == "bash":
            run_shell(block.text, checkout, lambda: note_sweep(wandb_server, monkeypatch))
        else:
            result = run([sys.executable, "-c", block.text], checkout)
            assert result.returncode == 0, f"README.md:{block.line}\n{result.stderr}"
    num_jobs = check_jobs(checkout, request) if (checkout / "jobs").exists() else 0
    (sweep,) = wandb_server.sweeps.values()
    assert [wandb_server.runs[name].state for name in sweep.runs] == ["finished"] * 4
    kept = sorted((checkout / "experiments").iterdir())
    # One run of the example, two and one of the classifier, one from Python, one that may be queued
    # again, one from the weights of another, four of the sweep; the rehearsal is gone. The sweep
    # without an account has a folder of its own.
    assert len(kept) == 12 + num_jobs
    assert "</html>" in (checkout / "results.html").read_text()


def has_cluster(request):
    """Start a cluster, which the commands of jobs need; without one they are left out, not in CI."""
    if slurm_cluster.missing() and os.environ.get("CI") != "true":
        return False
    request.getfixturevalue("cluster")
    return True


def check_jobs(checkout, request):
    """Wait for the jobs, and return how many folders they have added to the experiments."""
    cluster = request.getfixturevalue("cluster")
    cluster.wait_until_empty()
    said = "".join(path.read_text() for path in (checkout / "jobs").glob("*/logs/*"))
    # Other tests have used the same cluster.
    mine = set(re.findall(r"^job (\S+) on", said, re.MULTILINE))
    states = {job: facts["state"] for job, facts in cluster.jobs().items() if job in mine}
    assert set(states.values()) == {"COMPLETED"}, f"{states}\n{said}"
    points = (checkout / "experiments" / "cluster" / "runs").glob("*/status.json")
    assert ["finished" in path.read_text() for path in points] == [True] * 4
    return 2


def note_sweep(server, monkeypatch):
    """Do what the reader does: copy the id that was printed."""
    for sweep in server.sweeps.values():
        monkeypatch.setenv("SWEEP", f"{sweep.entity}/{sweep.project}/{sweep.id}")


def test_make_targets_of_the_readme_exist(checkout):
    for target in ("demo", "test", "bench"):
        assert run(["make", "-n", target], checkout).returncode == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_in_documents_exist(document):
    text = document.read_text()
    for match in LINK.finditer(text):
        target = match["target"]
        if not target.startswith("http"):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
    for name in re.findall(r"`((?:configurations|modules|sweeps|slurm|jade|tests)/[\w/.]+)`", text):
        assert (ROOT / name).exists(), f"{document.name}: {name}"


@pytest.mark.parametrize("name", ["configurations", "sweeps"])
def test_paths_in_shipped_yaml_files_exist(name):
    for path in sorted((ROOT / name).rglob("*.yml")):
        for mentioned in re.findall(
            r"(?:configurations|modules)/[\w/]+\.(?:yml|py)", path.read_text()
        ):
            assert (ROOT / mentioned).exists(), f"{path.name}: {mentioned}"


def test_module_map_says_of_each_file_what_the_file_says_of_itself():
    listed = dict(re.findall(r"^\| \d+ \| `([\w/.]+)` \| (.*) \|$", MAP.read_text(), re.MULTILINE))
    actual = {}
    for path in sorted((ROOT / "jade").iterdir()):
        source = path if path.suffix == ".py" else path / "__init__.py"
        if source.exists() and path.name not in ("__init__.py", "__main__.py"):
            docstring = ast.get_docstring(ast.parse(source.read_text())) or ""
            actual[path.name if path == source else f"{path.name}/"] = docstring.splitlines()[0]
    assert listed == actual
