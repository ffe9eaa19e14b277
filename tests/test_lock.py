import contextlib
import errno
import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jade.errors import JadeError, RunInUseError
from jade.lock import STALE_S, RunLock, is_held
from jade.owner import Owner
from jade.run_dir import RunDir

ROOT = Path(__file__).parent.parent
# Waits for the file "go", takes the lock, says so, and keeps it until its input ends.
HOLDER = """
import os, sys, time
from pathlib import Path
from jade.errors import JadeError
from jade.lock import RunLock

while not Path("go").exists():
    time.sleep(0.001)
try:
    with RunLock(Path("run")):
        print("got", flush=True)
        {then}
        sys.stdin.read()
except JadeError as error:
    print(error, flush=True)
"""
# The forked process gets a standard output of its own: the test reads the holder's to its end.
FORK = "os.fork() or (os.write(1, b'forked\\n'), os.close(1), time.sleep(60), os._exit(0))"


@pytest.fixture
def run(tmp_path) -> RunDir:
    directory = RunDir(tmp_path / "run")
    directory.root.mkdir()
    return directory


@pytest.fixture
def start(run):
    """Start a process that takes the lock of the run, and end it after the test."""
    processes = []

    def start(then="pass"):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER.format(then=then)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=run.root.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def holder(run, start):
    """A process that holds the lock of the run."""
    (run.root.parent / "go").touch()
    process = start()
    assert process.stdout.readline() == "got\n"
    return process


def kill(process):
    process.kill()
    process.wait()


def leave_owner(run, **values):
    left = {"host": socket.gethostname(), "pid": 2**22 + 1, "since": time.time(), **values}
    run.owner.write_text(json.dumps(left))


