import importlib.metadata
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from jade import provenance
from jade.provenance import (
    Provenance,
    collect,
    describe_git,
    find_in_snapshot,
    find_packages,
    mask_secrets,
    place_code,
    snapshot_code,
    write_json,
)

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _neutral_environment(monkeypatch, tmp_path):
    for name in [*provenance.ID_VARIABLES, "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    # A repository that happens to hold the temporary folder is not the test's.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))


def git(folder, *arguments):
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text("step = 1\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "model.py").write_text("width = 64\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def copies(directory):
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


# Git


def test_git_of_a_clean_repository_is_commit_and_branch(repository):
    assert describe_git(repository) == {
        "commit": git(repository, "rev-parse", "HEAD"),
        "branch": "main",
        "dirty": False,
        "untracked": [],
        "diff": None,
    }


def test_git_of_a_dirty_repository_has_a_diff_that_restores_it(repository, tmp_path):
    (repository / "train.py").write_text("step = 2  # größer\n")
    (repository / "new.py").write_text("staged = True\n")
    git(repository, "add", "new.py")

    state = describe_git(repository / "sub")

    assert state["dirty"] is True
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repository), str(clone))
    patch = tmp_path / "changes.patch"
    patch.write_text(state["diff"], encoding="utf-8")
    git(clone, "apply", str(patch))
    assert (clone / "train.py").read_text() == "step = 2  # größer\n"
    assert (clone / "new.py").read_text() == "staged = True\n"


def test_git_names_untracked_files_without_calling_them_dirty(repository):
    (repository / "bäh 1.py").write_text("x = 1\n")

    state = describe_git(repository)

    assert state["untracked"] == ["bäh 1.py"]
    assert (state["dirty"], state["diff"]) == (False, None)


