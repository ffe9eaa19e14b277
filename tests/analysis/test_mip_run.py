"""What MI-Prometheus has left behind stands in the same table as runs of JADE."""

import csv
from pathlib import Path

import pytest
from analyzed_runs import write_measured_run

from jade.cli import main

CONFIG = """\
model: {name: MNISTLoss, hidden: %d}
training:
  problem: {name: MNIST, batch_size: 64}
  seed_numpy: 11
  seed_torch: 12
testing:
  problem: {name: MNIST}
"""


def write_mip_run(root, name, hidden, losses, test_loss=None, *, has_model=True):
    """Write a directory with the names, headers and number formats of MI-Prometheus."""
    folder = root / "MNIST" / "SimpleConv" / name
    (folder / "models").mkdir(parents=True)
    (folder / "training_configuration.yaml").write_text(CONFIG % hidden)
    rows = [f"{loss:12.10f},{place:06d},{place // 2:02d}" for place, loss in enumerate(losses)]
    text = "\n".join(["loss,episode,epoch", *rows]) + "\n"
    for part in ("training", "validation"):
        (folder / f"{part}_statistics.csv").write_text(text)
    last = f"{losses[-1]:12.10f},{len(losses) - 1:06d},{min(losses):12.10f},01\n"
    for part in ("training", "validation"):
        head = "loss,episode,loss_min,epoch\n"
        (folder / f"{part}_set_agg_statistics.csv").write_text(head + last)
    if has_model:
        (folder / "models" / "model_best.pt").write_bytes(b"not opened by anybody")
    if test_loss is not None:
        test = folder / "test_20180904_120000_final"
        test.mkdir()
        (test / "testing_configuration.yaml").write_text(CONFIG % hidden)
        (test / "testing_statistics.csv").write_text("loss,episode\n 9.0,000000\n")
        (test / "testing_set_agg_statistics.csv").write_text(
            f"loss,episode,acc_mean\n{test_loss:12.10f},000010, 0.970\n"
        )
    return folder


@pytest.fixture
def table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def analyze(*arguments):
        assert main(["analyze", "old", "new", "--csv=out.csv", *arguments]) == 0
        with Path("out.csv").open(newline="") as file:
            return {row["run"]: row for row in csv.DictReader(file)}, capsys.readouterr().out

    return analyze


def test_runs_of_mi_prometheus_stand_beside_those_of_jade(tmp_path, table):
    write_measured_run(tmp_path / "new", "ours", {"lr": 0.1}, {"loss": [3.0, 2.0]})
    write_mip_run(tmp_path / "old", "20180904_110000", 10, [0.9, 0.5, 0.7], 0.6)
    write_mip_run(tmp_path / "old", "20180904_110001_wide", 20, [0.8, 0.2], has_model=False)

    rows, text = table("--metric=validation/loss")

    first, second = rows["20180904_110000"], rows["20180904_110001_wide"]
    assert set(rows) == {"ours", "20180904_110000", "20180904_110001_wide"}
    assert (first["status"], second["status"]) == ("finished", "unknown")
    assert (first["last/validation/loss"], first["best/validation/loss"]) == ("0.7", "0.5")
    assert first["last/validation_set/loss_min"] == "0.5"
    assert (first["model.hidden"], second["model.hidden"]) == ("10", "20")
    assert (first["test/loss"], first["test/acc_mean"], second["test/loss"]) == ("0.6", "0.97", "")
    assert first["seed"] == "12"
    assert not any("seed_" in key for key in first)
    assert (first["run/iterations"], first["run/epochs"], second["name"]) == ("3", "2", "wide")
    assert "20180904_110001_wide" in text


def test_a_damaged_directory_of_mi_prometheus_says_what_is_missing(tmp_path, table):
    write_measured_run(tmp_path / "new", "ours", {"lr": 0.1}, {"loss": [2.0]})
    folder = write_mip_run(tmp_path / "old", "20180904_110000", 10, [0.9, 0.5])
    (folder / "training_configuration.yaml").write_text("model: [")
    (folder / "training_set_agg_statistics.csv").unlink()
    with (folder / "validation_statistics.csv").open("a") as file:
        file.write("0.4,0000\n0.4,nan,0\n0.4,000003,inf\n")

    row = table()[0]["20180904_110000"]

    notes = " ".join(map(str, row.values()))
    assert "training_configuration.yaml cannot be read" in notes
    assert "training_set_agg_statistics.csv is missing" in notes
    assert "validation_statistics.csv: 3 rows cannot be read" in notes
    assert row["last/validation/loss"] == "0.5"
