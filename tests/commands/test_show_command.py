import re
import time
from pathlib import Path

import pytest
from run_files import write_run
from terminal import show_on_terminal

from jade.cli import main
from jade.loggers.base import RunInfo
from jade.loggers.csv_logger import CsvLogger

BRAILLE = re.compile("[\u2801-\u28ff]")


@pytest.fixture
def trained(project, arguments, capsys):
    """A run that was really trained, with the best error on record."""
    assert main([*arguments, "--best_metric=Error", "--checkpoint_every=1"]) == 0
    capsys.readouterr()
    (directory,) = Path("experiments").iterdir()
    return directory


@pytest.fixture
def show(capsys):
    def show(*arguments):
        code = main(["show", *map(str, arguments)])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return captured.out

    return show


def log_metrics(run, rows):
    logger = CsvLogger()
    logger.start(RunInfo(run_id="x", directory=run.root, config={}))
    for step, metrics in enumerate(rows):
        logger.log(metrics, step * 10)
    logger.finish(0)


def test_show_says_what_a_run_is_and_how_it_went(trained, show):
    lines = show(trained).splitlines()

    assert lines[0] == f"{trained.name}  finished: 2 epochs done"
    facts = {line[:13].strip(): line[13:] for line in lines}
    assert facts["model"] == "LineTrainer (modules/architectures/small.py)"
    assert facts["data"] == "train (Points), test (Points)"
    assert facts["evaluations"] == "Error (SquaredError)"
    assert facts["seed"] == "1"
    assert re.search(r"100%  epoch 2(/2)?  iteration 6$", facts["progress"])
    assert facts["log"] == f"{trained}/run.log"
    assert "go on" not in facts


def test_show_lists_checkpoints_with_iteration_and_size(trained, show):
    lines = [line for line in show(trained).splitlines() if line.startswith("checkpoint")]

    assert [line.split()[1] for line in lines] == ["best", "last", "periodic", "periodic"]
    assert "iteration 6 " in lines[2]
    assert all(re.search(r" \d[\d.]* kB  (just now|\d+ s ago)$", line) for line in lines)


def test_show_says_of_a_checkpoint_without_its_end_that_it_is_damaged(trained, show):
    path = trained / "checkpoints/best.pt"
    path.write_bytes(path.read_bytes()[:-1])
    [line] = [line for line in show(trained).splitlines() if line.startswith("checkpoint   best")]
    assert "damaged" in line


def test_show_draws_each_metric_once(trained, show):
    text = show(trained)

    assert text.count("\nError") == 2  # in the table, and above its chart
    assert BRAILLE.search(text)


def test_show_marks_lowest_and_highest_and_best(tmp_path, show):
    # The status of a run is a little behind its metrics.
    best = {"metric": "Error", "value": 3.0, "iteration": 20, "mode": "min"}
    run = write_run(tmp_path, "x", best=best)
    log_metrics(run, [{"Error": value} for value in (float("nan"), 1.0, 3.0, 2.5)])

    (row,) = (line for line in show(run.root).splitlines() if "best" in line)

    assert row.split() == ["Error", "2.5", "1", "10", "3", "20", "best", "1", "at", "10"]


def test_show_draws_a_metric_under_two_names_once(tmp_path, show):
    run = write_run(tmp_path, "x")
    log_metrics(run, [{"E": i, "E/mean": i, "E/max": 2 * i} for i in range(5)])

    titles = [
        line for line in show(run.root, "--width", 40).splitlines() if re.fullmatch(r"E\S*", line)
    ]

    assert titles == ["E", "E/max"]


def test_show_of_many_metrics_draws_some_and_says_how_many_are_left(tmp_path, show):
    run = write_run(tmp_path, "x")
    log_metrics(run, [{f"m{i:02d}": i * step for i in range(20)} for step in range(3)])

    assert "12 more: --metric NAME draws one of them" in show(run.root)


def test_show_of_one_metric_draws_it_alone(tmp_path, show):
    run = write_run(tmp_path, "x")
    log_metrics(run, [{"a": step, "b": -step} for step in range(5)])

    text = show(run.root, "--metric", "b", "--width", 60)

    assert "\nb\n" in text
    assert not re.search("^a", text, re.MULTILINE)
    assert max(len(line) for line in text.splitlines() if BRAILLE.search(line)) == 60


def test_show_of_an_unknown_metric_is_refused(tmp_path, capsys):
    run = write_run(tmp_path, "x")
    assert main(["show", str(run.root), "--metric=loss"]) == 2
    assert "has not logged 'loss'. It has not logged anything yet." in capsys.readouterr().err

    log_metrics(run, [{"Rec Loss": 1}])
    assert main(["show", str(run.root), "--metric=rec loss"]) == 2
    assert "Did you mean 'Rec Loss'?" in capsys.readouterr().err


