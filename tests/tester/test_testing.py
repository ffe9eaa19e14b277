"""A run that was trained can be tested: its evaluations, of a checkpoint, with seeds of their own."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import yaml

import jade
from jade.cli import main
from jade.errors import ConfigError
from jade.run_dir import RunDir

DRAWING = """
    import torch

    import jade
    from jade.eval import Evaluation


    class Draw(Evaluation):
        def initialize(self):
            self.started_with = torch.rand(()).item()

        def evaluate(self):
            picture = torch.zeros(4, 4)
            training = any(m.training for m in self.trainer.modules())
            return {
                "drawn": torch.rand(()).item(),
                "started_with": self.started_with,
                "training": float(training),
                "grad": float(torch.is_grad_enabled()),
                "look": jade.Media("image", picture),
            }


    class Fail(Evaluation):
        def evaluate(self):
            raise RuntimeError("the measure is broken")


    class Wait(Evaluation):
        def evaluate(self):
            import time

            print("waiting", flush=True)
            time.sleep(60)


    class Spoil(Evaluation):
        def evaluate(self):
            with torch.no_grad():
                before = self.trainer.net.layer.weight.sum().item()
                self.trainer.net.layer.weight.add_(1)
            return before
"""
SMALL_BATCHES = "Error: {class: SquaredError, params: {evaluate_on: test, batch_size: 4}}\n"


def only_test(directory):
    (found,) = RunDir(directory).tests()
    return found


def summary(directory):
    return json.loads((directory / "summary.json").read_text())


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def last_logged(directory, name):
    return float(rows(directory / "metrics.csv")[-1][name])


def test_test_of_the_last_checkpoint_measures_what_training_measured_last(trained, capsys):
    directory = trained()
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert main(["test", str(directory)]) == 0
    found = only_test(directory)
    assert summary(found.root)["metrics"] == {"Error": last_logged(directory, "Error")}
    assert summary(found.root)["checkpoint"] == "last.pt"
    assert summary(found.root)["iteration"] == 6
    assert summary(found.root)["status"] == "finished"
    assert str(found.root) in capsys.readouterr().out
    assert re.fullmatch(r"test_\d{8}-\d{6}", found.root.name)
    names = {path.name for path in found.root.iterdir()}
    assert names >= {"config.yml", "test.log", "test_statistics.csv", "test_set_agg_statistics.csv"}
    for path, content in before.items():
        assert path.read_bytes() == content, path


def test_statistics_have_a_row_for_each_batch(project, trained):
    project.write("small.yml", SMALL_BATCHES)
    directory = trained()
    assert main(["test", str(directory), "--eval_conf=small.yml"]) == 0
    found = only_test(directory)
    table = rows(found.statistics)
    assert [(row["episode"], row["samples"]) for row in table] == [
        ("1", "4"),
        ("2", "4"),
        ("3", "2"),
    ]
    mean = sum(float(row["Error"]) * int(row["samples"]) for row in table) / 10
    assert mean == pytest.approx(summary(found.root)["metrics"]["Error"])


def test_best_checkpoint_is_taken_unless_another_one_is_named(trained):
    directory = trained("--best_metric=Error", "--best_mode=max", "--checkpoint_every=3 iterations")
    taken = [
        jade.test(directory),
        jade.test(directory, checkpoint="last"),
        jade.test(directory, checkpoint=3),
        jade.test(directory / "checkpoints" / "last.pt"),
    ]
    assert [test.checkpoint for test in taken] == [
        "best.pt",
        "last.pt",
        "checkpoint_3.pt",
        "last.pt",
    ]
    assert [test.iteration for test in taken] == [0, 6, 3, 6]
    assert taken[1].metrics == taken[3].metrics != taken[0].metrics


def test_checkpoint_that_is_none_of_a_run_or_is_named_twice_is_refused(trained, tmp_path):
    directory = trained()
    last = directory / "checkpoints" / "last.pt"
    (tmp_path / "x.pt").write_bytes(last.read_bytes())
    with pytest.raises(ConfigError, match="is not in the checkpoints of a run"):
        jade.test(tmp_path / "x.pt")
    with pytest.raises(ConfigError, match="keep one of them"):
        jade.test(last, checkpoint="best")
    with pytest.raises(ConfigError, match="There is no checkpoint"):
        jade.test(directory / "checkpoints" / "none.pt")
    assert jade.test(directory, checkpoint=tmp_path / "x.pt").checkpoint == "x.pt"
    assert len(RunDir(directory).tests()) == 1


def test_repetitions_have_different_seeds_of_their_own_and_can_be_repeated(project, trained):
    project.write("modules/eval/drawing.py", DRAWING)
    directory = trained()
    first, again = (jade.test(directory, eval={"D": {"class": "Draw"}}, repeat=3) for _ in range(2))
    assert first.seeds == again.seeds
    assert first.statistics == again.statistics
    assert len({*first.seeds, 1}) == 4
    for name in ("D/drawn", "D/started_with"):
        assert first.statistics[name]["count"] == 3
        assert first.statistics[name]["min"] < first.statistics[name]["max"]
    other = jade.test(directory, eval={"D": {"class": "Draw"}}, seed=0)
    assert other.seeds == (0,)
    assert other.metrics["D/drawn"] != first.metrics["D/drawn"]
    drawn = [jade.test(directory, seed=-1).seeds[0] for _ in range(2)]
    assert drawn[0] != drawn[1]


def test_networks_are_in_eval_mode_without_gradients_and_pictures_are_kept(project, trained):
    project.write("modules/eval/drawing.py", DRAWING)
    test = jade.test(trained(), eval={"D": {"class": "Draw"}}, repeat=2, tag="look")
    assert test.metrics["D/training"] == test.metrics["D/grad"] == 0
    assert test.directory.name.endswith("_look")
    pictures = {str(p.relative_to(test.directory)) for p in test.directory.rglob("*.png")}
    assert pictures == {
        "evaluations/D/look/00000006.png",
        "evaluations/repetition_2/D/look/00000006.png",
    }


def test_each_repetition_begins_from_the_checkpoint(project, trained):
    project.write("modules/eval/drawing.py", DRAWING)
    found = jade.test(trained(), eval={"S": {"class": "Spoil"}}, repeat=3)
    assert found.statistics["S"]["std"] == 0


def test_aggregated_statistics_are_over_repetitions(project, trained):
    project.write("modules/eval/drawing.py", DRAWING)
    test = jade.test(trained(), eval={"D": {"class": "Draw"}}, repeat=3)
    table = {row["metric"]: row for row in rows(test.directory / "test_set_agg_statistics.csv")}
    values = [float(r["D/drawn"]) for r in rows(test.directory / "test_statistics.csv")]
    assert float(table["D/drawn"]["mean"]) == pytest.approx(sum(values) / 3)
    assert float(table["D/drawn"]["max"]) == max(values)
    assert table["D/drawn"]["count"] == "3"


def test_datasets_are_replaced_by_name_and_single_values_by_key(project, trained):
    project.write("other.yml", "test: {class: Points, params: {n: 7, seed: 5}}\n")
    directory = trained()
    assert main(["test", str(directory), "--data_conf=other.yml", "--tag=file"]) == 0
    assert main(["test", str(directory), "--data.test.n=7", "--data.test.seed=5"]) == 0
    by_file, by_key = [summary(test.root) for test in RunDir(directory).tests()]
    assert by_file["metrics"] == by_key["metrics"]
    assert by_file["metrics"]["Error"] != last_logged(directory, "Error")
    config = yaml.safe_load(RunDir(directory).tests()[0].config.read_text())
    assert config["data"]["test"]["params"] == {"n": 7, "seed": 5}
    assert config["data"]["train"]["class"] == "Points"


def test_limit_of_episodes_counts_batches(project, trained):
    project.write("small.yml", SMALL_BATCHES)
    test = jade.test(trained(), eval="small.yml", max_test_episodes=2)
    assert [row["episode"] for row in rows(test.directory / "test_statistics.csv")] == ["1", "2"]


def test_multi_tests_go_through_their_lists_together_and_leave_nothing_behind(project, trained):
    project.write(
        "tests.yml",
        """
        eval:
          Error: {params: {batch_size: 4}}
        multi_tests:
          data.test.params.n: [4, 12, 9]
          max_test_episodes: [1, 2, null]
        """,
    )
    directory = trained()
    assert main(["test", str(directory), "--config=tests.yml"]) == 0
    batches = [[row["samples"] for row in rows(t.statistics)] for t in RunDir(directory).tests()]
    assert batches == [["4"], ["4", "4"], ["4", "4", "1"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "multi_tests: {max_test_episodes: [1, 2], seed: [1]}",
            "must be as long: .* has 2, seed has 1",
        ),
        ("multi_tests: {max_test_episode: [1]}", "Did you mean 'max_test_episodes'"),
        ("multi_tests: {data.test.params.sed: [1]}", r"tests.yml:1.*no 'sed' in data.test.params"),
        ("multi_tests: {seed: 3}", "seed must have a list"),
        ("multi_tests: {seed: [1, -2]}", "seed must be a whole number from -1 on"),
        ("multi_tests: [1]", "takes lists by dotted keys"),
        ("epochs: 3", "'epochs' is a setting of training"),
        ("repeet: 3", "Did you mean 'repeat'"),
        ("repeat: 0", "repeat must be a whole number from 1 on"),
        ("tag: a/b", "cannot be a part of the name"),
        ("eval: {Eror: {params: {batch_size: 3}}}", "Eror"),
    ],
)
def test_file_for_tests_with_a_mistake_is_refused_before_anything_begins(
    project, trained, capsys, text, message
):
    project.write("tests.yml", text)
    directory = trained()
    capsys.readouterr()
    assert main(["test", str(directory), "--config=tests.yml"]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert RunDir(directory).tests() == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--repeat=x"], "repeat must be a whole number"),
        (["--epochs=3"], "'epochs' is a setting of training"),
        (["--data.test.params.sed=3"], "no 'sed' in data.test.params"),
        (["--checkpoint=99"], "has no checkpoint '99'"),
        (["--workers=2"], "are for folders"),
        (["--eval_conf=none.yml"], "none.yml"),
        (["--device=cuda:7"], "cuda:7"),
        (["--tag=a b"], "cannot be a part"),
    ],
)
def test_wrong_argument_is_refused_before_anything_begins(trained, capsys, given, message):
    directory = trained()
    capsys.readouterr()
    assert main(["test", str(directory), *given]) == 2
    assert message in capsys.readouterr().err
    assert RunDir(directory).tests() == []


def test_multi_tests_that_vary_what_is_also_given_are_refused(project, trained, capsys):
    project.write("tests.yml", "multi_tests: {seed: [1, 2]}")
    assert main(["test", str(trained()), "--config=tests.yml", "--seed=3"]) == 2
    assert "--seed is given, too" in capsys.readouterr().err


def test_run_without_evaluations_says_what_is_missing(project, arguments, capsys):
    assert main([a for a in arguments if not a.startswith("--eval")]) == 0
    (directory,) = (project.root / "experiments").glob("*")
    assert main(["test", str(directory)]) == 2
    assert "--eval_conf" in capsys.readouterr().err


def test_failure_of_an_evaluation_is_on_record(project, trained, capsys):
    project.write("modules/eval/drawing.py", DRAWING)
    project.write("bad.yml", SMALL_BATCHES + "Bad: {class: Fail}\n")
    directory = trained()
    assert main(["test", str(directory), "--eval_conf=bad.yml"]) == 1
    found = only_test(directory)
    assert summary(found.root)["status"] == "failed"
    assert "the measure is broken" in summary(found.root)["reason"]
    assert "Traceback" in found.log.read_text()
    # What was measured before is kept.
    assert len(rows(found.statistics)) == 3
    with pytest.raises(RuntimeError, match="the measure is broken"):
        jade.test(directory, eval="bad.yml")


def test_older_tests_are_never_touched(trained, monkeypatch):
    directory = trained()
    monkeypatch.setattr(time, "strftime", lambda *_: "20260101-000000")
    tests = [jade.test(directory).directory for _ in range(3)]
    assert [path.name for path in tests] == [
        "test_20260101-000000",
        "test_20260101-000000-2",
        "test_20260101-000000-3",
    ]
    assert RunDir(directory).create_test("x").root.name == "test_20260101-000000_x"


@pytest.fixture
def waiting(project, trained):
    """Start a test that waits in its second evaluation, in a process of its own."""
    project.write("modules/eval/drawing.py", DRAWING)
    project.write("wait.yml", SMALL_BATCHES + "Wait: {class: Wait}\n")
    directory = trained()
    process = subprocess.Popen(
        [sys.executable, "-m", "jade", "test", str(directory), "--eval_conf=wait.yml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout.readline().strip() == "waiting"
    yield process, directory
    process.kill()
    process.communicate()


def test_killed_test_leaves_no_half_file_and_no_summary(waiting):
    process, directory = waiting
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = only_test(directory)
    assert {p.name for p in found.root.iterdir()} <= {"config.yml", "test.log", "evaluations"}
    assert "not finished" in _shown(directory)


def test_interrupted_test_keeps_what_it_has_measured(waiting):
    process, directory = waiting
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    found = only_test(directory)
    assert summary(found.root)["status"] == "failed"
    assert summary(found.root)["reason"] == "interrupted"
    assert len(rows(found.statistics)) == 3


def _shown(directory):
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["show", str(directory)]) == 0
    return out.getvalue()


def test_show_lists_the_tests_of_a_run(trained):
    directory = trained()
    test = jade.test(directory, tag="final")
    (line,) = [line for line in _shown(directory).splitlines() if line.startswith("test ")]
    assert test.directory.name in line
    assert f"Error {test.metrics['Error']:.5g}" in line


def test_run_of_somebody_else_is_tested_with_its_own_code_only_if_that_is_trusted(
    project, trained, tmp_path, monkeypatch, capsys
):
    directory = trained()
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["test", str(directory)]) == 2
    assert "--trust_code" in capsys.readouterr().err
    assert main(["test", str(directory), "--trust_code"]) == 0
    assert summary(only_test(directory).root)["metrics"] == {
        "Error": last_logged(directory, "Error")
    }


def test_folder_has_each_run_with_a_checkpoint_tested(project, trained, capsys, tmp_path):
    project.write("modules/eval/drawing.py", DRAWING)
    # Paths with blanks must do.
    root = "--experiments_root=all my runs"
    for seed in (1, 2):
        assert main(["train", *COMMON, root, f"--seed={seed}", "--best_metric=Error"]) == 0
    folder = project.root / "all my runs"
    one, two = sorted(folder.iterdir())
    empty = RunDir.create(folder)
    empty.write_status("failed")
    capsys.readouterr()
    results = tmp_path / "results.json"
    assert main(["test", str(folder), "--workers=2", "--repeat=2", f"--json={results}"]) == 0
    out = capsys.readouterr().out
    assert f"not tested: {empty.run_id}" in out
    assert "2 of 2 runs are tested" in out
    written = json.loads(results.read_text())
    assert [item["checkpoint"] for item in written] == ["best.pt", "best.pt"]
    assert written[0]["metrics"] != written[1]["metrics"]
    assert len(written[0]["seed"]) == 2
    # What is wrong with one run is no matter of the others.
    (two / "checkpoints" / "best.pt").write_bytes(b"damaged")
    assert main(["test", str(folder), "--workers=2"]) == 1
    out = capsys.readouterr().out
    assert f"failed: {two}" in out
    assert len(RunDir(one).tests()) == 2
    assert len(RunDir(two).tests()) == 1
    # Nothing is tested on another device than the one that is asked for.
    assert main(["test", str(folder), "--devices=cuda:7"]) == 2
    assert "cuda:7 is not here" in capsys.readouterr().err
    # What is asked of all can be done for none.
    assert main(["test", str(folder), "--data.test.params.sed=3"]) == 2


COMMON = [
    "--model_conf=model.yml",
    "--data_conf=data.yml",
    "--eval_conf=eval.yml",
    "--arch_impl=modules/architectures/small.py",
    "--epochs=1",
    "--wandb=disabled",
]


def test_folder_without_anything_to_test_is_refused(tmp_path, capsys):
    assert main(["test", str(tmp_path)]) == 2
    assert "there is no run" in capsys.readouterr().err
    RunDir.create(tmp_path).write_status("failed")
    assert main(["test", str(tmp_path)]) == 2
    assert "none of the 1 runs has a checkpoint" in capsys.readouterr().err


def test_deterministic_run_is_tested_with_deterministic_algorithms(project, trained):
    project.write(
        "modules/eval/deterministic.py",
        """
        import torch
        from jade.eval import Evaluation


        class IsDeterministic(Evaluation):
            def evaluate(self):
                return float(torch.are_deterministic_algorithms_enabled())
        """,
    )
    wanted = {"D": {"class": "IsDeterministic"}}
    assert jade.test(trained("--deterministic=true"), eval=wanted).metrics == {"D": 1}
    assert jade.test(trained(), eval=wanted).metrics == {"D": 0}


PROBE = """
    import torch
    from torch import nn

    from jade.eval import Evaluation


    class Probe(Evaluation):
        def initialize(self, width: int = 1):
            self.probe = nn.Linear(2, width)
            self.opt = torch.optim.SGD(self.probe.parameters(), lr=0.1)
            self.generator = torch.Generator().manual_seed(torch.randint(1000, ()).item())

        def evaluate(self):
            drawn = torch.rand((), generator=self.generator).item()
            with torch.enable_grad():
                self.opt.zero_grad()
                self.probe(torch.ones(1, 2)).square().mean().backward()
                self.opt.step()
            return {"weight": self.probe.weight[0, 0].item(), "drawn": drawn}
