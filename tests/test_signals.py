"""C18: what a process makes of signals; `end_to_end/test_real_signals.py` sends them to a real run."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jade.signals import WATCHED, SignalWatch

ROOT = Path(__file__).parents[1]


def handlers():
    return {number: signal.getsignal(number) for number in WATCHED}


@pytest.fixture(autouse=True)
def interruptible():
    """Tests may be run in the background, where this signal is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def undisturbed(interruptible):
    before = handlers()
    yield
    assert handlers() == before


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGUSR2, 75), (signal.SIGINT, 130)],
)
def test_first_signal_is_passed_on_and_decides_the_exit_code(number, exit_code):
    with SignalWatch() as watch:
        calls = []
        watch.pass_on_to(lambda: calls.append(watch.received))
        signal.raise_signal(number)
        assert calls == [number]
        assert watch.exit_code == exit_code


def test_first_signal_before_anybody_listens_ends_the_process():
    with pytest.raises(SystemExit) as info, SignalWatch():
        signal.raise_signal(signal.SIGTERM)
    assert info.value.code == 75


def test_first_interrupt_before_anybody_listens_is_the_usual_one():
    with pytest.raises(KeyboardInterrupt), SignalWatch():
        signal.raise_signal(signal.SIGINT)


def test_first_signal_that_is_held_back_comes_when_somebody_listens():
    with SignalWatch() as watch:
        watch.hold_back()
        signal.raise_signal(signal.SIGTERM)
        calls = []
        watch.pass_on_to(lambda: calls.append(1))
        assert calls == [1]


def test_first_signal_in_a_sweep_is_held_back_from_the_start():
    with SignalWatch.for_run({"WANDB_SWEEP_ID": "s", "WANDB_RUN_ID": "r"}) as watch:
        signal.raise_signal(signal.SIGTERM)
        watch.check()
        watch.hold_back()
        calls = []
        watch.pass_on_to(lambda: calls.append(1))
        assert calls == [1]


@pytest.fixture(params=["SLURM_JOB_ID", "LSB_JOBID", "JADE_AGENT"])
def in_job(request, monkeypatch):
    monkeypatch.setenv(request.param, "7")


