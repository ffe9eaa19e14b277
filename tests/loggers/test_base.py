"""A group passes everything on, and survives whatever its members do."""

import logging
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from contract import LoggerContract, read_csv, run_in

from jade.errors import ConfigError
from jade.loggers import Logger, LoggerGroup, RunInfo
from jade.loggers.csv_logger import CsvLogger
from jade.media import Media, write


@dataclass
class Recorder(Logger):
    """A custom logger; as a dataclass it is not hashable, and equal to its like."""

    calls: list = field(default_factory=list)
    failing: tuple = ()

    def _note(self, name, *args):
        self.calls.append((name, *args))
        if name in self.failing:
            raise OSError(28, f"No space left for {name}")

    def start(self, run: RunInfo):
        self._note("start", run.run_id)

    def log(self, metrics, step):
        self._note("log", dict(metrics), step)

    def log_media(self, name, media, path, step):
        self._note("log_media", name, media.kind, path.name, step)

    def summarize(self, values):
        self._note("summarize", dict(values))

    def mark_preempting(self):
        self._note("mark_preempting")

    def finish(self, exit_code):
        self._note("finish", exit_code)


class Minimal(Logger):
    """Writes only the three methods that a logger must have."""

    def start(self, run):
        pass

    def log(self, metrics, step):
        pass

    def finish(self, exit_code):
        pass


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class TestLoggerGroupContract(LoggerContract):
    def make(self):
        return LoggerGroup([Recorder(failing=("log", "finish")), CsvLogger(), Minimal()])

    def read(self, directory):
        return read_csv(directory)


def test_logger_without_the_three_methods_cannot_be_made():
    class Incomplete(Logger):
        def start(self, run):
            pass

    with pytest.raises(TypeError, match=r"finish.*log"):
        Incomplete()


def test_group_passes_every_call_on_in_order(tmp_path):
    recorders = [Recorder(), Recorder()]
    group = LoggerGroup(recorders)
    media = Media("text", "hello")

    group.start(run_in(tmp_path))
    group.log({"a": 1}, step=1)
    group.log_media("note", media, write(media, tmp_path / "note"), step=1)
    group.summarize({"best": 1})
    group.mark_preempting()
    group.finish(75)

    assert recorders[0].calls == [
        ("start", "run1"),
        ("log", {"a": 1}, 1),
        ("log_media", "note", "text", "note.txt", 1),
        ("summarize", {"best": 1}),
        ("mark_preempting",),
        ("finish", 75),
    ]
    assert recorders[1].calls == recorders[0].calls


def test_group_finish_reaches_each_logger_once(tmp_path):
    recorder = Recorder()
    group = LoggerGroup([recorder])
    group.start(run_in(tmp_path))
    group.finish(0)
    group.finish(1)
    assert recorder.calls == [("start", "run1"), ("finish", 0)]


def test_group_failing_log_is_said_once_tried_again_and_counted(tmp_path, caplog):
    broken, fine = Recorder(failing=("log", "log_media")), Recorder()
    group = LoggerGroup([broken, fine])
    group.start(run_in(tmp_path))
    for step in range(5):
        group.log({"a": 1}, step)
    group.log_media("x", Media("text", ""), Path("x.txt"), step=5)
    assert messages(caplog) == [
        "Recorder.log failed, training goes on (said once): "
        "OSError: [Errno 28] No space left for log"
    ]
    caplog.clear()

    group.finish(0)

    assert messages(caplog) == ["Recorder: 6 calls failed in this run."]
    assert broken.calls == fine.calls
    assert len(fine.calls) == 8


def test_group_without_failures_says_nothing(tmp_path, caplog):
    group = LoggerGroup([Recorder()])
    group.start(run_in(tmp_path))
    group.log({"a": 1}, step=1)
    group.finish(0)
    assert messages(caplog) == []


def test_group_leaves_out_a_logger_that_cannot_start(tmp_path, caplog):
    broken, fine = Recorder(failing=("start",)), Recorder()
    group = LoggerGroup([broken, fine])
    group.start(run_in(tmp_path))
    group.log({"a": 1}, step=1)
    group.finish(0)

    assert broken.calls == [("start", "run1")]
    assert [call[0] for call in fine.calls] == ["start", "log", "finish"]
    assert messages(caplog) == [
        "Recorder is left out, it cannot start: OSError: [Errno 28] No space left for start"
    ]


def test_group_raises_a_configuration_error_of_the_start(tmp_path):
    (tmp_path / "metrics.csv").write_text("not,ours\n")
    with pytest.raises(ConfigError, match="not a table of metrics"):
        LoggerGroup([CsvLogger()]).start(run_in(tmp_path))


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("log", ({"a": 1}, 6)), ("log_media", ("x", Media("text", ""), Path("x"), 6))],
)
def test_group_refuses_a_smaller_step_before_any_logger_sees_it(tmp_path, call, arguments):
    recorder = Recorder()
    group = LoggerGroup([recorder])
    group.start(run_in(tmp_path))
    group.log({"a": 1}, step=7)
    group.log({"a": 1}, step=7)

    with pytest.raises(ValueError, match="Steps never decrease: got 6 after 7"):
        getattr(group, call)(*arguments)

    assert [entry for entry in recorder.calls if 6 in entry] == []


def test_group_lets_an_interrupt_through(tmp_path):
    class Interrupted(Minimal):
        def log(self, metrics, step):
            raise KeyboardInterrupt

    group = LoggerGroup([Interrupted()])
    group.start(run_in(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        group.log({"a": 1}, step=1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_group_goes_on_when_the_disk_is_full(tmp_path, caplog):
    (tmp_path / "metrics.csv").symlink_to("/dev/full")
    recorder = Recorder()
    group = LoggerGroup([CsvLogger(), recorder])
    group.start(run_in(tmp_path))
    for step in range(3):
        group.log({"a": 1}, step)
    group.finish(0)

    assert len(recorder.calls) == 5
    assert "No space left on device" in messages(caplog)[0]
    assert messages(caplog)[1:] == ["CsvLogger: 3 calls failed in this run."]