def test_git_of_a_renamed_file_does_not_mistake_its_old_name(repository):
    (repository / "? old").write_text("a\nb\nc\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "second")
    git(repository, "mv", "? old", "new")

    state = describe_git(repository)

    assert (state["dirty"], state["untracked"]) == (True, [])


def test_git_of_a_detached_head_has_a_commit_and_no_branch(repository):
    git(repository, "checkout", "-q", "--detach")

    state = describe_git(repository)

    assert state["commit"] == git(repository, "rev-parse", "HEAD")
    assert state["branch"] is None


def test_git_without_commits_shows_what_is_staged(tmp_path):
    git(tmp_path, "init", "-q", "-b", "fresh")
    (tmp_path / "a.py").write_text("first = 1\n")
    git(tmp_path, "add", "a.py")

    state = describe_git(tmp_path)

    assert (state["commit"], state["branch"], state["dirty"]) == (None, "fresh", True)
    assert "+first = 1" in state["diff"]


def test_git_outside_a_repository_is_none(tmp_path):
    assert describe_git(tmp_path) is None


def test_git_that_is_not_installed_is_none(repository, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert describe_git(repository) is None


@pytest.mark.parametrize("name", [".env", "sub/.env", ".env.local", "sub/id.pem"])
def test_git_diff_leaves_secret_files_out(repository, name):
    (repository / name).write_text("WANDB_API_KEY=old\n")
    git(repository, "add", "-f", name)
    git(repository, "commit", "-q", "-m", "unwise")
    (repository / name).write_text("WANDB_API_KEY=hunter2\n")
    (repository / "train.py").write_text("step = 2\n")

    for folder in (repository, repository / "sub"):
        diff = describe_git(folder)["diff"]
        assert "hunter2" not in diff
        assert "+step = 2" in diff


def test_git_diff_is_cut_at_its_limit_and_says_so(repository):
    (repository / "train.py").write_text("x" * 3_000_000 + "\n")

    state = describe_git(repository)

    assert len(state["diff"]) == provenance.DIFF_LIMIT_BYTES
    assert state["diff_note"] == "Cut after 1,000,000 bytes."


def fake_git(folder, script, monkeypatch):
    folder.mkdir()
    program = folder / "git"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_git_that_hangs_is_given_up(tmp_path, monkeypatch):
    fake_git(tmp_path / "bin", "exec sleep 30", monkeypatch)
    monkeypatch.setattr(provenance, "GIT_TIMEOUT_S", 0.1)
    before = time.monotonic()

    assert describe_git(tmp_path) is None

    assert time.monotonic() - before < 5


def test_git_diff_that_hangs_leaves_a_note(tmp_path, monkeypatch):
    answer = r"""printf '# branch.oid abc\0# branch.head main\0001 .M f\0'"""
    script = f'case "$*" in *porcelain*) {answer};; *) exec sleep 30;; esac'
    fake_git(tmp_path / "bin", script, monkeypatch)
    monkeypatch.setattr(provenance, "GIT_TIMEOUT_S", 0.3)

    state = describe_git(tmp_path)

    assert (state["commit"], state["dirty"], state["diff"]) == ("abc", True, None)
    assert state["diff_note"] == "git gave no diff within 0.3 seconds."


def test_git_is_asked_without_touching_the_index(repository):
    index = repository / ".git" / "index"
    before = index.read_bytes()
    os.utime(repository / "train.py", (1, 1))

    assert describe_git(repository)["dirty"] is False

    assert index.read_bytes() == before


# Secrets


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        (["--api_key=abc def"], ["--api_key=***"]),
        (["--api-key", "abc", "--lr", "1"], ["--api-key", "***", "--lr", "1"]),
        (["--use-token", "--lr=1"], ["--use-token", "--lr=1"]),
        (["WANDB_API_KEY=abc"], ["WANDB_API_KEY=***"]),
        (["--data.params.Password=a,b"], ["--data.params.Password=***"]),
        (["--data={'secret': 'a b', 'n': 1}"], ["--data={'secret': ***, 'n': 1}"]),
        (["--data={hf_token: abc, n: 1}"], ["--data={hf_token: ***, n: 1}"]),
        (["--db=postgres://me:pw@host/x"], ["--db=postgres://me:***@host/x"]),
        (["train.py", "--lr=1e-3", "a b"], ["train.py", "--lr=1e-3", "a b"]),
        (["x:8080/path@2"], ["x:8080/path@2"]),
        (["token", "abc"], ["token", "abc"]),
    ],
)
def test_secret_arguments_are_masked_and_others_kept(command, masked):
    assert mask_secrets(command) == masked


def test_masking_a_long_argument_is_quick():
    before = time.monotonic()

    mask_secrets(["a" * 100_000, "--blob=" + "a" * 50_000 + "key" + "a" * 50_000])

    assert time.monotonic() - before < 1


# Collecting


