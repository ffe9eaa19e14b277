import json
import os
import time
from pathlib import Path

import pytest
import torch
from served_runs import put, serve

import jade
from jade import checkpoint
from jade.cli import main
from jade.errors import CheckpointError, ConfigError, NetworkError


@pytest.fixture
def served(trained, wandb_online, tmp_path, monkeypatch):
    """A run that is only on the server; its former directory is ``served.former``."""
    monkeypatch.setenv("JADE_CACHE", str(tmp_path / "cache"))
    path = trained("--best_metric=Error")
    made = serve(wandb_online, path)
    made.former = tmp_path / "elsewhere" / path.name
    made.former.parent.mkdir()
    path.rename(made.former)
    return made


def downloads(server):
    return [name.rpartition("jade/")[2] for _, kind, name in server.requests if kind == "get"]


def test_run_is_loaded_without_being_altered(served, wandb_online, tmp_path):
    before = (dict(served.raw_config), dict(served.summary), served.state, dict(served.files))
    run = jade.load_run(f"team/project/{served.id}")
    there = jade.load_run(served.former)
    assert run.config == there.config
    assert run.metrics.records() == there.metrics.records()
    assert (dict(run.summary), dict(run.status)) == (dict(there.summary), dict(there.status))
    assert run.directory == tmp_path / "cache" / "team" / "project" / served.id
    assert (dict(served.raw_config), dict(served.summary), served.state, dict(served.files)) == (
        before
    )
    assert wandb_online.count("graphql", "UpsertBucket") == 0
    assert served.num_starts == 0


def test_checkpoint_is_fetched_when_a_trainer_is_built(served, wandb_online):
    run = jade.load_run(f"team/project/{served.id}")
    assert not [name for name in downloads(wandb_online) if name.endswith(".pt")]
    assert [item.kind for item in run.checkpoints()] == ["last", "best"]
    trainer = run.trainer()
    assert [name for name in downloads(wandb_online) if name.endswith(".pt")] == [
        "checkpoints/best.pt"
    ]
    there = jade.load_run(served.former).trainer()
    assert torch.equal(trainer.net.layer.weight, there.net.layer.weight)
    run.trainer("last")
    assert downloads(wandb_online)[-1] == "checkpoints/last.pt"


def test_what_is_in_the_cache_is_not_fetched_again(served, wandb_online):
    jade.load_run(f"team/project/{served.id}").trainer()
    before = len(downloads(wandb_online))
    jade.load_run(f"team/project/{served.id}").trainer()
    assert len(downloads(wandb_online)) == before


def test_what_has_changed_on_the_server_is_fetched_again(served, wandb_online):
    reference = f"team/project/{served.id}"
    jade.load_run(reference)
    before = len(downloads(wandb_online))
    content = {**json.loads(served.files["jade/summary.json"]), "Error": -1.0}
    put(served, "summary.json", json.dumps(content).encode())
    assert jade.load_run(reference).summary["Error"] == -1.0
    assert downloads(wandb_online)[before:] == ["summary.json"]


def test_code_of_the_run_is_executed_only_when_it_is_trusted(
    served, project, monkeypatch, tmp_path
):
    elsewhere = tmp_path / "empty"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    reference = f"team/project/{served.id}"
    with pytest.raises(ConfigError, match="trust_code=True"):
        jade.load_run(reference).trainer()
    trusted = jade.load_run(reference, trust_code=True)
    assert sum(p.numel() for p in trusted.trainer().parameters()) == 3


