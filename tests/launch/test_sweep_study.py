"""The storage of a local sweep: claims, takeovers, and what can be wrong with it."""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import types

import pytest
import sqlalchemy

from jade.errors import ConfigError, StorageError
from jade.launch.search import BayesSearch, RandomSearch
from jade.launch.sweep_folder import SweepFolder
from jade.launch.sweep_storage import hide_password, open_storage
from jade.launch.sweep_study import SweepStudy
from jade.launch.sweep_worker import Attendance, Worker
from jade.owner import Owner
from jade.sweep import Point, load_sweep


def points(number):
    return [Point({"a": value}, {}) for value in range(number)]


def open_study(where, *, goal="minimize", create=True):
    study = SweepStudy(open_storage(str(where)), "s", goal, Worker())
    if create:
        study.create({"method": "grid", "goal": goal})
    study.beat()
    return study


def work(where, numbers, killed_after=None):
    """Claim and finish points; with a limit, die in the middle of the last one."""
    study = open_study(where, create=False)
    while True:
        claim = study.claim()
        if claim is None:
            return
        numbers.put(claim.number)
        if killed_after is not None:
            killed_after -= 1
            if killed_after == 0:
                numbers.close()
                numbers.join_thread()
                os.kill(os.getpid(), signal.SIGKILL)
        study.finish(claim, "COMPLETE", float(claim.values["a"]), {})


@pytest.fixture(params=["journal", "sqlite"])
def where(request, tmp_path):
    kinds = {"journal": tmp_path / "journal.log", "sqlite": f"sqlite:///{tmp_path}/study.db"}
    return str(kinds[request.param])


def test_each_point_is_claimed_once_by_many_processes(where):
    # A database takes its time for each.
    number = 16 if "sqlite" in where else 60
    study = open_study(where)
    study.add_points(points(number))
    context = multiprocessing.get_context("spawn")
    numbers = context.Queue()
    workers = [context.Process(target=work, args=(where, numbers)) for _ in range(4)]

    for worker in workers:
        worker.start()
    claimed = [numbers.get(timeout=60) for _ in range(number)]
    for worker in workers:
        worker.join(60)

    assert sorted(claimed) == list(range(number))
    assert numbers.empty()
    assert [view.state for view in study.views()] == ["complete"] * number
    assert [view.value for view in study.views()] == [float(value) for value in range(number)]


TRY_LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def test_nobody_else_claims_while_a_point_is_claimed(where):
    path = where.removeprefix("sqlite:///") + ".lock"
    study = open_study(where)
    tried = []

    def draw(*_):
        tried.append(subprocess.run([sys.executable, "-c", TRY_LOCK, path], capture_output=True))

    assert study.claim(draw) is None
    draw()

    assert [result.returncode for result in tried] == [1, 0]
    assert b"BlockingIOError" in tried[0].stderr


def test_a_point_of_a_killed_worker_is_taken_over(where):
    study = open_study(where)
    study.add_points(points(3))
    context = multiprocessing.get_context("spawn")
    numbers = context.Queue()
    worker = context.Process(target=work, args=(where, numbers, 2))
    worker.start()
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL

    claims = [study.claim() for _ in range(3)]

    assert [(claim.number, claim.was_left) for claim in claims[:2]] == [(1, True), (2, False)]
    assert claims[2] is None


def test_a_worker_of_another_host_is_gone_once_it_has_been_silent(monkeypatch):
    there = Owner("elsewhere", 1, time.time())
    record = {**Worker(owner=there).record(), "beat": 100.0}
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "time", lambda: 190.0)
    attendance = Attendance(stale_s=60.0)

    # Its clock may be a minute late: what counts is what we see.
    assert attendance.is_alive("w", record)
    clock[0] += 59
    assert attendance.is_alive("w", record)
    clock[0] += 2
    assert not attendance.is_alive("w", record)
    assert attendance.is_alive("w", {**record, "beat": 131.0})
    assert not attendance.is_alive("w", {**record, "beat": 132.0, "ended": True})
    assert not attendance.is_alive("unknown", None)
    # One that has been away for longer than clocks differ is not waited for.
    monkeypatch.setattr(time, "time", lambda: 100.0 + 3601)
    assert not Attendance().is_alive("w", record)