"""


def test_evaluation_has_what_it_had_learned_in_training_but_draws_by_the_test(project, trained):
    project.write("modules/eval/probe.py", PROBE)
    project.write("eval.yml", "P: {class: Probe}\n")
    test = jade.test(trained(), repeat=2)
    # Whatever it starts from by chance, it goes on from the weights of the checkpoint.
    assert test.statistics["P/weight"]["std"] == 0
    assert test.statistics["P/drawn"]["std"] > 0


def test_evaluation_that_is_another_one_starts_anew(project, trained):
    project.write("modules/eval/probe.py", PROBE)
    project.write("eval.yml", "P: {class: Probe}\n")
    test = jade.test(trained(), repeat=2, overrides={"eval.P.width": 3})
    assert test.statistics["P/weight"]["std"] > 0


def test_dataset_that_is_described_anew_has_nothing_of_the_former_one(project, trained):
    project.write("other.yml", "test: {class: Points, params: {n: 7}}\n")
    directory = trained("--data.test.params.seed=3")
    test = jade.test(directory, data="other.yml")
    config = yaml.safe_load((test.directory / "config.yml").read_text())
    assert config["data"]["test"]["params"] == {"n": 7, "seed": 0}
    assert jade.test(directory, data={"test": {"class": "Points"}}).metrics != test.metrics


def test_argument_wins_over_the_file_and_lists_over_its_single_values(project, trained):
    project.write("one.yml", "seed: 1\nrepeat: 2\n")
    project.write("many.yml", "seed: 1\nmulti_tests: {seed: [3, 4]}\n")
    directory = trained()
    assert jade.test(directory, config="one.yml").seeds[0] == 1
    assert jade.test(directory, config="one.yml", seed=2, repeat=1).seeds == (2,)
    assert main(["test", str(directory), "--config=many.yml", "--tag=many"]) == 0
    found = [summary(t.root)["seed"] for t in RunDir(directory).tests() if "many" in t.root.name]
    assert sorted(found) == [[3], [4]]
