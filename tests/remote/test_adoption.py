import os
import shutil

import pytest
import torch
from served_runs import put, serve

import jade
from jade import checkpoint
from jade.cli import main
from jade.errors import CheckpointError, ConfigError, NetworkError
from jade.remote.adoption import fetch_run
from jade.run_dir import RunDir
from jade.seal import read_iteration


@pytest.fixture
def quick(monkeypatch):
    """Let the client give up soon."""
    monkeypatch.setenv("WANDB_HTTP_TIMEOUT", "2")


@pytest.fixture
def left(trained, wandb_online, tmp_path):
    """A run of one epoch that is on the server, and not here any more; its former directory."""
    path = trained("--epochs=1", "--log_loss_every=1 iteration", "--best_metric=Error")
    serve(wandb_online, path, state="crashed")
    moved = tmp_path / "elsewhere" / path.name
    moved.parent.mkdir()
    path.rename(moved)
    return moved


def fetch(run_id):
    return fetch_run(run_id, os.environ, RunDir(jade_root() / run_id).root.parent)


def jade_root():
    from pathlib import Path

    return Path("experiments")


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def weights(directory):
    state = checkpoint.load(RunDir(directory).last_checkpoint)["trainer"]
    return state["stateful"]


def equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_fetched_run_is_the_directory_that_was_left(left, wandb_online):
    found = fetch(left.name)
    assert found == RunDir(jade_root() / left.name)
    here, there = contents(found.root), contents(left)
    uploaded = {n for n in there if n.startswith(("code/", "checkpoints/")) and "former" not in n}
    wanted = {"config.yml", "provenance.json", "status.json", "summary.json", "metrics.csv"}
    assert here.keys() == uploaded | wanted | {"run.log"}
    assert all(here[name] == there[name] for name in here)
    assert [path.name for path in jade_root().iterdir()] == [left.name]
    assert wandb_online.runs[left.name].num_starts == 0


