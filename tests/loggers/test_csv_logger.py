"""The CSV file is read back with the csv module, after crashes and full disks too."""

import contextlib
import csv
import math
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from contract import LoggerContract, read_csv, run_in

from jade.errors import ConfigError
from jade.loggers.csv_logger import CsvLogger


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def started(directory, path=None):
    logger = CsvLogger(path)
    logger.start(run_in(directory))
    return logger


@contextlib.contextmanager
def largest_file(num_bytes):
    """Let every write beyond ``num_bytes`` of a file fail, partly written, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestCsvLoggerContract(LoggerContract):
    def make(self):
        return CsvLogger()

    def read(self, directory):
        return read_csv(directory)


def test_csv_row_is_in_the_file_when_log_returns(tmp_path):
    logger = started(tmp_path)
    logger.log({"b": 0.5, "a": 1}, step=10)
    assert (tmp_path / "metrics.csv").read_bytes() == b"iteration,b,a\n10,0.5,1\n"
    logger.log({"a": 2}, step=20)
    assert (tmp_path / "metrics.csv").read_bytes() == b"iteration,b,a\n10,0.5,1\n20,,2\n"
    logger.finish(0)


def test_csv_late_metric_gets_a_column_and_earlier_rows_an_empty_cell(tmp_path):
    logger = started(tmp_path)
    logger.log({"loss": 3}, step=1)
    logger.log({"loss": 2}, step=2)
    logger.log({"val, x": 7}, step=2)
    logger.log({"loss": 1, "z": 5, "y": 4}, step=3)
    logger.finish(0)
    assert rows_of(tmp_path / "metrics.csv") == [
        ["iteration", "loss", "val, x", "z", "y"],
        ["1", "3", "", "", ""],
        ["2", "2", "7", "", ""],
        ["3", "1", "", "5", "4"],
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]


def test_csv_numbers_keep_their_type_and_every_digit(tmp_path):
    logger = started(tmp_path)
    values = {
        "third": 1 / 3,
        "tiny": 5e-324,
        "int": 10**20,
        "bool": True,
        "numpy": np.float64(0.1),
        "float32": np.float32(0.1),
        "tensor": torch.tensor(7),
        "nan": math.nan,
    }
    logger.log(values, step=1)
    logger.finish(0)
    header, row = rows_of(tmp_path / "metrics.csv")
    cells = dict(zip(header, row, strict=True))
    assert float(cells["third"]) == 1 / 3
    assert float(cells["tiny"]) == 5e-324
    assert cells["int"] == "100000000000000000000"
    assert cells["bool"] == "1"
    assert cells["numpy"] == "0.1"
    assert float(cells["float32"]) == np.float32(0.1)
    assert cells["tensor"] == "7"
    assert cells["nan"] == "nan"


def test_csv_same_step_again_replaces_longer_by_shorter_values(tmp_path):
    logger = started(tmp_path)
    logger.log({"loss": 0.123456789}, step=1)
    logger.log({"loss": 1}, step=1)
    assert (tmp_path / "metrics.csv").read_bytes() == b"iteration,loss\n1,1\n"
    logger.finish(0)


def test_csv_metric_named_iteration_does_not_replace_the_step(tmp_path):
    logger = started(tmp_path)
    logger.log({"iteration": 99, "loss": 1}, step=1)
    logger.finish(0)
    assert rows_of(tmp_path / "metrics.csv") == [["iteration", "loss"], ["1", "1"]]


def test_csv_text_as_metric_is_refused(tmp_path):
    logger = started(tmp_path)
    with pytest.raises(ValueError, match="could not convert"):
        logger.log({"loss": "high, very"}, step=1)
    logger.log({"loss": 1}, step=1)
    logger.finish(0)
    assert rows_of(tmp_path / "metrics.csv") == [["iteration", "loss"], ["1", "1"]]


def test_csv_own_path_is_used_and_its_folder_made(tmp_path):
    logger = started(tmp_path, tmp_path / "deep" / "m.csv")
    logger.log({"a": 1}, step=1)
    logger.finish(0)
    assert (tmp_path / "deep" / "m.csv").is_file()
    assert not (tmp_path / "metrics.csv").exists()


def test_csv_log_outside_of_start_and_finish_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="before start or after finish"):
        CsvLogger().log({"a": 1}, step=1)


def test_csv_restart_appends_and_joins_the_last_step(tmp_path):
    first = started(tmp_path)
    first.log({"a": 1, "b": 2}, step=1)
    first.log({"a": 3}, step=2)
    first.finish(0)

    second = started(tmp_path)
    second.log({"b": 4, "new\nname": 5}, step=2)
    second.log({"a": 6}, step=3)
    second.finish(0)
    third = started(tmp_path)
    third.log({"new\nname": 7}, step=4)
    third.finish(0)

    assert rows_of(tmp_path / "metrics.csv") == [
        ["iteration", "a", "b", "new\nname"],
        ["1", "1", "2", ""],
        ["2", "3", "4", "5"],
        ["3", "6", "", ""],
        ["4", "", "", "7"],
    ]


def test_csv_restart_after_a_cut_at_any_byte_loses_at_most_the_cut_row(tmp_path):
    logger = started(tmp_path)
    for step in (8, 9, 10, 11):
        logger.log({"loss": step / 3, "n": step}, step)
    logger.finish(0)
    path = tmp_path / "metrics.csv"
    whole = path.read_bytes()
    expected = rows_of(path)

    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        again = started(tmp_path)
        again.log({"n": 5}, step=12)
        again.finish(0)
        header, *rows = rows_of(path)
        kept = max(0, whole[:length].count(b"\n") - 1)
        assert rows[:-1] == expected[1 : 1 + kept]
        assert dict(zip(header, rows[-1], strict=True))["n"] == "5"


@pytest.mark.parametrize("rows", [b"", b"1,0.5\n"])
@pytest.mark.parametrize("cut", [b"2,0.", b"2,0.25\n25\n", b"\x00\x00\n"])
def test_csv_restart_repairs_the_file_even_without_a_new_row(tmp_path, rows, cut):
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"iteration,loss\n" + rows + cut)
    started(tmp_path).finish(0)
    whole = b"2,0.25\n" if cut.startswith(b"2,0.25") else b""
    assert path.read_bytes() == b"iteration,loss\n" + rows + whole


def test_csv_restart_on_a_foreign_file_is_refused_and_keeps_it(tmp_path):
    (tmp_path / "metrics.csv").write_text("name,age\nAda,36\n")
    with pytest.raises(ConfigError, match="first column is not 'iteration'"):
        started(tmp_path)
    assert (tmp_path / "metrics.csv").read_text() == "name,age\nAda,36\n"


def test_csv_rows_of_a_killed_process_are_kept(tmp_path):
    script = f"""
