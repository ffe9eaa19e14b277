"""What a run has logged, as a table."""

import sys
import types

import pytest

from jade.errors import ComponentError, ConfigError
from jade.metrics_table import MetricsTable


@pytest.fixture
def table(tmp_path):
    (tmp_path / "metrics.csv").write_text("iteration,loss,A<b\n0,,0.5\n10,nan,\n20,1e-07,0.25\n3")
    return MetricsTable.load(tmp_path / "metrics.csv")


def test_table_leaves_out_the_row_that_is_just_being_written(table):
    assert table["iteration"] == [0, 10, 20]


def test_table_holds_none_where_nothing_was_logged(table):
    assert table["A<b"] == [0.5, None, 0.25]
    assert table.rows[0] == {"iteration": 0, "loss": None, "A<b": 0.5}
    assert [row["iteration"] for row in table] == [0, 10, 20]


def test_table_last_values_skip_what_was_not_logged(table):
    assert table.last == {"iteration": 20, "loss": 1e-07, "A<b": 0.25}


def test_table_column_that_is_unknown_is_suggested(table):
    assert "loss" in table
    with pytest.raises(ConfigError, match=r"No metric 'lss' was logged\. Did you mean 'loss'\?"):
        table["lss"]


def test_table_is_readable_as_text_and_in_a_notebook(table):
    assert repr(table).splitlines() == [
        "iteration   loss   A<b",
        "        0          0.5",
        "       10    nan      ",
        "       20  1e-07  0.25",
        "[3 rows]",
    ]
    assert "<th>A&lt;b</th>" in table._repr_html_()
    assert table._repr_html_().count("<tr>") == 4


def test_table_that_is_long_shows_its_end():
    long = MetricsTable(["iteration"], [{"iteration": i} for i in range(100)])
    assert repr(long).splitlines()[1].strip() == "90"
    assert repr(long).endswith("[100 rows, the last 10 shown]")


def test_table_without_a_file_is_empty(tmp_path):
    empty = MetricsTable.load(tmp_path / "none.csv")
    assert (len(empty), empty.columns, empty.last) == (0, ["iteration"], {})
    (tmp_path / "cut.csv").write_text("iterat")
    assert len(MetricsTable.load(tmp_path / "cut.csv")) == 0


def test_table_becomes_a_frame_where_pandas_is_installed(table, monkeypatch):
    # pandas is none of our dependencies: what counts is what it is asked for.
    fake = types.ModuleType("pandas")
    fake.DataFrame = lambda rows, columns: (rows, columns)
    monkeypatch.setitem(sys.modules, "pandas", fake)
    assert table.to_pandas() == (table.rows, table.columns)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ComponentError, match=r"pip install pandas"):
        table.to_pandas()


def test_table_leaves_out_rows_that_make_no_sense(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"iteration,loss\n1\n2,x\n3,\xff\n4,5\n")

    assert list(MetricsTable.load(path)) == [{"iteration": 4, "loss": 5}]


def test_table_cut_anywhere_keeps_the_whole_rows(tmp_path):
    header, rows = "iteration,loss\n", "0,1.5\n10,nan\n"
    path = tmp_path / "metrics.csv"
    for end in range(len(rows)):
        path.write_text(header + rows[:end])
        assert len(MetricsTable.load(path)) == rows[:end].count("\n")


def test_table_keeps_names_with_commas_and_line_breaks(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text('iteration,"a,\nb"\n1,2\n')

    assert list(MetricsTable.load(path)) == [{"iteration": 1, "a,\nb": 2}]