def test_fetched_run_goes_on_to_the_bits_of_one_that_was_never_left(left, trained):
    whole = trained("--epochs=2", "--log_loss_every=1 iteration", "--best_metric=Error")
    fetch(left.name)
    assert main(["resume", left.name, "--total=2 epochs", "--wandb=disabled"]) == 0
    resumed = jade_root() / left.name
    assert equal(weights(resumed), weights(whole))
    assert (resumed / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()


def test_directory_that_is_as_new_as_the_server_is_not_fetched_again(left, wandb_online):
    shutil.copytree(left, jade_root() / left.name)
    before = contents(jade_root())
    assert fetch(left.name) == RunDir(jade_root() / left.name)
    assert contents(jade_root()) == before
    assert wandb_online.count("get", f"{left.name}/jade/checkpoints/last.pt") == 0


def test_directory_that_another_machine_has_gone_beyond_takes_over_what_is_newer(
    left, wandb_online, trained
):
    older = trained("--epochs=1", "--train_for=1 iteration", "--best_metric=Error")
    older.rename(jade_root() / left.name)
    found = fetch(left.name)
    assert found.last_checkpoint.read_bytes() == (left / "checkpoints/last.pt").read_bytes()
    assert found.metrics.read_bytes() == (left / "metrics.csv").read_bytes()


def test_directory_that_is_here_is_continued_without_the_server(left, wandb_online, quick, caplog):
    shutil.copytree(left, jade_root() / left.name)
    wandb_online.close_door()
    assert fetch(left.name) == RunDir(jade_root() / left.name)
    assert "What is here is continued." in caplog.text


def test_run_without_a_checkpoint_on_the_server_is_not_fetched(left, wandb_online):
    served = wandb_online.runs[left.name]
    for name in list(served.files):
        if name.endswith(".pt"):
            del served.files[name]
    assert fetch(left.name) is None
    assert list(jade_root().iterdir()) == []


def test_run_that_the_server_does_not_know_is_not_fetched(left):
    assert fetch("other") is None
    assert list(jade_root().iterdir()) == []


def test_download_that_is_cut_is_repeated(left, wandb_online):
    wandb_online.faults.cut(match="last.pt", count=1)
    found = fetch(left.name)
    assert found.last_checkpoint.read_bytes() == (left / "checkpoints/last.pt").read_bytes()


def test_download_that_is_always_cut_leaves_nothing(left, wandb_online):
    wandb_online.faults.cut(match="last.pt", count=None)
    with pytest.raises(NetworkError, match=r"jade/checkpoints/last\.pt .* does not arrive"):
        fetch(left.name)
    assert list(jade_root().iterdir()) == []


def test_server_that_is_away_is_no_reason_to_begin_again(left, wandb_online, quick):
    wandb_online.close_door()
    with pytest.raises(NetworkError, match="W&B at http"):
        fetch(left.name)
    assert list(jade_root().iterdir()) == []


def test_damaged_last_checkpoint_is_named_and_the_best_one_taken(left, wandb_online, caplog):
    served = wandb_online.runs[left.name]
    content = served.files["jade/checkpoints/last.pt"]
    put(served, "checkpoints/last.pt", content[:-1] + b"?")
    found = fetch(left.name)
    assert "last.pt is damaged" in caplog.text
    assert not found.last_checkpoint.exists()
    assert read_iteration(found.best_checkpoint) == read_iteration(left / "checkpoints/best.pt")


def test_all_checkpoints_damaged_is_said_and_nothing_is_left(left, wandb_online):
    served = wandb_online.runs[left.name]
    for name in ("last", "best"):
        put(served, f"checkpoints/{name}.pt", b"cut")
    with pytest.raises(CheckpointError, match=r"All checkpoints of team/project/.* are damaged"):
        fetch(left.name)
    assert list(jade_root().iterdir()) == []


def test_rows_that_the_table_lacks_come_from_the_history(left, wandb_online, caplog):
    served = wandb_online.runs[left.name]
    lines = (left / "metrics.csv").read_bytes().splitlines(keepends=True)
    put(served, "metrics.csv", b"".join(lines[:-2]))
    found = fetch(left.name)
    assert found.metrics.read_bytes() == b"".join(lines)


def test_rows_that_nobody_has_are_named(left, wandb_online, caplog):
    served = wandb_online.runs[left.name]
    lines = (left / "metrics.csv").read_bytes().splitlines(keepends=True)
    put(served, "metrics.csv", b"".join(lines[:-2]))
    served.lines["wandb-history.jsonl"] = []
    found = fetch(left.name)
    assert found.metrics.read_bytes() == b"".join(lines[:-2])
    assert "ends at iteration 1 on W&B" in caplog.text
    assert "the rows of iterations 2 to 3 either (2 rows): they are lost" in caplog.text


def test_resume_fetches_a_run_and_continues_it_on_the_server(left, wandb_online, trained, capsys):
    whole = trained("--epochs=2", "--log_loss_every=1 iteration", "--best_metric=Error")
    arguments = ["--total=2 epochs", "--wandb=online"]
    assert main(["resume", f"team/project/{left.name}", *arguments]) == 0
    resumed = jade_root() / left.name
    assert equal(weights(resumed), weights(whole))
    assert (resumed / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()
    served = wandb_online.runs[left.name]
    assert (served.state, served.num_starts) == ("finished", 1)
    steps = [row["_step"] for row in served.history]
    assert steps == sorted(set(steps))
    assert steps[-1] == 6


def test_resume_in_python_takes_the_same_references(left):
    finished = jade.resume(f"wandb:{left.name}", total=2, wandb="disabled", show_progress=False)
    assert (finished.directory.name, finished.status) == (left.name, "finished")


def test_directory_that_is_as_new_is_not_touched(left, wandb_online, capsys):
    shutil.copytree(left, jade_root() / left.name)
    assert main(["resume", f"team/project/{left.name}", "--wandb=disabled"]) == 2
    assert "is finished" in capsys.readouterr().err
    assert contents(jade_root() / left.name).keys() >= contents(left).keys()
    assert wandb_online.count("get") == 0 or "last.pt" not in str(wandb_online.requests)


def test_directory_that_is_behind_takes_over_what_the_server_has(
    left, wandb_online, trained, caplog, tmp_path
):
    shutil.copytree(left, jade_root() / left.name)
    assert main(["resume", left.name, "--total=2 epochs", "--wandb=disabled"]) == 0
    ahead = tmp_path / "ahead" / left.name
    ahead.parent.mkdir()
    (jade_root() / left.name).rename(ahead)
    serve(wandb_online, ahead)
    here = RunDir(shutil.copytree(left, jade_root() / left.name))
    assert main(["resume", f"wandb:{left.name}", "--total=3 epochs", "--wandb=disabled"]) == 0
    assert "was left at iteration 3, W&B has iteration 6: that is taken over" in caplog.text
    assert here.checkpoint(3).read_bytes() == (left / "checkpoints/last.pt").read_bytes()
    assert read_iteration(here.last_checkpoint) == 9
    rows = here.metrics.read_text().splitlines()
    assert (
        rows[: len((ahead / "metrics.csv").read_text().splitlines()) - 1]
        == (ahead / "metrics.csv").read_text().splitlines()[:-1]
    )


def test_directory_of_another_configuration_is_refused_and_stays(left, trained, capsys):
    other = trained("--epochs=1", "--model.params.lr=0.5")
    other.rename(jade_root() / left.name)
    before = contents(jade_root() / left.name)
    assert main(["resume", f"wandb:{left.name}", "--total=2 epochs"]) == 2
    assert "is a run of another configuration than team/project/" in capsys.readouterr().err
    assert contents(jade_root() / left.name) == before


def test_run_that_jade_did_not_make_is_refused(left, wandb_online, capsys):
    wandb_online.runs[left.name].files.clear()
    assert main(["resume", f"team/project/{left.name}"]) == 2
    assert "has no jade/config.yml on W&B: it was not made by JADE" in capsys.readouterr().err
    assert list(jade_root().iterdir()) == []


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("team/project/nowhere", "There is no run team/project/nowhere on W&B"),
        ("team/nowhere/x", "There is no run team/nowhere/x on W&B"),
        ("sweep:team/project/nowhere:best", "There is no sweep team/project/nowhere on W&B"),
    ],
)
def test_what_is_not_there_is_said(left, reference, message, capsys):
    assert main(["resume", reference]) == 2
    assert message in capsys.readouterr().err