def test_a_clock_that_is_ahead_delays_nothing(monkeypatch):
    record = {**Worker(owner=Owner("elsewhere", 1, 0.0)).record(), "beat": time.time() + 9999}
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    attendance = Attendance(stale_s=60.0)

    assert attendance.is_alive("w", record)
    clock[0] += 61
    assert not attendance.is_alive("w", record)


def test_points_are_added_once(where):
    study = open_study(where)

    assert study.add_points(points(2)) == 2
    assert open_study(where).add_points(points(3)) == 1
    assert [view.values["a"] for view in study.views()] == [0, 1, 2]


def test_more_repetitions_let_a_finished_point_wait_again(tmp_path):
    study = open_study(tmp_path / "j.log")
    study.add_points(points(1))
    study.finish(study.claim(), "COMPLETE", 1.0, {})

    assert study.add_points(points(1)) == 0
    assert study.add_points(points(1), 3) == 1
    assert study.claim().repetitions == 3


def test_points_that_are_no_longer_in_the_file_are_not_run(where):
    study, other = open_study(where), open_study(where)
    study.add_points(points(4))
    study.finish(study.claim(), "FAIL", None, {})
    left = study.claim()
    study.release(left)
    assert study.add_points(points(4)[3:]) == 0

    claim = other.claim()

    assert (claim.values, other.claim()) == ({"a": 3}, None)
    assert study.retry_failed() == 0
    assert [view.state for view in study.views()] == ["removed"] * 3 + ["running"]
    # What comes back is run again.
    assert study.add_points(points(4)) == 0
    assert [study.claim().values["a"] for _ in range(2)] == [1, 2]


def test_only_failed_points_are_tried_again(where):
    study = open_study(where)
    study.add_points(points(2))
    study.finish(study.claim(), "FAIL", None, {"reason": "x"})
    study.finish(study.claim(), "COMPLETE", 1.0, {})

    assert study.retry_failed() == 1
    claim = study.claim()

    assert (claim.values, claim.attempt) == ({"a": 0}, 2)
    assert study.claim() is None
    assert study.retry_failed() == 0


def test_whoever_is_alone_with_a_storage_does_not_wait_for_itself(where):
    place = open_storage(where)
    is_held = []

    @contextlib.contextmanager
    def held_once():
        # As the row of a database is, which a second connection waits for.
        assert not is_held
        is_held.append(True)
        with place.held():
            yield
        is_held.clear()

    study = SweepStudy(dataclasses.replace(place, held=held_once), "s", "minimize", Worker())
    study.create({"method": "grid", "goal": "minimize"})
    study.beat()
    study.add_points(points(3))

    assert study.adopt(study.views()[0].key, 1.0, {"reused": True})
    study.release(study.claim())
    study.finish(study.claim(), "FAIL", None, {})
    assert study.retry_failed() == 1

    assert [view.state for view in study.views()] == ["complete", "waiting", "waiting"]


def test_a_released_point_is_given_out_again(where):
    study, other = open_study(where), open_study(where)
    study.add_points(points(1))
    claim = study.claim()
    assert other.claim() is None

    study.release(claim)

    assert other.claim().was_left
    assert not study.finish(claim, "COMPLETE", 1.0, {})


def test_a_study_of_another_sweep_is_refused(where):
    study = open_study(where)
    study.add_points(points(1))
    study.finish(study.claim(), "COMPLETE", 1.0, {})

    with pytest.raises(ConfigError, match="has another sweep 's': method was 'grid' and is 'ran"):
        SweepStudy(open_storage(where), "s", "minimize", Worker()).create({"method": "random"})


def test_a_sweep_without_results_may_still_change(where):
    open_study(where).add_points(points(1))

    study = SweepStudy(open_storage(where), "s", "minimize", Worker())
    study.create({"method": "random", "goal": "minimize"})

    assert study.attributes()["jade:facts"]["method"] == "random"


def test_a_study_that_is_no_sweep_is_refused(where):
    import optuna

    optuna.create_study(study_name="s", storage=open_storage(where).storage)

    with pytest.raises(ConfigError, match="that is no sweep of JADE"):
        open_study(where)


def test_optuna_itself_reads_the_journal(tmp_path):
    import optuna
    from optuna.storages.journal import JournalFileBackend

    study = open_study(tmp_path / "j.log", goal="maximize")
    study.add_points(points(3))
    study.finish(study.claim(), "COMPLETE", 4.0, {})

    storage = optuna.storages.JournalStorage(JournalFileBackend(str(tmp_path / "j.log")))
    found = optuna.load_study(study_name="s", storage=storage)

    assert found.best_value == 4.0
    assert len(found.trials) == 3


