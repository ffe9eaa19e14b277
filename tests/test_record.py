import json
import logging

import pytest

from jade.errors import TrainingError
from jade.record import Record, RunLog
from jade.run_dir import RunDir


@pytest.fixture(autouse=True)
def undisturbed():
    """The state of logging is the same after each test."""
    root, jade = logging.getLogger(), logging.getLogger("jade")
    before = (list(root.handlers), root.level, list(jade.handlers), jade.level)
    yield
    assert (list(root.handlers), root.level, list(jade.handlers), jade.level) == before


def test_log_holds_what_was_said_before_there_was_a_file(tmp_path):
    with RunLog("info") as log:
        logging.getLogger("jade.x").info("early")
        log.write_to(tmp_path / "run.log")
        logging.getLogger("jade.x").info("late")
        logging.getLogger("user").warning("from the user")
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert [line.partition(": ")[2] for line in lines] == ["early", "late", "from the user"]
    assert "INFO    jade.x: early" in lines[0]


@pytest.mark.parametrize(
    ("level", "logged"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_log_keeps_what_its_level_says_l7(tmp_path, level, logged):
    with RunLog(level) as log:
        log.write_to(tmp_path / "run.log")
        for name in ("debug", "info", "warning", "error"):
            getattr(logging.getLogger("jade.x"), name)(name)
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == logged


def test_log_level_of_the_file_does_not_silence_the_console(tmp_path, caplog):
    with RunLog("error"):
        logging.getLogger("jade.x").info("to the console")
    assert "to the console" in caplog.text


def test_log_shows_warnings_where_nobody_set_up_logging(monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(logging.getLogger(), "handlers", [])
        with RunLog("info"):
            logging.getLogger("jade.x").warning("seen")
            logging.getLogger("jade.x").info("not seen")
    assert capsys.readouterr().err == "seen\n"


def test_log_without_a_run_leaves_nothing_behind(tmp_path):
    with RunLog("info"):
        logging.getLogger("jade.x").info("early")


def test_log_of_a_known_failure_has_its_message_only(tmp_path, caplog):
    with RunLog("info") as log:
        log.write_failure(TrainingError("too early to write"))
        log.write_to(tmp_path / "run.log")
        log.write_failure(TrainingError("the loss is NaN"))
    text = (tmp_path / "run.log").read_text()
    assert "ERROR   jade: the loss is NaN" in text
    assert "Traceback" not in text
    assert "too early" not in text
    # Whoever catches the error shows it: the console does not get it twice.
    assert caplog.text == ""


def test_log_of_an_unknown_failure_has_its_traceback(tmp_path):
    with RunLog("info") as log:
        log.write_to(tmp_path / "run.log")
        try:
            raise KeyError("a mistake")
        except KeyError as error:
            log.write_failure(error)
    text = (tmp_path / "run.log").read_text()
    assert "Traceback (most recent call last)" in text
    assert "KeyError: 'a mistake'" in text


def test_record_is_running_from_its_first_moment(tmp_path):
    record = Record(RunDir.create(tmp_path, "r1"))
    assert record.directory.read_status()["status"] == "running"
    record.write_status("finished", exit_code=0)
    status = record.directory.read_status()
    assert (status["status"], status["exit_code"]) == ("finished", 0)
    assert status["started"] <= status["updated"]


def test_record_writes_its_summary_as_json(tmp_path):
    record = Record(RunDir.create(tmp_path))
    record.write_summary({"loss": 0.5})
    assert json.loads(record.directory.summary.read_text()) == {"loss": 0.5}


def test_record_can_be_taken_back(tmp_path):
    Record(RunDir.create(tmp_path)).remove()
    assert list(tmp_path.iterdir()) == []
