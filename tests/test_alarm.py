import threading
import time

from jade.alarm import Alarm


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "jade-alarm"]


def test_alarm_rings_at_its_time_and_not_before():
    rung = threading.Event()
    alarm = Alarm(rung.set)
    start = time.monotonic()
    alarm.set(start + 0.05)
    assert rung.wait(5)
    assert time.monotonic() - start >= 0.05


def test_alarm_for_the_past_rings_at_once():
    rung = threading.Event()
    Alarm(rung.set).set(time.monotonic() - 1)
    assert rung.wait(5)


def test_alarm_set_to_the_same_moment_keeps_its_thread():
    alarm = Alarm(lambda: None)
    at = time.monotonic() + 60
    alarm.set(at)
    before = threads()
    alarm.set(at)
    assert threads() == before
    alarm.cancel()


def test_alarm_that_has_rung_rings_again_for_the_same_moment():
    rung = threading.Semaphore(0)
    alarm = Alarm(rung.release)
    at = time.monotonic()
    for _ in range(2):
        alarm.set(at)
        assert rung.acquire(timeout=5)
    alarm.cancel()


def test_alarm_cancelled_leaves_no_thread():
    rung = []
    alarm = Alarm(lambda: rung.append(1))
    alarm.set(time.monotonic() + 60)
    alarm.set(None)
    assert threads() == []
    assert rung == []