def test_a_line_that_was_cut_is_dropped_by_the_next_writer(tmp_path):
    path = tmp_path / "j.log"
    open_study(path).add_points(points(2))
    with path.open("ab") as file:
        file.write(b'{"op_code": 4, "study')

    study = open_study(path)
    study.finish(study.claim(), "COMPLETE", 1.0, {})

    assert [view.state for view in open_study(path).views()] == ["complete", "waiting"]
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_full_disk_leaves_the_journal_whole(tmp_path):
    path = tmp_path / "j.log"
    study = open_study(path)
    study.add_points(points(2))
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # As much as a part of the next line.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"The storage .*j\.log: File too large"):
            study.claim()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert path.read_bytes() == before
    assert study.claim().number == 0
    assert open_study(path).claim().number == 1


def test_a_file_that_is_no_journal_is_named_with_the_line(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")

    with pytest.raises(ConfigError, match=r"notes.txt:1 is no line of a sweep's journal"):
        open_storage(str(path))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nosql://host/name", "Write sqlite:///FILE"),
        ("{folder}", "is a folder; name a file in it"),
        ("mysql+nothing://host/name", "mysql"),
        ("mysql+pymysql://host/name", "needs the package pymysql: install it"),
    ],
)
def test_an_unknown_storage_is_refused(tmp_path, where, message):
    with pytest.raises(ConfigError, match=message):
        open_storage(where.format(folder=tmp_path))


def test_a_database_that_cannot_be_opened_is_an_error_of_the_storage(tmp_path):
    (tmp_path / "broken.db").write_bytes(b"no database" * 100)

    with pytest.raises(StorageError, match="file is not a database"):
        open_storage(f"sqlite:///{tmp_path}/broken.db")


def test_a_locked_database_is_an_error_of_the_storage(tmp_path, monkeypatch):
    monkeypatch.setattr("jade.launch.sweep_storage.BUSY_S", 0.1)
    path = tmp_path / "study.db"
    study = open_study(f"sqlite:///{path}")
    connection = sqlite3.connect(path)
    connection.execute("BEGIN EXCLUSIVE")

    with pytest.raises(StorageError, match="database is locked"):
        study.beat()
    connection.rollback()
    connection.close()

    study.beat()


HOLD = (
    "import fcntl, sys, time; file = open(sys.argv[1], 'r+'); fcntl.lockf(file, fcntl.LOCK_EX); "
    "print(flush=True); time.sleep(60)"
)


def test_a_lock_that_another_process_keeps_is_an_error_of_the_storage(where, monkeypatch):
    monkeypatch.setattr("jade.launch.sweep_journal.PATIENCE_S", 0.1)
    study = open_study(where)
    path = where.removeprefix("sqlite:///") + ".lock"
    command = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(StorageError, match=r"Another process holds the lock .*\.lock"):
            study.beat()
        # Whoever wants to leave waits for nobody.
        monkeypatch.setattr("jade.launch.sweep_journal.PATIENCE_S", 3600)
        monkeypatch.setattr("jade.launch.sweep_journal.HURRY_S", 0.1)
        study.hurry()
        with pytest.raises(StorageError, match="Another process holds the lock"):
            study.beat()
        holder.kill()

    study.beat()