def test_signal_that_comes_again_soon_in_a_job_says_nothing_new(in_job):
    with SignalWatch() as watch:
        calls = []
        watch.pass_on_to(lambda: calls.append(watch.received))
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert calls == [signal.SIGUSR1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.set_wakeup_fd(-1) == -1


# A run in a job, from its first signal on, until its input ends.
IN_JOB = """
import ctypes, signal, sys, threading, time
from jade import echo
from jade.signals import SignalWatch

echo.ECHO_S, busy_s, is_leaving = float(sys.argv[1]), float(sys.argv[2]), bool(sys.argv[3:])
watch = SignalWatch()
with watch:
    watch.pass_on_to(lambda: print("asked", flush=True), lambda: is_leaving)
    print("ready", flush=True)
    while watch.received is None:
        time.sleep(0.01)
    if busy_s:
        # A call in which no handler is called; another thread is there to be interrupted.
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])
        print("busy", flush=True)
        ctypes.CDLL(None).usleep(int(busy_s * 1e6))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    sys.stdin.read()
sys.exit(watch.exit_code)
"""


@pytest.fixture
def start_in_job():
    """Start such a process, and ask it to end."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", IN_JOB, *map(str, arguments)],
            env={**os.environ, "SLURM_JOB_ID": "7", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "asked\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_second_signal_in_a_job_that_comes_later_ends_it_at_once(start_in_job):
    process = start_in_job(0.2, 0)
    time.sleep(0.3)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(60) == -signal.SIGUSR2


def test_end_of_a_job_is_no_hurry_as_it_is_killed_in_any_case(start_in_job):
    process = start_in_job(0.2, 0)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 75


def test_second_signal_in_a_job_lets_go_who_is_leaving(start_in_job):
    process = start_in_job(0.2, 0, "leaving")
    time.sleep(0.3)
    process.send_signal(signal.SIGUSR2)
    process.communicate(timeout=60)
    assert process.returncode == 75


def test_signal_that_came_soon_and_is_heard_of_late_is_the_same(start_in_job):
    process = start_in_job(4, 4.2)
    assert process.stdout.readline() == "busy\n"
    process.send_signal(signal.SIGUSR2)
    process.communicate(timeout=60)
    assert process.returncode == 75


def test_signal_that_came_late_and_is_heard_of_later_ends_it(start_in_job):
    process = start_in_job(0.2, 1)
    assert process.stdout.readline() == "busy\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(60) == -signal.SIGUSR2


def test_signal_after_an_own_request_in_a_job_may_come_again_soon(in_job):
    with SignalWatch() as watch:
        watch.pass_on_to(lambda: None)
        watch.request("the time limit")
        watch._echo._until = watch._echo._last_moment = 0.0
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGTERM)
        assert watch.cause == "the time limit"


def test_event_loop_of_somebody_else_is_left_alone(in_job):
    mine, other = socket.socketpair()
    with mine, other, SignalWatch() as watch:
        other.setblocking(False)
        signal.set_wakeup_fd(other.fileno())
        watch.pass_on_to(lambda: None)
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGTERM)
        assert signal.set_wakeup_fd(-1) == other.fileno()
        assert len(mine.recv(8)) == 2


def test_second_signal_acts_as_if_nobody_watched():
    with SignalWatch() as watch:
        watch.hold_back()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_signal_that_the_process_ignores_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with SignalWatch() as watch:
            signal.raise_signal(signal.SIGINT)
            assert watch.received is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_handlers_are_left_alone_outside_the_main_thread():
    before = handlers()
    seen = []

    def enter():
        with SignalWatch():
            seen.append(handlers())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]


def test_handler_that_python_does_not_know_becomes_the_default(monkeypatch):
    watch = SignalWatch()
    with watch:
        # A handler installed by other means than Python is reported as None.
        watch._previous[signal.SIGUSR1] = None
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_request_stops_as_a_signal_does_and_tells_its_cause():
    stops = []
    with SignalWatch() as watch:
        watch.pass_on_to(lambda: stops.append(watch.cause))
        watch.request("the time limit")
        assert stops == ["the time limit"]
        assert watch.exit_code == 75
        # A scheduler that says the same does not end it at once; a second time it does.
        signal.raise_signal(signal.SIGTERM)
        assert stops == ["the time limit"]


def test_request_from_a_thread_reaches_the_main_thread():
    threads = []
    with SignalWatch() as watch:
        watch.pass_on_to(lambda: threads.append(threading.current_thread()))
        asking = threading.Thread(target=watch.request, args=("time",))
        asking.start()
        asking.join()
        assert threads == [threading.main_thread()]


def test_request_without_handlers_is_passed_on_by_who_asks():
    watch = SignalWatch()
    threads = []
    watch.pass_on_to(lambda: threads.append(threading.current_thread()))
    watch.request("time")
    assert len(threads) == 1
    assert watch.cause == "time"


def swallow(number):
    """Do what some libraries do while they are imported."""
    with contextlib.suppress(SystemExit):
        signal.raise_signal(number)


def test_signal_whose_exception_was_swallowed_is_acted_on_at_the_next_check():
    with contextlib.suppress(SystemExit), SignalWatch() as watch:
        swallow(signal.SIGTERM)
        with pytest.raises(SystemExit) as info:
            watch.check()
    assert info.value.code == 75


def test_signal_whose_exception_was_swallowed_is_the_cause_of_what_fails_later():
    def fail_later():
        with SignalWatch() as watch:
            swallow(signal.SIGTERM)
            error = ImportError("half imported")
            causes.append(watch.find_cause(error))
            raise error

    causes = []
    with pytest.raises(SystemExit) as info:
        fail_later()
    assert info.value.code == 75
    assert [type(cause) for cause in causes] == [SystemExit]


def test_error_without_a_signal_is_its_own_cause():
    error = ImportError("no such file")
    with SignalWatch() as watch:
        assert watch.find_cause(error) is error


def test_signal_whose_exception_was_swallowed_is_not_held_back():
    with contextlib.suppress(SystemExit), SignalWatch() as watch:
        swallow(signal.SIGTERM)
        with pytest.raises(SystemExit):
            watch.hold_back()


def test_check_without_a_signal_does_nothing():
    with SignalWatch() as watch:
        watch.check()
    assert watch.received is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_signal_in_a_forked_process_passes(number):
    with SignalWatch() as watch:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                signal.raise_signal(number)
                os._exit(0 if watch.received is None else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
