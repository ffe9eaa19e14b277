import json

import pytest
from analyzed_runs import write_measured_run, write_test

from jade.analysis.configurations import group, rank, summarize
from jade.analysis.labels import render_mean, shorten_keys
from jade.analysis.measure import guess_mode
from jade.analysis.sources import collect
from jade.analysis.spread import Spread
from jade.analysis.table import Table
from jade.errors import ConfigError


def load(*sources, **options):
    return Table(collect([str(source) for source in sources], {}), **options)


def rows(table, **options):
    return {(row["run"], row.get("test")): row for row in table.rows(**options)}


@pytest.fixture
def root(tmp_path):
    """Three configurations of which the first two are repeated, and a run that failed."""
    root = tmp_path / "experiments"
    for number, (lr, seed, loss) in enumerate(
        [(0.1, 0, 1.0), (0.1, 1, 1.2), (0.01, 0, 3.0), (0.01, 1, 3.1), (0.5, 0, 2.0)]
    ):
        metrics = {"Loss": [9.0, loss, loss + 0.5], "Acc": [0.1, 0.2, 0.3]}
        values = {"lr": lr, "seed": seed}
        write_measured_run(root, f"r{number}", values, metrics, started=1000.0 + number)
    write_measured_run(root, "bad", {"lr": 0.5, "seed": 1}, {"Loss": [8.0]}, "failed", started=2e3)
    return root


def test_row_says_all_of_a_run(root):
    run = load(root / "r1").runs[0]
    table = load(root)

    row = rows(table)["r1", None]

    assert table.parameters == ["model.params.lr"]
    expected = {
        "run": "r1",
        "status": "finished",
        "seed": 1,
        "model.params.lr": 0.1,
        "last/Loss": 1.7,
        "best/Loss": 1.2,
        "best_iteration/Loss": 2,
        "best/Acc": 0.3,
        "best_iteration/Acc": 3,
        "config": str(root / "r1" / "config.yml"),
        "checkpoint": str(root / "r1" / "checkpoints" / "last.pt"),
    }
    assert {key: row[key] for key in expected} == expected
    assert set(row) <= set(table.columns)
    assert run.host == row["run/host"]


def test_columns_are_the_same_whatever_order_runs_have(root, tmp_path):
    columns = load(root).columns
    assert columns == load(*sorted(root.iterdir(), reverse=True)).columns
    assert len(columns) == len(set(columns))


def test_failed_run_is_listed_with_its_status_but_not_counted(root):
    table = load(root)
    (configuration,) = [c for c in group(table) if c.values["model.params.lr"] == 0.5]

    assert rows(table)["bad", None]["status"] == "failed"
    assert [run.id for run in configuration.runs] == ["r4", "bad"]
    assert configuration.spread(table.measures.find("Loss")).count == 1


def test_keys_that_only_say_where_results_go_are_no_parameters(root):
    # Each run of the fixture has a name of its own.
    assert not {"run_name", "experiments_root"} & set(load(root).parameters)


def test_keys_that_a_sweep_names_are_columns_even_if_they_do_not_differ(tmp_path):
    write_measured_run(tmp_path / "s" / "runs", "a", {"lr": 0.1, "z_dim": 4}, {"Loss": [1.0]})
    (tmp_path / "s" / "sweep.yml").write_text(
        "method: grid\nmetric: {name: Loss, goal: maximize}\n"
        "parameters: {model.z_dim: {values: [4]}, model.params.lr: {value: 1}}\n"
    )

    table = load(tmp_path / "s")

    assert table.parameters == ["model.params.z_dim"]
    assert table.measures.choose()[0].label == "Loss"
    assert table.measures.choose()[0].mode == "max"
    assert rows(table)["a", None]["sweep"] == "s"


def test_nested_keys_of_a_sweep_are_columns(tmp_path):
    write_measured_run(tmp_path / "runs", "a", {"lr": 0.1})
    text = "parameters: {model: {parameters: {params: {parameters: {lr: {min: 0, max: 1}}}}}}\n"
    (tmp_path / "sweep.yml").write_text(text)

    assert load(tmp_path).parameters == ["model.params.lr"]


@pytest.mark.parametrize("content", [b"a: [", b"\xff", b"- 1\n", b"metric: 1\nparameters: [2]\n"])
def test_damaged_sweep_file_hides_no_run(tmp_path, content):
    write_measured_run(tmp_path / "runs", "a", {"lr": 0.1}, {"Loss": [1.0]})
    (tmp_path / "sweep.yml").write_bytes(content)

    assert [run.id for run in load(tmp_path).runs] == ["a"]