def test_a_database_that_nobody_answers_for_is_an_error_of_the_storage(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"mysql+pymysql://me:secret@127.0.0.1:{taken.getsockname()[1]}/name"
        connects = []

        class Refusing(types.ModuleType):
            """A driver, of which none is needed here; what it raises is what drivers raise."""

            paramstyle, __version__ = "pyformat", "1.1.0"
            Error = OperationalError = type("OperationalError", (Exception,), {})

            def connect(self, *_, **options):
                connects.append(options)
                socket.create_connection((options["host"], options["port"]))

        monkeypatch.setitem(sys.modules, "pymysql", Refusing("pymysql"))
        with pytest.raises(StorageError, match=r"me:\*\*\*@.*refused"):
            open_storage(url)

    assert connects[0]["connect_timeout"] == 10


def test_trials_that_have_ended_are_read_from_a_database_once(tmp_path):
    study = open_study(f"sqlite:///{tmp_path}/study.db")
    study.add_points(points(20))
    for _ in range(19):
        study.finish(study.claim(), "COMPLETE", 1.0, {})
    study.views()
    statements = []
    engine = study.storage._backend.engine
    sqlalchemy.event.listen(
        engine, "before_cursor_execute", lambda *given: statements.append((given[2], given[3]))
    )

    assert study.claim().number == 19

    read = [given for text, given in statements if "FROM trial_user_attributes" in text]
    assert read
    assert all(len(given) <= 3 for given in read), read


def test_passwords_are_not_shown():
    assert hide_password("postgresql://me:secret@host/name") == "postgresql://me:***@host/name"


def test_a_storage_is_remembered_without_its_password_and_not_exchanged(tmp_path):
    folder = SweepFolder(tmp_path / "s")
    secret = "postgresql://me:secret@host/name"
    assert folder.find_storage(secret) == secret
    folder.create("method: grid\n", "s", secret)

    assert "secret" not in "".join(
        path.read_text() for path in folder.root.glob("*") if path.is_file()
    )
    assert folder.find_storage(secret) == secret
    for given in (None, "postgresql://me:secret@other/name", str(folder.journal)):
        with pytest.raises(ConfigError, match=r"is postgresql://me:\*\*\*@host/name"):
            folder.find_storage(given)


def test_a_storage_in_a_file_means_the_same_in_every_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert SweepFolder(tmp_path / "s").find_storage("sqlite:///x.db?timeout=3") == (
        f"sqlite:///{tmp_path}/x.db?timeout=3"
    )
    assert SweepFolder(tmp_path / "s").find_storage("x.log") == f"{tmp_path}/x.log"
    with pytest.raises(ConfigError, match="is lost with this process"):
        open_storage("sqlite:///:memory:")


@pytest.fixture
def sweep_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()

    def load(parameters, method, **more):
        head = "".join(f"{key}: {value}\n" for key, value in more.items())
        path = tmp_path / "sweep.yml"
        path.write_text(f"program: train.py\nmethod: {method}\n{head}parameters: {parameters}\n")
        return load_sweep(path)

    return load


def test_a_random_search_gives_the_same_points_to_whoever_asks(tmp_path, sweep_file):
    sweep = sweep_file("{a: {min: 0.0, max: 1.0}}", "random")
    draw = RandomSearch(sweep, 4)
    one, other = open_study(tmp_path / "j.log"), open_study(tmp_path / "j.log")

    drawn = [study.claim(draw).values["a"] for study in (one, other, one, other)]

    assert drawn == [sweep.draw(index).values["a"] for index in range(4)]
    assert one.claim(draw) is None


def test_a_random_search_ends_when_all_points_are_known(tmp_path, sweep_file):
    study = open_study(tmp_path / "j.log")
    draw = RandomSearch(sweep_file("{a: {values: [1, 2]}}", "random"), None)

    assert {study.claim(draw).values["a"] for _ in range(2)} == {1, 2}
    assert study.claim(draw) is None


PARAMETERS = """{lr: {distribution: log_uniform_values, min: 1.0e-4, max: 1.0}, n: {min: 1, max: 9},
  kind: {values: [[1, 2], null, x]}, drop: {distribution: beta, a: 2, b: 2}, u: {min: 0.0, max: 2.0},
  w: {distribution: q_normal, mu: 0, sigma: 3}, c: {value: 5},
  p: {values: [1, 2], probabilities: [0.9, 0.1]}}"""


def test_a_bayesian_search_draws_all_distributions_and_improves(tmp_path, sweep_file):
    metric = "{name: m, goal: minimize}"
    sweep = sweep_file(PARAMETERS, "bayes", metric=metric)
    study, draw = open_study(tmp_path / "j.log"), BayesSearch(sweep, 40)
    losses = []
    while (claim := study.claim(draw)) is not None:
        values = claim.values
        assert 1e-4 <= values["lr"] <= 1
        assert 1 <= values["n"] <= 9
        assert 0 <= values["drop"] <= 1
        assert values["kind"] in ([1, 2], None, "x")
        assert values["c"] == 5
        assert values["p"] in (1, 2)
        assert isinstance(values["w"], int)
        assert 0 <= values["u"] <= 2
        losses.append((values["u"] - 1) ** 2 + (values["kind"] is not None))
        study.finish(claim, "COMPLETE", losses[-1], {})

    assert len(losses) == 40
    assert sum(losses[20:]) < sum(losses[:20])


def test_a_bayesian_search_ends_when_all_points_are_known(tmp_path, sweep_file):
    sweep = sweep_file("{a: {values: [1, 2]}}", "bayes", metric="{name: m}", jade="{zip: []}")
    study, draw = open_study(tmp_path / "j.log"), BayesSearch(sweep, None)
    for _ in range(2):
        claim = study.claim(draw)
        study.finish(claim, "COMPLETE", float(claim.values["a"]), {})

    assert study.claim(draw) is None


def test_a_search_cannot_go_on_with_other_values(tmp_path, sweep_file):
    study = open_study(tmp_path / "j.log")
    first = BayesSearch(sweep_file("{a: {values: [1, 2]}}", "bayes", metric="{name: m}"), None)
    study.finish(study.claim(first), "COMPLETE", 1.0, {})
    other = BayesSearch(sweep_file("{a: {values: [1, 3]}}", "bayes", metric="{name: m}"), None)

    with pytest.raises(ConfigError, match="have changed"):
        study.claim(other)

    # The file is as before, and so is the search.
    assert study.claim(first).values == {"a": 2}
    assert {trial.state.name for trial in study.storage.get_all_trials(study.study_id)} == {
        "COMPLETE",
        "FAIL",
        "RUNNING",
    }


@pytest.mark.parametrize("last", ["index", "repetitions"])
def test_a_search_goes_on_after_a_kill_in_the_middle_of_a_claim(tmp_path, sweep_file, last):
    where = str(tmp_path / "journal.log")
    sweep = sweep_file("{a: {min: 0.0, max: 1.0}}", "bayes", metric="{name: m}")
    context = multiprocessing.get_context("spawn")
    open_study(where)
    worker = context.Process(target=claim_until, args=(where, sweep, last))
    worker.start()
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL

    study, draw = open_study(where), BayesSearch(sweep, 1)
    claim = study.claim(draw)

    assert 0 <= claim.values["a"] <= 1
    assert study.finish(claim, "COMPLETE", 1.0, {})
    assert study.claim(draw) is None
    assert [view.state for view in study.views()] == ["complete"]


def claim_until(where, sweep, last):
    """Claim a point of a search, and die once an attribute of its trial is written."""
    study = open_study(where)
    write = study.storage.set_trial_user_attr

    def write_and_die(trial_id, key, value):
        write(trial_id, key, value)
        if key == last:
            os.kill(os.getpid(), signal.SIGKILL)

    study.storage.set_trial_user_attr = write_and_die
    study.claim(BayesSearch(sweep, None))


def test_job_that_begins_again_takes_over_its_own_points_at_once(tmp_path):
    """Its former process was on another machine, of which nobody can tell whether it runs."""
    where = tmp_path / "journal.log"
    first = open_study(where)
    elsewhere = Owner("elsewhere", 1, time.time())
    first.worker = Worker(owner=elsewhere, job="7_1")
    first.beat()
    first.add_points(points(1), 1)
    claim = first.claim()

    other = open_study(where, create=False)
    other.worker = Worker(job="7_2", restarts=1)
    assert other.claim() is None
    beside = open_study(where, create=False)
    beside.worker = Worker(job="7_1")
    assert beside.claim() is None
    again = open_study(where, create=False)
    again.worker = Worker(job="7_1", restarts=1)
    assert again.claim().key == claim.key


def test_only_a_job_that_was_queued_again_has_replaced_its_workers(monkeypatch):
    """Two workers of one job, as `srun -n 2` starts them, are no former processes of each other."""
    elsewhere, gone = Owner("elsewhere", 1, 0.0), Owner(socket.gethostname(), 2**22, 0.0)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    before = Worker(owner=elsewhere)
    beside = Worker(owner=elsewhere)
    here = Worker()
    ended = Worker(owner=gone)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    again = Worker()

    assert not before.has_replaced(beside.name, beside.record())
    assert not before.has_replaced(again.name, again.record())
    assert again.has_replaced(before.name, before.record())
    assert again.has_replaced(ended.name, ended.record())
    assert not again.has_replaced(here.name, here.record())
    assert not again.has_replaced(again.name, again.record())
    assert not Worker(job="8", restarts=2).has_replaced(before.name, before.record())