def test_collect_says_where_a_run_comes_from(repository, monkeypatch):
    monkeypatch.chdir(repository)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("WANDB_SWEEP_ID", "sw33p")
    monkeypatch.setenv("SOME_PASSWORD", "hunter2")

    values = collect(["train.py", "--api_key=hunter2"], 7, {"device": "cpu"})

    assert values["command"] == ["train.py", "--api_key=***"]
    assert values["directory"] == str(repository)
    assert (values["seed"], values["device"]) == (7, "cpu")
    assert values["ids"] == {"SLURM_JOB_ID": "4711", "WANDB_SWEEP_ID": "sw33p"}
    assert values["git"]["commit"] == git(repository, "rev-parse", "HEAD")
    assert values["host"] == socket.gethostname()
    assert values["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert values["cpu"]["available"] <= values["cpu"]["count"]
    assert values["packages"]["pytest"] == pytest.__version__
    assert "hunter2" not in json.dumps(values)


def test_collect_dates_the_start_in_utc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    background = Provenance(["x"], None).start()

    values = background.result()

    started = datetime.fromisoformat(values["started"])
    assert started.utcoffset() == timedelta(0)
    assert abs(datetime.now(timezone.utc) - started) < timedelta(minutes=1)
    assert (values["git"], values["seed"]) == (None, None)


def test_collect_remembers_the_folder_of_the_start(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(repository)
    background = Provenance(["x"], None)
    monkeypatch.chdir(tmp_path)

    values = background.start().result()

    assert values["directory"] == str(repository)
    assert values["git"]["branch"] == "main"


def test_collect_names_the_version_that_the_project_declares():
    declared = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    assert collect(["x"], None)["jade"] == declared[1]


def test_import_loads_nothing_heavy():
    code = (
        "import sys, jade.provenance\n"
        "heavy = {'torch', 'numpy', 'subprocess', 'platform', 'importlib.metadata', 'json'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, check=True)


# Packages


def test_packages_are_those_of_importlib_metadata():
    expected = {}
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        expected.setdefault(name, distribution.version)

    packages = find_packages()

    assert packages == expected
    assert list(packages) == sorted(packages)


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("typing_extensions-4.12.0.dist-info", {"typing-extensions": "4.12.0"}),
        ("torch-2.13.0+cpu.dist-info", {"torch": "2.13.0+cpu"}),
        ("Foo-Bar-1.0-py3.11.egg-info", {"foo-bar": "1.0"}),
        ("~orch-2.0.dist-info", {}),
        ("numpy", {}),
    ],
)
def test_packages_are_read_off_folder_names(tmp_path, folder, found):
    (tmp_path / folder).mkdir()

    assert find_packages([str(tmp_path)]) == found


def test_packages_without_a_version_in_the_name_are_looked_into(tmp_path):
    (tmp_path / "mine.egg-info").mkdir()
    (tmp_path / "mine.egg-info" / "PKG-INFO").write_text("Name: mine\nVersion: 0.3\n\nVersion: 9\n")
    (tmp_path / "empty.egg-info").mkdir()

    assert find_packages([str(tmp_path)]) == {"mine": "0.3"}


def test_packages_of_the_first_folder_win_and_all_are_sorted(tmp_path):
    for number in ("1", "2"):
        (tmp_path / number / f"a-{number}.0.dist-info").mkdir(parents=True)

    (tmp_path / "2" / "b-3.dist-info").mkdir()
    (tmp_path / "1" / "Aa-4.dist-info").mkdir()

    folders = [str(tmp_path / name) for name in ("missing", "2", "1")]

    assert list(find_packages(folders).items()) == [("a", "2.0"), ("aa", "4"), ("b", "3")]


# JSON


def test_json_is_read_back_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "provenance.json"
    write_json(path, {"old": True})

    write_json(path, {"name": "größer \udcff", "folder": Path("a/b")})

    assert json.loads(path.read_text()) == {"name": "größer \udcff", "folder": str(Path("a/b"))}
    assert copies(tmp_path) == ["provenance.json"]


def test_json_that_cannot_be_made_leaves_the_old_file(tmp_path):
    path = tmp_path / "provenance.json"
    write_json(path, {"old": True})

    with pytest.raises(TypeError):
        write_json(path, {("no", "key"): 1})

    assert json.loads(path.read_text()) == {"old": True}
    assert copies(tmp_path) == ["provenance.json"]


def test_json_that_cannot_be_placed_leaves_no_part(tmp_path):
    (tmp_path / "provenance.json").mkdir()

    with pytest.raises(OSError, match="directory"):
        write_json(tmp_path / "provenance.json", {"a": 1})

    assert copies(tmp_path) == []


def test_json_file_has_ordinary_permissions(tmp_path):
    (tmp_path / "ordinary").touch()

    write_json(tmp_path / "a.json", {})

    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


# Code


def make_files(root, *names):
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {file}\n")
    return [root / name for name in names]


def test_code_keeps_its_layout_with_the_init_files_of_its_packages(tmp_path):
    root, code = tmp_path / "project", tmp_path / "run" / "code"
    make_files(root, "modules/__init__.py", "modules/models/__init__.py", "modules/data/other.py")
    used = make_files(root, "modules/models/vae.py", "modules/data/vae.py", "train.py")

    stored = snapshot_code(reversed(used), code, root)

    assert copies(code) == [
        "modules/__init__.py",
        "modules/data/vae.py",
        "modules/models/__init__.py",
        "modules/models/vae.py",
        "train.py",
    ]
    assert stored == [code / name for name in copies(code)]
    assert (code / "modules/data/vae.py").read_text() == (root / "modules/data/vae.py").read_text()


def test_code_outside_the_root_goes_to_external(tmp_path):
    root, code = tmp_path / "project", tmp_path / "code"
    make_files(tmp_path / "lib", "package/__init__.py")
    used = make_files(tmp_path / "lib", "package/net.py", "loose.py")

    snapshot_code(used, code, root)

    assert copies(code) == [
        "external/loose.py",
        "external/package/__init__.py",
        "external/package/net.py",
    ]


def test_code_of_a_folder_of_modules_outside_the_root_stays_together(tmp_path):
    root, code = tmp_path / "project", tmp_path / "code"
    used = make_files(tmp_path / "lib", "mods/models/vae.py", "mods/data/vae.py", "net.py")
    roots = [tmp_path / "lib/mods", tmp_path / "unused"]

    snapshot_code(used, code, root, roots)

    assert copies(code) == [
        "external/mods/data/vae.py",
        "external/mods/models/vae.py",
        "external/net.py",
    ]
    targets = place_code(used, root, roots)
    assert find_in_snapshot(targets, roots, tmp_path / "lib/net.py") == {
        "modules": ["external/mods"],
        "arch_impl": "external/net.py",
        "external": {
            "external/mods/data/vae.py": f"{tmp_path}/lib/mods/data/vae.py",
            "external/mods/models/vae.py": f"{tmp_path}/lib/mods/models/vae.py",
            "external/net.py": f"{tmp_path}/lib/net.py",
        },
    }


def test_code_files_of_the_same_name_never_overwrite_each_other(tmp_path):
    root, code = tmp_path / "project", tmp_path / "code"
    make_files(tmp_path / "b", "package/__init__.py")
    used = [
        *make_files(root, "external/net.py"),
        *make_files(tmp_path / "a", "net.py", "package/__init__.py"),
        *make_files(tmp_path / "b", "net.py", "package/c.py"),
    ]

    snapshot_code(used, code, root)

    assert {name: (code / name).read_text() for name in copies(code)} == {
        "external/net.py": f"# {root}/external/net.py\n",
        "external/2/net.py": f"# {tmp_path}/a/net.py\n",
        "external/2/package/__init__.py": f"# {tmp_path}/a/package/__init__.py\n",
        "external/3/net.py": f"# {tmp_path}/b/net.py\n",
        "external/3/package/__init__.py": f"# {tmp_path}/b/package/__init__.py\n",
        "external/3/package/c.py": f"# {tmp_path}/b/package/c.py\n",
    }


def test_code_given_by_relative_and_dotted_paths_is_stored_once(tmp_path, monkeypatch):
    root, code = tmp_path / "project", tmp_path / "code"
    make_files(root, "modules/vae.py")
    monkeypatch.chdir(root)

    used = [Path("modules/vae.py"), root / "modules" / ".." / "modules" / "vae.py"]
    assert snapshot_code(used, code, root) == [code / "modules" / "vae.py"]
    assert snapshot_code(used, code, Path()) == [code / "modules" / "vae.py"]


def test_code_behind_links_keeps_its_place_below_the_root(tmp_path):
    root, code = tmp_path / "project", tmp_path / "code"
    make_files(root, "own.py")
    make_files(tmp_path / "shared", "net.py")
    (root / "modules").symlink_to(tmp_path / "shared")
    (tmp_path / "alias").symlink_to(root)

    snapshot_code([root / "modules" / "net.py", tmp_path / "alias" / "own.py"], code, root)

    assert copies(code) == ["modules/net.py", "own.py"]


def test_code_file_that_vanished_is_reported_and_left_out(tmp_path, caplog):
    stored = snapshot_code([tmp_path / "gone.py"], tmp_path / "code", tmp_path)

    assert stored == []
    assert "gone.py cannot be read" in caplog.text
