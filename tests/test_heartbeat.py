import logging
import threading

from jade.heartbeat import Heartbeat


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "jade-heartbeat"]


def test_heartbeat_beats_again_and_again():
    beats = threading.Semaphore(0)

    with Heartbeat(beats.release, interval_s=0.001):
        assert all(beats.acquire(timeout=5) for _ in range(3))


def test_heartbeat_stopped_leaves_no_thread_and_beats_no_more():
    beats = []
    heart = Heartbeat(lambda: beats.append(1), interval_s=0.001)
    heart.start()
    heart.stop()
    count = len(beats)
    heart.stop()

    assert threads() == []
    assert len(beats) == count


def test_heartbeat_with_a_long_interval_ends_at_once():
    with Heartbeat(lambda: None, interval_s=3600):
        assert len(threads()) == 1
        assert threads()[0].daemon

    assert threads() == []


def test_heartbeat_stop_waits_for_the_beat_under_way():
    has_begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def beat():
        has_begun.set()
        may_end.wait(5)
        ended.set()

    heart = Heartbeat(beat, interval_s=0.001)
    heart.start()
    assert has_begun.wait(5)
    threading.Timer(0.05, may_end.set).start()
    heart.stop()

    assert ended.is_set()


def test_heartbeat_that_fails_is_reported_once_until_it_works_again(caplog):
    outcomes = iter([OSError("disk full"), OSError("disk full"), None, OSError("gone")])
    done = threading.Event()

    def beat():
        outcome = next(outcomes, done)
        if outcome is done:
            done.set()
        elif outcome is not None:
            raise outcome

    with caplog.at_level(logging.WARNING), Heartbeat(beat, interval_s=0.001):
        assert done.wait(5)

    assert [record.getMessage() for record in caplog.records] == [
        "The sign of life cannot be given: disk full",
        "The sign of life cannot be given: gone",
    ]