def test_message_explains_the_path_and_the_reference(left, capsys):
    assert main(["resume", "team/project/nowhere"]) == 2
    error = capsys.readouterr().err
    assert "There is no run 'team/project/nowhere'" in error
    assert "As the run team/project/nowhere on W&B" in error


def test_wrong_key_is_said(left, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert main(["resume", f"wandb:{left.name}"]) == 2
    assert "does not accept the API key" in capsys.readouterr().err


def test_missing_login_is_said_without_asking(left, wandb_online, monkeypatch, capsys):
    monkeypatch.delenv("WANDB_API_KEY")
    before = len(wandb_online.requests)
    assert main(["resume", f"wandb:{left.name}"]) == 2
    assert "Nobody is logged in" in capsys.readouterr().err
    assert len(wandb_online.requests) == before


def test_server_that_is_away_is_the_fault_of_the_network(left, wandb_online, quick, capsys):
    wandb_online.close_door()
    assert main(["resume", f"wandb:{left.name}"]) == 1
    assert "W&B at http://127.0.0.1" in capsys.readouterr().err


def test_server_that_fails_is_the_fault_of_the_network(left, wandb_online, quick, capsys):
    wandb_online.faults.fail(500, match="graphql")
    assert main(["resume", f"wandb:{left.name}"]) == 1
    assert "W&B at http://127.0.0.1" in capsys.readouterr().err


def test_config_error_of_a_bad_reference_is_raised(left):
    with pytest.raises(ConfigError, match="does not name a run"):
        jade.load_run("wandb:a/b/c/d")


def test_run_that_uploaded_itself_goes_on_where_its_directory_is_not(
    trained, wandb_online, tmp_path, capsys
):
    more = ("--log_loss_every=1 iteration", "--best_metric=Error", "--wandb=online")
    whole = trained("--epochs=2", *more)
    path = trained("--epochs=1", *more)
    path.rename(tmp_path / "lost")
    assert main(["resume", f"team/project/{path.name}"]) == 2
    assert f"{path.name} is finished" in capsys.readouterr().err
    shutil.rmtree(path)
    assert main(["resume", f"team/project/{path.name}", "--total=2 epochs"]) == 0
    assert equal(weights(path), weights(whole))
    assert (path / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()
    served = {run_id: wandb_online.runs[run_id] for run_id in (path.name, whole.name)}
    one, other = (
        [{k: v for k, v in row.items() if not k.startswith("_r")} for row in run.history]
        for run in served.values()
    )
    assert [row["_step"] for row in one] == [row["_step"] for row in other]
    assert served[path.name].state == "finished"
    assert served[path.name].files["jade/metrics.csv"] == (path / "metrics.csv").read_bytes()


def test_setting_resume_takes_a_reference_too(left, arguments, capsys):
    tokens = [*arguments, f"--resume=team/project/{left.name}", "--epochs=2"]
    assert main([*tokens, "--log_loss_every=1 iteration", "--best_metric=Error"]) == 0
    assert read_iteration(jade_root() / left.name / "checkpoints/last.pt") == 6
