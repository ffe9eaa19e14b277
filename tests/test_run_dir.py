"""C15, A7: run directories are unique, and their files whole."""

import json
import os
import re
import secrets
import signal
import threading
from pathlib import Path

import pytest

from jade.errors import ConfigError
from jade.loggers.base import RunInfo
from jade.loggers.csv_logger import CsvLogger
from jade.media import Media, write
from jade.run_dir import RunDir, check_writable, new_run_id
from jade.whole_file import remove_asides, whole_file, write_whole


def test_directories_of_simultaneous_starts_are_unique_c15(tmp_path):
    start = threading.Barrier(20)
    made = []

    def create():
        start.wait()
        made.append(RunDir.create(tmp_path / "runs").root)

    threads = [threading.Thread(target=create) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 20
    assert sorted(made) == sorted((tmp_path / "runs").iterdir())


def test_directory_whose_id_is_taken_draws_another_c15(tmp_path, monkeypatch):
    letters = iter("a" * 12 + "b" * 6)
    monkeypatch.setattr(secrets, "choice", lambda _: next(letters))
    monkeypatch.setattr("time.strftime", lambda _: "20300101-000000-")
    first, second = RunDir.create(tmp_path), RunDir.create(tmp_path)
    assert (first.run_id, second.run_id) == ("20300101-000000-aaaaaa", "20300101-000000-bbbbbb")


def test_run_ids_sort_by_time():
    assert re.fullmatch(r"\d{8}-\d{6}-[a-z0-9]{6}", new_run_id())


def test_directory_is_named_by_a_given_id(tmp_path):
    directory = RunDir.create(tmp_path, "abc123")
    assert directory.run_id == "abc123"
    assert directory.checkpoints.is_dir()
    assert directory.evaluations.is_dir()


def test_directory_of_a_given_id_that_exists_is_refused(tmp_path):
    RunDir.create(tmp_path, "abc123").config.touch()
    with pytest.raises(ConfigError, match=r"The run directory .*abc123 exists already"):
        RunDir.create(tmp_path, "abc123")


@pytest.mark.parametrize("run_id", ["../escape", "a/b", "", ".hidden", "a b"])
def test_id_that_is_no_name_of_a_directory_is_refused(tmp_path, run_id):
    with pytest.raises(ConfigError, match="WANDB_RUN_ID"):
        RunDir.create(tmp_path, run_id)
    assert list(tmp_path.iterdir()) == []


def test_root_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"experiments_root: .*file is a file, not a directory"):
        RunDir.create(tmp_path / "file")
    with pytest.raises(ConfigError, match=r"cannot be made, .*file is not a directory"):
        check_writable(tmp_path / "file" / "below")


def test_root_where_nothing_can_be_made_is_refused():
    # Not even root can make a directory here.
    with pytest.raises(ConfigError, match=r"cannot be written: .*--experiments_root"):
        RunDir.create(Path("/proc/none/runs"))


def test_root_without_permission_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="is not writable"):
        check_writable(tmp_path / "runs")


def test_root_that_does_not_exist_yet_is_fine_and_not_made_by_the_check(tmp_path):
    check_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_file_is_replaced_as_a_whole_or_not_at_all_a7(tmp_path):
    path = tmp_path / "a.json"
    write_whole(path, b"old")

    def write_half():
        with whole_file(path, durable=True) as file:
            file.write(b"ne")
            assert path.read_bytes() == b"old"
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        write_half()
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_file_written_durably_is_in_place(tmp_path):
    with whole_file(tmp_path / "a", durable=True) as file:
        file.write(b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_file_written_by_many_threads_at_once_is_one_of_them_a7(tmp_path):
    path = tmp_path / "a"
    texts = [bytes([letter]) * 100_000 for letter in b"abcdefgh"]
    threads = [threading.Thread(target=write_whole, args=(path, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_reader_never_sees_a_part_of_a_file_a7(tmp_path):
    path = tmp_path / "a"
    texts = [letter * 3_000_000 for letter in (b"a", b"b")]
    write_whole(path, texts[0])
    seen, done = set(), threading.Event()

    def read():
        while not done.is_set():
            content = path.read_bytes()
            seen.add((len(content), content[:1], content[-1:]))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(30):
        write_whole(path, texts[number % 2])
    done.set()
    reader.join()
    assert seen <= {(3_000_000, b"a", b"a"), (3_000_000, b"b", b"b")}


def test_status_names_process_and_host(tmp_path):
    directory = RunDir.create(tmp_path)
    directory.write_status("running", iterations=3)
    status = directory.read_status()
    assert status == json.loads(directory.status_file.read_text())
    assert (status["status"], status["pid"], status["iterations"]) == ("running", os.getpid(), 3)
    assert {"host", "updated"} <= status.keys()


def test_names_of_evaluations_become_names_of_folders(tmp_path):
    path = RunDir(tmp_path).evaluation("Test Error/rec:1", 42)
    assert path == tmp_path / "evaluations" / "Test Error" / "rec%3A1" / "00000042"


def test_names_of_evaluations_never_share_a_folder_or_leave_it(tmp_path):
    directory = RunDir(tmp_path)
    names = ["A/b", "A_b", "A b", "A%2Fb", "A", ".", "..", "../x", "", "A//b"]
    folders = {directory.evaluation(name, 1).parent for name in names}
    assert len(folders) == len(names)
    for folder in folders:
        assert directory.evaluations in folder.resolve().parents


class HalfFigure:
    """Ends its process when half of it is written."""

    def savefig(self, path, **_):
        path.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


def begin_checkpoint(folder):
    with whole_file(folder / "last.pt") as file:
        file.write(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


def begin_figure(folder):
    write(Media("figure", HalfFigure()), folder / "evaluations" / "plot")


def begin_wider_table(folder):
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    table = CsvLogger(folder / "metrics.csv")
    table.start(RunInfo(run_id="", directory=folder, config={}))
    table.log({"a": 1.0}, 1)
    table.log({"b": 1.0}, 2)


@pytest.mark.parametrize("begin", [begin_checkpoint, begin_figure, begin_wider_table])
def test_what_a_killed_process_had_begun_to_write_is_removed(tmp_path, begin):
    pid = os.fork()
    if pid == 0:
        begin(tmp_path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert any(path.name.startswith(".") for path in tmp_path.rglob("*"))
    remove_asides(tmp_path)
    assert not any(path.name.startswith(".") for path in tmp_path.rglob("*"))


def test_former_that_is_the_file_itself_after_a_kill_leaves_nothing_behind(tmp_path):
    path, former = tmp_path / "last.pt", tmp_path / "former.pt"
    path.write_bytes(b"old")
    # So it is when a process was killed after the old file got its second name.
    os.link(path, former)
    with whole_file(path, former=former) as file:
        file.write(b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        "last.pt": b"new",
        "former.pt": b"old",
    }