def test_show_reads_metrics_that_are_being_written(tmp_path, show):
    run = write_run(tmp_path, "x", "running")
    log_metrics(run, [{"loss": 3.0}, {"loss": 2.0}])
    with run.metrics.open("a") as file:
        file.write("20,1.")

    (row,) = (line for line in show(run.root).splitlines() if line.startswith("loss  "))

    assert row.split()[1] == "2"


def test_show_of_a_failed_run_ends_with_the_error_and_how_to_go_on(project, arguments, show):
    project.write(
        "modules/eval/errors.py",
        "from jade.eval import Evaluation\n\n\nclass SquaredError(Evaluation):\n"
        "    def initialize(self, evaluate_on):\n        pass\n\n"
        "    def evaluate(self):\n        if self.trainer.epochs == 1:\n"
        "            raise RuntimeError('my own mistake')\n        return 1.0\n",
    )
    assert main(arguments) == 1

    text = show("last")

    assert "raise RuntimeError('my own mistake')\nRuntimeError: my own mistake\n" in text
    (directory,) = Path("experiments").iterdir()
    assert text.endswith(f"go on        jade resume {directory}\n")


@pytest.mark.parametrize(
    ("status", "is_offered"),
    [("preempted", True), ("interrupted", True), ("running", True), ("finished", False)],
)
def test_show_offers_to_resume_what_can_go_on(tmp_path, show, status, is_offered):
    # Nobody runs the one that says it is running: it has crashed.
    run = write_run(tmp_path / "a b", "x", status, updated=0)
    assert "jade resume" not in show(run.root)

    run.last_checkpoint.touch()
    assert (f"jade resume '{run.root}'" in show(run.root)) is is_offered


def test_show_tells_how_far_a_run_is_that_goes_on(tmp_path, show):
    run = write_run(
        tmp_path,
        "x",
        "running",
        fraction=0.25,
        epochs=5,
        total_epochs=20,
        iterations=12345,
        attempts=3,
        host="node07",
        name="try",
        started=time.time() - 3700,
    )

    text = show(run.root)

    assert text.startswith("x (try)  running\n")
    assert "━━━━━───────────────  25%  epoch 5/20  iteration 12,345\n" in text
    assert re.search(r"started 1 h ago, running for 1:01:4\d on node07, attempt 3\n", text)


def test_show_lists_the_newest_pictures(tmp_path, show):
    run = write_run(tmp_path, "x")
    for iteration in (0, 500):
        path = run.evaluation("Samples", iteration).with_suffix(".png")
        path.parent.mkdir(exist_ok=True)
        path.touch()

    pictures = [line for line in show(run.root).splitlines() if line.startswith("picture")]

    assert [Path(line.split()[1]).name for line in pictures] == ["00000500.png"]


def test_show_survives_files_that_cannot_be_read(tmp_path, show):
    run = write_run(tmp_path, "x", "failed")
    run.config.write_text("{")
    run.provenance.write_text("[]")
    run.metrics.write_bytes(b"\xff\n")

    assert show(run.root).startswith("x  failed\n")


def test_show_on_a_terminal_fits_its_width(trained):
    lines = show_on_terminal(["show", "last"], columns=100)

    assert any("\x1b[32mfinished" in line for line in lines.coloured)
    assert max(len(line) for line in lines.plain if BRAILLE.search(line)) <= 100


def test_show_on_a_terminal_without_unicode_is_ascii(tmp_path):
    run = write_run(tmp_path, "x", name="Zürich", fraction=0.5)
    log_metrics(run, [{"loss": step} for step in range(5)])

    text = "\n".join(show_on_terminal(["show", str(run.root)], 80, PYTHONIOENCODING="ascii").plain)

    assert text.isascii()
    assert "x (Z?rich)" in text
    assert "+-------" in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "The following arguments are required: RUN."),
        (["nothing"], "There is no run 'nothing'"),
        (["x", "--width=3"], "'3' is not a number of 40 or more"),
        (["x", "--metrics=a"], "There is no flag --metrics. Did you mean --metric?"),
    ],
)
def test_show_refuses_what_makes_no_sense(tmp_path, monkeypatch, capsys, arguments, text):
    monkeypatch.chdir(tmp_path)

    assert main(["show", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_show_help_explains_what_a_run_can_be_called(capsys):
    assert main(["show", "--help"]) == 0
    assert "the beginning of an id" in capsys.readouterr().out