import os, pathlib
from jade.loggers import RunInfo
from jade.loggers.csv_logger import CsvLogger
logger = CsvLogger()
logger.start(RunInfo("r", pathlib.Path({str(tmp_path)!r}), {{}}))
for step in range(100):
    logger.log({{"loss": step / 7}}, step)
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(rows_of(tmp_path / "metrics.csv")) == 101


def test_csv_cut_after_drops_later_rows_and_goes_on(tmp_path):
    logger = started(tmp_path)
    for step in (1, 2, 3, 10):
        logger.log({"a": step}, step)
    logger.cut_after(2)
    assert (tmp_path / "metrics.csv").read_bytes() == b"iteration,a\n1,1\n2,2\n"
    logger.log({"b": 5}, step=2)
    logger.log({"a": 7}, step=3)
    logger.finish(0)
    assert (tmp_path / "metrics.csv").read_bytes() == b"iteration,a,b\n1,1,\n2,2,5\n3,7,\n"
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]


def test_csv_cut_after_everything_leaves_the_columns(tmp_path):
    logger = started(tmp_path)
    logger.log({"a": 1}, step=5)
    logger.cut_after(0)
    logger.log({"a": 2}, step=1)
    logger.finish(0)
    assert (tmp_path / "metrics.csv").read_bytes() == b"iteration,a\n1,2\n"


def test_csv_cut_after_needs_no_start_when_the_path_is_known(tmp_path):
    path = tmp_path / "m.csv"
    path.write_bytes(b"iteration,a\n1,1\n2,2\n3,0.")
    CsvLogger(path).cut_after(1)
    assert path.read_bytes() == b"iteration,a\n1,1\n"
    path.write_bytes(b"iteration,a\n1,1\n2,0.")
    CsvLogger(path).cut_after(9)
    assert path.read_bytes() == b"iteration,a\n1,1\n"
    CsvLogger(tmp_path / "absent.csv").cut_after(1)
    assert not (tmp_path / "absent.csv").exists()


def test_csv_cut_after_without_a_path_is_an_error():
    with pytest.raises(ValueError, match="needs a path"):
        CsvLogger().cut_after(3)


def test_csv_cut_after_the_end_does_not_touch_the_file(tmp_path):
    path = tmp_path / "m.csv"
    path.write_bytes(b"iteration,a\n1,1\n")
    before = path.stat()
    CsvLogger(path).cut_after(1)
    assert path.stat().st_ino == before.st_ino


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_csv_on_a_full_device_raises_at_each_row(tmp_path):
    (tmp_path / "metrics.csv").symlink_to("/dev/full")
    logger = started(tmp_path)
    for step in (1, 2):
        with pytest.raises(OSError, match="No space left"):
            logger.log({"a": 1, f"late{step}": 2}, step)
    logger.finish(1)
    assert (tmp_path / "metrics.csv").is_symlink()


def test_csv_rows_refused_by_a_full_disk_are_written_when_there_is_room(tmp_path):
    logger = started(tmp_path)
    logger.log({"loss": 0.5}, step=1)
    size = (tmp_path / "metrics.csv").stat().st_size
    with largest_file(size + 3):
        for step in (2, 3):
            with pytest.raises(OSError, match="File too large"):
                logger.log({"loss": step / 3}, step)
        assert rows_of(tmp_path / "metrics.csv")[1:] == [["1", "0.5"]]
    logger.log({"loss": 4}, step=4)
    logger.finish(0)
    assert rows_of(tmp_path / "metrics.csv")[1:] == [
        ["1", "0.5"],
        ["2", repr(2 / 3)],
        ["3", repr(3 / 3)],
        ["4", "4"],
    ]


def test_csv_column_refused_by_a_full_disk_comes_when_there_is_room(tmp_path):
    logger = started(tmp_path)
    logger.log({"loss": 1}, step=1)
    logger.log({"loss": 2}, step=2)
    before = (tmp_path / "metrics.csv").read_bytes()
    with largest_file(len(before)), pytest.raises(OSError, match="File too large"):
        logger.log({"late": 5}, step=2)
    assert (tmp_path / "metrics.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]
    logger.log({"loss": 3}, step=3)
    logger.finish(0)
    assert (tmp_path / "metrics.csv").read_bytes() == (b"iteration,loss,late\n1,1,\n2,2,5\n3,3,\n")
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]