def test_damaged_best_checkpoint_is_passed_over(served, caplog):
    content = served.files["jade/checkpoints/best.pt"]
    put(served, "checkpoints/best.pt", content[: len(content) // 2])
    run = jade.load_run(f"team/project/{served.id}")
    run.trainer()
    assert "best.pt is damaged" in caplog.text
    with pytest.raises(CheckpointError, match=r"best\.pt is damaged"):
        run.trainer("best")
    assert sorted(path.name for path in (run.directory / "checkpoints").iterdir()) == ["last.pt"]


def test_checkpoint_that_is_not_there_is_said(served):
    run = jade.load_run(f"team/project/{served.id}")
    with pytest.raises(ConfigError, match=r"has no checkpoint 'bets' on W&B. Did you mean 'best'"):
        run.trainer("bets")


def test_code_that_leads_out_of_its_folder_is_refused(served, tmp_path):
    import io
    import zipfile

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("../../escaped.py", "bad = 1")
    put(served, "code.zip", content.getvalue())
    with pytest.raises(CheckpointError, match="leads out of the folder"):
        jade.load_run(f"team/project/{served.id}")
    assert not list(tmp_path.rglob("escaped.py"))


def test_export_takes_a_run_on_wandb(served, tmp_path, capsys):
    target = tmp_path / "model.jade"
    assert main(["export", f"team/project/{served.id}", str(target)]) == 0
    assert "best checkpoint of run" in capsys.readouterr().out
    assert jade.load_model(target).config["model"]["class"] == "LineTrainer"


def test_weights_of_a_run_on_wandb_start_another(served, arguments, capsys):
    assert main([*arguments, f"--load=team/project/{served.id}", "--epochs=1"]) == 0
    assert "weights of LineTrainer loaded from" in capsys.readouterr().err


def test_directory_that_is_here_wins(served, wandb_online, project):
    place = project.root / "team" / "project" / served.id
    place.parent.mkdir(parents=True)
    served.former.rename(place)
    before = len(wandb_online.requests)
    assert jade.load_run(f"team/project/{served.id}").directory == place
    assert len(wandb_online.requests) == before


def test_project_without_an_entity_is_explained(served, monkeypatch):
    monkeypatch.delenv("WANDB_ENTITY")
    with pytest.raises(ConfigError, match="write entity/project/x, or set WANDB_ENTITY"):
        jade.load_run("project/x")


def test_default_entity_of_the_account_stands_in(served, monkeypatch):
    monkeypatch.delenv("WANDB_ENTITY")
    assert jade.load_run(f"wandb:{served.id}").run_id == served.id


def test_key_in_a_file_of_variables_is_enough(served, project, monkeypatch):
    key = os.environ["WANDB_API_KEY"]
    monkeypatch.delenv("WANDB_API_KEY")
    project.write(".env", f"WANDB_API_KEY={key}\n")
    assert jade.load_run(f"wandb:{served.id}").run_id == served.id
    assert "WANDB_API_KEY" not in os.environ


def test_cut_download_of_a_record_leaves_the_cache_as_it_was(served, wandb_online):
    reference = f"team/project/{served.id}"
    run = jade.load_run(reference)
    before = (run.directory / "metrics.csv").read_bytes()
    put(served, "metrics.csv", before + b"7,1,0.5,0.5,0.5\n")
    wandb_online.faults.cut(match="metrics.csv", count=None)
    with pytest.raises(NetworkError, match=r"metrics\.csv .* does not arrive"):
        jade.load_run(reference)
    assert (run.directory / "metrics.csv").read_bytes() == before
    assert not [path for path in run.directory.rglob("*") if ".tmp" in path.name]


def test_download_that_stalls_is_given_up(served, wandb_online, monkeypatch):
    monkeypatch.setenv("WANDB_HTTP_TIMEOUT", "1")
    run = jade.load_run(f"team/project/{served.id}")
    wandb_online.close_door()
    began = time.monotonic()
    with pytest.raises(NetworkError, match="W&B at http"):
        run.trainer()
    assert time.monotonic() - began < 60
    assert list((run.directory / "checkpoints").iterdir()) == []


def test_wandb_leaves_no_folders_behind_for_runs_it_looks_at(served, monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "wandb_dir"))
    (tmp_path / "wandb_dir").mkdir()
    jade.load_run(f"team/project/{served.id}")
    assert not Path(tmp_path / "wandb_dir" / "team").exists()


def test_checkpoint_that_is_replaced_meanwhile_is_the_new_one(served, wandb_online, caplog):
    reference = f"team/project/{served.id}"
    run = jade.load_run(reference)
    assert [item.kind for item in run.checkpoints()] == ["last", "best"]
    content = checkpoint.load(served.former / "checkpoints/last.pt")
    content["clock"]["iterations"] += 1
    checkpoint.save(content, served.former / "newer.pt")
    newer = (served.former / "newer.pt").read_bytes()
    put(served, "checkpoints/last.pt", newer)
    run.trainer("last")
    assert "it is asked for again" in caplog.text
    assert (run.directory / "checkpoints/last.pt").read_bytes() == newer
    before = len(downloads(wandb_online))
    jade.load_run(reference).trainer("last")
    assert len(downloads(wandb_online)) == before


def test_run_on_wandb_is_tested_from_the_cache(served, wandb_online):
    there = jade.test(served.former)
    here = jade.test(f"team/project/{served.id}")
    assert here.metrics == there.metrics
    assert here.directory.is_relative_to(jade.load_run(f"team/project/{served.id}").directory)
    assert wandb_online.count("graphql", "UpsertBucket") == 0
