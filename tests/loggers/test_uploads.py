"""Files are uploaded one after another, the newest of each name, at a bounded rate."""

import pytest

from jade.loggers.uploads import BYTES_PER_SECOND, KEPT_S, SHORTEST_PAUSE_S, Uploads


@pytest.fixture
def uploads(tmp_path):
    class Bench:
        def __init__(self):
            self.now = 1000.0
            self.sent = []
            self.dropped = []
            self.uploads = Uploads(self.send, self.dropped.append, lambda: self.now)

        def send(self, path, name):
            self.sent.append((name, path.name))

        def file(self, name, size=10):
            path = tmp_path / name
            path.write_bytes(b"x" * size)
            return path

    return Bench()


def test_first_file_of_a_name_is_sent_at_once(uploads):
    uploads.uploads.offer(uploads.file("a"), "last")
    uploads.uploads.send_due()
    assert uploads.sent == [("last", "a")]


def test_further_ones_wait_and_only_the_newest_is_sent(uploads):
    for name in ("a", "b", "c"):
        uploads.uploads.offer(uploads.file(name), "last")
        uploads.uploads.send_due()
    assert uploads.sent == [("last", "a")]
    uploads.now += SHORTEST_PAUSE_S
    uploads.uploads.send_due()
    uploads.uploads.send_due()
    assert uploads.sent == [("last", "a"), ("last", "c")]


def test_large_file_keeps_the_line_busy(uploads):
    uploads.uploads.offer(uploads.file("a", size=int(BYTES_PER_SECOND / 10)), "last")
    uploads.uploads.send_due()
    uploads.uploads.offer(uploads.file("b"), "best")
    uploads.now += 0.09
    uploads.uploads.send_due()
    assert uploads.sent == [("last", "a")]
    uploads.now += 0.02
    uploads.uploads.send_due()
    assert uploads.sent == [("last", "a"), ("best", "b")]


def test_at_the_end_everything_is_sent(uploads):
    for name in ("a", "b"):
        uploads.uploads.offer(uploads.file(name), "last")
        uploads.uploads.send_due()
    uploads.uploads.send_all()
    uploads.uploads.send_all()
    assert uploads.sent == [("last", "a"), ("last", "b")]


def test_file_that_is_gone_is_left_out(uploads, tmp_path):
    uploads.uploads.offer(tmp_path / "pruned", "old")
    uploads.uploads.offer(uploads.file("a"), "last")
    uploads.uploads.send_due()
    assert uploads.sent == [("last", "a")]


def test_file_that_cannot_be_sent_keeps_none_of_the_others_back(uploads):
    def send(path, name):
        if name == "last":
            raise OSError(28, "No space left on device")
        uploads.send(path, name)

    uploads.uploads = Uploads(send, uploads.dropped.append, lambda: uploads.now)
    for name in ("last", "best"):
        uploads.uploads.offer(uploads.file(name), name)
    with pytest.raises(OSError, match="No space left"):
        uploads.uploads.send_all()
    assert uploads.sent == [("best", "best")]


def test_copy_of_a_file_that_is_gone_is_dropped_when_it_has_had_time_to_arrive(uploads):
    for name in ("checkpoint_1", "checkpoint_2", "last"):
        uploads.uploads.offer(uploads.file(name), name)
        uploads.uploads.send_all()
        uploads.now += KEPT_S / 2
    uploads.file("checkpoint_1").unlink()
    uploads.file("checkpoint_2").unlink()
    uploads.uploads.offer(uploads.file("checkpoint_3"), "checkpoint_3")
    uploads.now -= 1
    uploads.uploads.send_all()
    assert uploads.dropped == ["checkpoint_1"]
    uploads.now += 1
    uploads.uploads.send_all()
    assert uploads.dropped == ["checkpoint_1", "checkpoint_2"]
