"""S6: files are written in the background, in order, and whatever fails is tried again."""

import logging
import threading

import pytest

from jade import writer
from jade.errors import CheckpointError
from jade.writer import Writer

TIMEOUT_S = 30


@pytest.fixture
def background(monkeypatch):
    """A writer that does not wait long before it tries again."""
    monkeypatch.setattr(writer, "FIRST_PAUSE_S", 0.01)
    made = Writer()
    yield made
    made.close()


@pytest.fixture
def patient(monkeypatch):
    """A writer that would try again after a very long time only."""
    monkeypatch.setattr(writer, "FIRST_PAUSE_S", 1000.0)
    monkeypatch.setattr(writer, "LONGEST_PAUSE_S", 1000.0)
    made = Writer()
    yield made
    made.close()


class Failing:
    """Fails some times before it works."""

    def __init__(self, times, error=None):
        self.calls = 0
        self.has_worked = threading.Event()
        self.has_failed = threading.Event()
        self._times = times
        self._error = error or CheckpointError("last.pt cannot be written: No space left.")

    def __call__(self):
        self.calls += 1
        if self.calls <= self._times:
            self.has_failed.set()
            raise self._error
        self.has_worked.set()


def test_writer_writes_in_the_order_in_which_it_is_asked(background):
    written = []
    for number in range(20):
        background.wait()
        background.write(str(number), lambda number=number: written.append(number))
    background.wait()
    assert written == list(range(20))


def test_write_returns_before_it_is_written(background):
    may_end, has_ended = threading.Event(), threading.Event()

    def write():
        assert may_end.wait(TIMEOUT_S)
        has_ended.set()

    background.write("a", write)
    assert not has_ended.is_set()
    may_end.set()
    background.wait()
    assert has_ended.is_set()


def test_writer_writes_in_another_thread(background):
    threads = []
    background.write("a", lambda: threads.append(threading.current_thread()))
    background.wait()
    assert threads[0] is not threading.current_thread()


def test_wait_without_anything_to_write_returns(background):
    background.wait()
    assert background._thread is None


def test_failure_is_tried_again_until_it_works(background):
    write = Failing(times=3)
    background.write("last.pt", write)
    assert write.has_worked.wait(TIMEOUT_S)
    assert write.calls == 4


def test_failure_is_said_once_and_so_is_that_it_works_again(background, caplog):
    caplog.set_level(logging.INFO)
    write = Failing(times=3)
    background.write("last.pt", write)
    assert write.has_worked.wait(TIMEOUT_S)
    background.close()
    assert [record.getMessage() for record in caplog.records] == [
        "last.pt cannot be written: No space left. The previous checkpoint stays; it is tried "
        "again.",
        "last.pt is written, after 3 failures.",
    ]


def test_failure_of_several_files_in_a_row_is_said_once(patient, caplog):
    for _ in range(3):
        write = Failing(times=1)
        patient.write("last.pt", write)
        assert write.has_failed.wait(TIMEOUT_S)
        patient.wait()
    assert caplog.text.count("No space left") == 1


def test_failure_after_success_is_said_again(patient, caplog):
    for times in (1, 0, 1):
        write = Failing(times=times)
        patient.write("last.pt", write)
        patient.wait()
    assert caplog.text.count("No space left") == 2


def test_failing_write_gives_way_to_something_newer_at_once(patient):
    old, new = Failing(times=1), Failing(times=0)
    patient.write("old", old)
    assert old.has_failed.wait(TIMEOUT_S)
    patient.wait()
    patient.write("new", new)
    assert new.has_worked.wait(TIMEOUT_S)
    assert old.calls == 1


def test_wait_does_not_wait_for_what_keeps_failing(patient):
    write = Failing(times=1)
    patient.write("last.pt", write)
    patient.wait()
    assert write.calls == 1


def test_close_does_not_wait_for_what_keeps_failing(patient):
    write = Failing(times=1)
    patient.write("last.pt", write)
    patient.close()
    assert write.calls == 1


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), ValueError("odd"), MemoryError(), SystemExit(3)]
)
def test_exception_of_any_kind_does_not_end_the_writing(background, caplog, error):
    write = Failing(times=1, error=error)
    background.write("last.pt", write)
    assert write.has_worked.wait(TIMEOUT_S)
    assert f"last.pt cannot be written: {type(error).__name__}" in caplog.text


def test_close_waits_for_what_is_being_written_and_ends_the_thread():
    made, written = Writer(), []
    may_end = threading.Event()

    def write():
        assert may_end.wait(TIMEOUT_S)
        written.append(1)

    made.write("a", write)
    threading.Timer(0.05, may_end.set).start()
    made.close()
    assert written == [1]
    assert not [t for t in threading.enumerate() if t.name == "jade-writer"]


def test_writer_that_was_closed_can_be_used_again(background):
    written = []
    background.close()
    background.write("a", lambda: written.append(1))
    background.close()
    assert written == [1]


def test_what_comes_after_something_that_was_given_up_is_tried_at_least_once(patient):
    for _ in range(50):
        old, new = Failing(times=1), Failing(times=0)
        patient.write("old", old)
        patient.wait()
        patient.write("new", new)
        patient.wait()
        assert new.calls == 1