@pytest.fixture
def without_locks(monkeypatch):
    """A file system that knows no locks."""

    def lockf(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", lockf)


# One owner


def test_lock_wanted_by_eight_processes_is_given_to_exactly_one(run, start):
    processes = [start() for _ in range(8)]
    time.sleep(0.5)
    (run.root.parent / "go").touch()

    answers = [process.stdout.readline() for process in processes]

    assert sorted(answer == "got\n" for answer in answers) == [False] * 7 + [True]
    winner = processes[answers.index("got\n")]
    expected = f"The run run is in use by process {winner.pid} on {socket.gethostname()} since "
    assert all(answer.startswith(("got", expected)) for answer in answers)


def test_lock_that_is_held_is_refused_with_the_way_out(run, holder):
    with pytest.raises(RunInUseError) as caught:
        RunLock(run.root).acquire()

    assert str(caught.value).endswith(f"Wait for it, or stop it: kill {holder.pid}")
    assert caught.value.exit_code == 73


def test_lock_is_free_once_its_holder_is_done(run, holder):
    holder.communicate("")

    with RunLock(run.root):
        assert Owner.load(run.owner).pid == os.getpid()


def test_lock_of_a_killed_holder_is_taken_over_with_a_line_in_the_log(run, holder, caplog):
    kill(holder)

    with caplog.at_level(logging.INFO), RunLock(run.root):
        assert f"left by process {holder.pid} on" in caplog.text


def test_lock_of_a_killed_holder_is_free_though_its_worker_lives(run, start):
    (run.root.parent / "go").touch()
    process = start(then=FORK)
    assert [process.stdout.readline() for _ in range(2)] == ["got\n", "forked\n"]
    kill(process)
    os.killpg(process.pid, 0)  # the worker is there, otherwise this raises

    with RunLock(run.root):
        assert is_held(run.root)


def test_lock_that_is_only_asked_about_for_a_moment_is_got(run):
    prober = os.open(run.lock, os.O_RDWR | os.O_CREAT)
    script = (
        "import fcntl, os, sys, time\n"
        "fcntl.lockf(0, fcntl.LOCK_SH)\nprint('asking', flush=True)\ntime.sleep(0.2)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=prober, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"asking\n"
        # Closed before we lock: a descriptor that is closed later would drop our lock.
        os.close(prober)
        with RunLock(run.root):
            assert is_held(run.root)


# Within one process


def test_lock_taken_twice_in_a_process_is_refused_and_kept(run, start):
    with RunLock(run.root):
        with pytest.raises(RunInUseError, match="in use by this very process"):
            RunLock(run.root).acquire()
        (run.root.parent / "go").touch()
        assert "is in use by process" in start().stdout.readline()


def test_lock_taken_twice_by_another_path_is_refused(run):
    link = run.root.with_name("link")
    link.symlink_to(run.root)

    with RunLock(run.root), pytest.raises(RunInUseError):
        RunLock(link).acquire()


def test_lock_survives_that_its_own_process_asks_about_it(run, start):
    with RunLock(run.root):
        assert is_held(run.root)
        (run.root.parent / "go").touch()
        assert "is in use by process" in start().stdout.readline()


def test_lock_released_leaves_no_owner_and_can_be_taken_again(run):
    lock = RunLock(run.root).acquire()
    lock.release()
    lock.release()

    assert not run.owner.exists()
    assert not is_held(run.root)
    with lock:
        assert is_held(run.root)


def test_lock_refused_for_a_foreign_reason_says_which(run):
    with pytest.raises(JadeError, match=r"missing cannot be locked: No such file or directory\."):
        RunLock(run.root / "missing").acquire()


class Fork:
    """A forked process that answers with what a function says there, once it is asked."""

    def __init__(self, function):
        question, self._question = os.pipe()
        self._answer, answer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.read(question, 1)
            os.write(answer, repr(function()).encode())
            os._exit(0)
        os.close(question)
        os.close(answer)

    def ask(self):
        os.write(self._question, b"?")
        os.close(self._question)
        os.waitpid(self._pid, 0)
        with os.fdopen(self._answer) as pipe:
            return pipe.read()


# Python 3.12 warns of forks beside threads, which other tests may have left.
forking = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@forking
def test_fork_cannot_release_the_lock_of_its_parent(run, start):
    with RunLock(run.root) as lock:
        assert Fork(lock.release).ask() == "None"

        assert Owner.load(run.owner).pid == os.getpid()
        (run.root.parent / "go").touch()
        assert "is in use by process" in start().stdout.readline()


@forking
def test_fork_sees_the_lock_of_its_parent_as_that_of_another_process(run):
    with RunLock(run.root):
        while_held, afterwards = (Fork(lambda: is_held(run.root)) for _ in range(2))
        assert while_held.ask() == "True"

    assert afterwards.ask() == "False"


# Asking


def test_held_is_true_while_another_process_has_the_lock(run, holder):
    assert is_held(run.root)

    kill(holder)

    assert not is_held(run.root)


def test_held_by_another_host_is_told_by_its_signs_of_life(run):
    run.lock.touch()
    leave_owner(run, host="elsewhere", since=0)
    run.write_status("running")
    assert is_held(run.root)

    run.write_status("running", updated=time.time() - STALE_S - 1)
    assert not is_held(run.root)


@pytest.mark.parametrize(("age_s", "held"), [(0, True), (STALE_S + 1, False)])
def test_held_of_a_run_that_was_never_locked_is_told_by_its_signs_of_life(run, age_s, held):
    run.write_status("running", updated=time.time() - age_s)

    assert is_held(run.root) is held


@pytest.mark.parametrize("text", ["", "{", "[]", '{"host": "x"}', '{"host": 1, "pid": []}'])
def test_owner_that_cannot_be_read_is_none(run, text):
    run.owner.write_text(text)

    assert Owner.load(run.owner) is None
    with RunLock(run.root):
        assert is_held(run.root)


# Other hosts, whose locks may be invisible here


def test_lock_left_by_another_host_long_ago_is_taken_over(run):
    leave_owner(run, host="elsewhere", since=0)

    with RunLock(run.root):
        assert Owner.load(run.owner).is_here


def test_lock_left_by_another_host_is_taken_over_once_it_is_silent_for_long(run, caplog):
    leave_owner(run, host="elsewhere")

    with caplog.at_level(logging.INFO), RunLock(run.root, stale_s=0.3):
        assert "for a sign of life of process" in caplog.text


def test_lock_whose_owner_on_another_host_gives_signs_of_life_is_refused(run):
    leave_owner(run, host="elsewhere", pid=4711)
    done = threading.Event()

    def beat():
        while not done.wait(0.05):
            run.write_status("running")

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(RunInUseError, match="stop it on elsewhere: kill 4711"):
            RunLock(run.root).acquire()
    finally:
        done.set()
        thread.join()


# File systems without locks


def test_lock_without_locks_is_taken_and_given_back(run, without_locks):
    with RunLock(run.root):
        assert is_held(run.root)

    assert not is_held(run.root)


def test_lock_without_locks_is_refused_while_its_owner_lives(run, holder, without_locks):
    with pytest.raises(RunInUseError, match=f"kill {holder.pid}"):
        RunLock(run.root).acquire()
    assert is_held(run.root)


def test_lock_without_locks_is_taken_from_a_process_that_is_gone(run, without_locks):
    leave_owner(run)

    with RunLock(run.root):
        assert is_held(run.root)


def test_lock_without_locks_is_taken_from_a_process_whose_number_is_another_ones(
    run, without_locks
):
    leave_owner(run, pid=os.getppid(), birth="an earlier boot/1")

    with RunLock(run.root):
        assert Owner.load(run.owner).pid == os.getpid()


def test_lock_without_locks_is_taken_from_a_process_that_nobody_has_buried(
    run, holder, without_locks
):
    holder.kill()
    # It has ended and is not waited for: its number is still taken.
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)

    with RunLock(run.root):
        assert Owner.load(run.owner).pid == os.getpid()


def test_lock_without_locks_goes_to_whoever_writes_last(run, without_locks):
    def intrude():
        while not run.owner.exists():
            time.sleep(0.001)
        leave_owner(run, pid=os.getppid())

    thread = threading.Thread(target=intrude)
    thread.start()

    with pytest.raises(RunInUseError, match=f"process {os.getppid()} on"):
        RunLock(run.root).acquire()
    thread.join()


def test_process_of_somebody_else_counts_as_running():
    # The first process belongs to root; for root itself it is just another process.
    assert Owner(socket.gethostname(), 1, 0.0).is_running