def test_metric_that_runs_keep_their_best_state_by_is_the_default(tmp_path):
    run = write_measured_run(tmp_path, "a", {}, {"Acc": [0.5, 0.2], "Loss": [1.0, 2.0]})
    run.config.write_text(run.config.read_text() + "best_metric: Loss\nbest_mode: max\n")
    table = load(tmp_path)

    measure, reason = table.measures.choose()

    assert (measure.label, measure.mode) == ("best/Loss", "max")
    assert reason == "best_metric of the runs"


def test_tests_are_the_default_if_nothing_else_is_named(tmp_path):
    run = write_measured_run(tmp_path, "a", {}, {"Acc": [0.5]})
    write_test(run, "20260101-000000", {"F1": 0.5})

    assert load(tmp_path).measures.choose()[0].label == "test/F1"


def test_parameter_that_some_runs_lack_is_a_column(tmp_path):
    write_measured_run(tmp_path, "a", {"lr": 1})
    write_measured_run(tmp_path, "b", {"lr": 1, "beta": 2})

    table = load(tmp_path)

    assert table.parameters == ["model.params.beta"]
    assert [row["model.params.beta"] for row in table.rows()] == [None, 2]


def test_each_test_of_a_run_is_a_row(root):
    run = load(root / "r0").runs[0].directory
    write_test(run, "20260101-000000", {"Acc": 0.5})
    write_test(run, "20260101-000001_again", {"Acc": 0.7}, seed=[8])
    table = load(root)

    found = rows(table)

    one = found["r0", "test_20260101-000000"]
    other = found["r0", "test_20260101-000001_again"]
    assert (one["test/Acc"], other["test/Acc"], other["test_seed"]) == (0.5, 0.7, [8])
    assert other["last/Loss"] == one["last/Loss"] == 1.5
    blank = rows(table, blank=True)["r0", "test_20260101-000001_again"]
    assert blank.get("last/Loss") is None
    assert (blank["run"], blank["test/Acc"]) == ("r0", 0.7)
    assert len(found) == 7


def test_result_of_tests_is_that_of_the_newest_finished_one_with_a_tag_or_without(root):
    run = load(root / "r0").runs[0].directory
    write_test(run, "20260102-000000", {"Acc": 0.4})
    write_test(run, "20260102-000000-9", {"Acc": 0.5})
    write_test(run, "20260102-000000-10", {"Acc": 0.6})
    write_test(run, "20260103-000000", {"Acc": 0.1}, status="failed")
    write_test(run, "20260104-000000_other_data", {"Acc": 0.9, "New": 1.0})
    table = load(root)

    def result(name):
        return table.measures.find(name).of(table.runs[0])

    assert (result("test/Acc"), result("test_other_data/Acc")) == (0.6, 0.9)
    assert result("test_other_data/New") == 1.0
    with pytest.raises(ConfigError, match="test/New"):
        table.measures.find("test/New")


def test_means_are_over_runs_that_differ_only_in_seed(root):
    table = load(root)

    found = summarize(table, [table.measures.find("best/Loss")])

    assert [row["model.params.lr"] for row in found] == [0.1, 0.5, 0.01]
    first = found[0]
    assert (first["count"], first["mean"], first["min"], first["max"]) == (2, 1.1, 1.0, 1.2)
    assert first["interval_95"] == pytest.approx(12.706204736 * 0.1)
    assert first["runs"] == "r0 r1"
    # So wide an interval, of two runs, contains the others.
    assert [row["tied_with_best"] for row in found] == [True, True, False]


def test_best_configuration_that_overlaps_no_other_is_no_tie(tmp_path):
    for lr, losses in (
        (0.1, (1.0, 1.01, 1.02)),
        (0.2, (2.0, 2.01, 2.02)),
        (0.3, (2.0, 2.01, 2.02)),
    ):
        for seed, loss in enumerate(losses):
            values = {"lr": lr, "seed": seed}
            write_measured_run(tmp_path, f"r{lr}-{seed}", values, {"Loss": [loss]})
    table = load(tmp_path)

    found = rank(group(table), table.measures.find("Loss"))

    assert [(item.place, item.is_tied) for item in found] == [(1, False), (2, False), (2, False)]


