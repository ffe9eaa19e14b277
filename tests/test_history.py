from jade.history import load_history

TABLE = "iteration,loss,a/b\n0,1.5,\n10,nan,2\n"


def test_history_has_a_row_per_step_without_what_was_not_logged(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text(TABLE)

    first, second = load_history(path)

    assert first == {"iteration": 0, "loss": 1.5}
    assert second["loss"] != second["loss"]
    assert second["a/b"] == 2


def test_history_leaves_out_a_row_that_is_being_written(tmp_path):
    path = tmp_path / "metrics.csv"
    for end in range(len(TABLE)):
        path.write_text(TABLE[:end])
        # Every cut is before the last line break, so the second row is never whole.
        assert len(load_history(path)) == TABLE[:end].count("\n", len("iteration,loss,a/b\n"))


def test_history_leaves_out_rows_that_make_no_sense(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"iteration,loss\n1\n2,x\n3,\xff\n4,5\n")

    assert load_history(path) == [{"iteration": 4, "loss": 5}]


def test_history_without_a_file_is_empty(tmp_path):
    assert load_history(tmp_path / "metrics.csv") == []


def test_history_keeps_names_with_commas_and_line_breaks(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text('iteration,"a,\nb"\n1,2\n')

    assert load_history(path) == [{"iteration": 1, "a,\nb": 2}]