@pytest.mark.parametrize(
    ("damage", "status", "notes"),
    [
        (lambda run: run.status_file.unlink(), "unknown", ["status.json is missing"]),
        (lambda run: run.status_file.write_text("{"), "unknown", ["status.json cannot be read"]),
        (lambda run: run.config.unlink(), "finished", ["config.yml is missing"]),
        (
            lambda run: run.config.write_bytes(b"a: [\xff"),
            "finished",
            ["config.yml cannot be read"],
        ),
        (lambda run: run.metrics.unlink(), "finished", ["metrics.csv is missing"]),
        (
            lambda run: run.metrics.write_text("iteration,Loss\n1,2.0\n2,x\n"),
            "finished",
            ["metrics.csv: 1 row cannot be read"],
        ),
        (lambda run: run.last_checkpoint.unlink(), "finished", ["it has no checkpoint"]),
        (lambda run: run.summary.write_text("[1"), "finished", ["summary.json cannot be read"]),
        (
            lambda run: (run.root / "test_1").mkdir(),
            "finished",
            ["test_1/summary.json is missing"],
        ),
    ],
)
def test_damaged_run_is_a_row_with_a_note(root, damage, status, notes):
    table = load(root)
    damage(table.runs[0].directory)

    table = load(root)

    (run,) = [run for run in table.runs if run.id == "r0"]
    assert (run.status, list(run.notes)) == (status, notes)
    assert len(table.runs) == 6
    assert rows(table)
    assert summarize(table, [table.measures.find("Loss")])


def test_half_deleted_runs_of_a_sweep_are_rows(tmp_path):
    runs = tmp_path / "s" / "runs"
    write_measured_run(runs, "whole", {"lr": 0.1}, {"Loss": [1.0]})
    (runs / "empty").mkdir()
    (runs / "half" / "checkpoints").mkdir(parents=True)
    (tmp_path / "s" / "sweep.yml").write_text("method: grid\nparameters: {}\n")

    found = {run.id: run for run in load(tmp_path / "s").runs}

    assert set(found) == {"whole", "empty", "half"}
    assert found["empty"].status == found["half"].status == "unknown"
    assert "config.yml is missing" in found["half"].notes


def test_metrics_without_their_table_are_what_the_status_says(tmp_path):
    run = write_measured_run(tmp_path, "a", latest={"Loss": 2.0}, iterations=5)
    run.summary.write_text(json.dumps({"min/Loss": 1.5, "run/seconds": 12.0}))

    row = next(load(tmp_path).rows())

    assert (row["last/Loss"], row["best/Loss"], row["run/seconds"]) == (2.0, 1.5, 12.0)
    assert row["best_iteration/Loss"] is None


def test_run_that_two_sources_have_counts_once(root):
    assert len(load(root, root / "r0", root).runs) == 6


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Los", "None of the 6 runs has logged 'Los'. Did you mean 'Loss'? Known: Acc, Loss."),
        ("test/Acc", "None of the 6 runs has logged 'test/Acc'."),
        ("best/Los", "None of the 6 runs has logged 'best/Los'."),
    ],
)
def test_unknown_metric_is_refused_with_a_suggestion(root, name, text):
    with pytest.raises(ConfigError) as raised:
        load(root).measures.find(name)
    assert text in str(raised.value)


def test_logged_name_that_looks_like_a_kind_is_that_metric(tmp_path):
    write_measured_run(tmp_path, "a", metrics={"best/x": [1.0, 3.0], "x": [5.0, 6.0]})
    assert load(tmp_path).measures.find("best/x").of(load(tmp_path).runs[0]) == 3.0


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("ValidAccuracy", "max"),
        ("val_acc", "max"),
        ("Test AUC", "max"),
        ("F1", "max"),
        ("Loss", "min"),
        ("AccuracyLoss", "min"),
        ("Replacement", "min"),
        ("TestReconstructionsError", "min"),
        ("negative log likelihood", "min"),
    ],
)
def test_mode_is_guessed_from_words(name, mode):
    assert guess_mode(name) == mode


def test_given_mode_beats_the_name(root):
    measures = load(root, mode="max").measures

    assert measures.find("Loss").mode == "max"
    assert measures.mode_of("Acc")[0] == "max"
    assert load(root).measures.find("Loss").mode == "min"


def test_keys_get_the_shortest_names_that_tell_them_apart():
    keys = ["model.params.lr", "data.train.params.n", "data.test.params.n", "seed", "a.lr.x"]
    assert shorten_keys(keys) == {
        "model.params.lr": "lr",
        "data.train.params.n": "train.n",
        "data.test.params.n": "test.n",
        "seed": "seed",
        "a.lr.x": "x",
    }


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.912, 0.918], ("0.915", "0.038")),
        ([912.0, 1018.0], ("965", "673")),
        ([17.0, 20.0], ("18.5", "19.1")),
        ([0.5], ("0.5", "")),
        ([0.5, 0.5], ("0.5", "0")),
        ([1e-12, 2e-12], ("1.5e-12", "6.4e-12")),
    ],
)
def test_mean_is_as_exact_as_its_interval(values, text):
    assert render_mean(Spread.of(values)) == text
