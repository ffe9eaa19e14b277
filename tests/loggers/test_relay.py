"""W&B in a process of its own: the real client in it, a server on loopback at its other end."""

import enum
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from contract import LoggerContract, run_in
from test_wandb_logger import read_history

from jade.errors import ConfigError
from jade.loggers import LoggerGroup, wandb_questions
from jade.loggers.relay import Relay, RelayProcess
from jade.loggers.wandb_patience import RETRIES
from jade.media import Media, write

ROOT = Path(__file__).parents[2]


def wait_until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def relay(tmp_path):
    """Make relays that are finished at the end, whatever the test does."""
    made = []

    def make(mode="online", **environ):
        relay = Relay(mode, {**os.environ, **environ})
        made.append(relay)
        return relay

    yield make
    for relay in made:
        relay.finish(0)


class TestRelayContract(LoggerContract):
    """Offline, where the client writes a file that can be read back."""

    @pytest.fixture(autouse=True)
    def offline(self, monkeypatch):
        monkeypatch.delenv("WANDB_MODE")

    def make(self):
        return Relay("offline", dict(os.environ))

    def read(self, directory):
        return {
            step: {name: value for name, value in row.items() if not isinstance(value, dict)}
            for step, row in read_history(directory).items()
        }


def test_what_is_logged_arrives_with_configuration_summary_files_and_console(
    wandb_online, tmp_path, relay, capsys
):
    logger = relay()
    logger.start(run_in(tmp_path, name="n", group="g", tags=("t",), notes="why", job_type="train"))
    for step in range(1, 301):
        logger.log({"loss": 1 / step, "epoch": 1}, step)
    path = write(Media("table", [{"a": 1, "b": "x"}]), tmp_path / "table")
    logger.log_media("Table", Media("table", [{"a": 1, "b": "x"}]), path, 300)
    weights = Media("histogram", [1.0, 2.0, 2.0])
    logger.log_media("Weights", weights, write(weights, tmp_path / "weights"), 300)
    logger.summarize({"best/loss": 0.1})
    print("a line of the user")
    (tmp_path / "last.pt").write_bytes(b"weights")
    logger.upload(tmp_path / "last.pt", "jade/last.pt")
    logger.finish(0)

    run = wandb_online.runs["run1"]
    assert (run.state, run.exit_code) == ("finished", 0)
    assert [row["iteration"] for row in run.history] == list(range(1, 301))
    assert run.history[-1]["loss"] == 1 / 300
    assert run.history[-1]["Table"]["_type"] == "table-file"
    assert sum(run.history[-1]["Weights"]["values"]) == 3
    assert run.config["model"] == {"params": {"beta": 0.1, "path": "$DATA"}}
    assert run.summary["best/loss"] == 0.1
    assert (run.display_name, run.group, run.tags, run.job_type) == ("n", "g", ["t"], "train")
    assert run.files["jade/last.pt"] == b"weights"
    assert any("a line of the user" in line for line in run.output)
    assert capsys.readouterr().out == "a line of the user\n"


def test_program_and_process_that_are_shown_are_those_of_training(
    wandb_online, tmp_path, relay, monkeypatch
):
    monkeypatch.setattr(sys, "argv", ["train.py", "--epochs=3", "--api_key=private"])
    logger = relay(WANDB_X_STATS_SAMPLING_INTERVAL="0.1")
    logger.start(run_in(tmp_path))
    logger.log({"loss": 1.0}, 1)
    run = wandb_online.runs["run1"]
    # While it is going on, and not only in the end.
    wandb_online.wait_until(lambda: run.events)
    assert run.state == "running"
    logger.finish(0)
    metadata = json.loads(run.files["wandb-metadata.json"])
    assert metadata["args"] == ["--epochs=3", "--api_key=***"]
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    own_mb = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    assert run.events[-1]["system.proc.memory.rssMB"] == pytest.approx(own_mb, rel=0.2)


def test_slow_server_neither_keeps_training_waiting_nor_loses_a_row(wandb_online, tmp_path, relay):
    wandb_online.faults.delay_s = 0.1
    logger = relay()
    logger.start(run_in(tmp_path))
    wandb_online.faults.hold("file_stream")
    for step in range(500):
        logger.log({"loss": 1 / (step + 1)}, step)
    assert wandb_online.runs["run1"].state == "running"
    wandb_online.faults.clear()
    wandb_online.faults.delay_s = 0.1
    logger.finish(0)
    run = wandb_online.runs["run1"]
    assert [row["iteration"] for row in run.history] == list(range(500))
    assert run.state == "finished"


def test_offline_start_waits_for_nothing(tmp_path, relay, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    process = RelayProcess(dict(os.environ))
    # Whoever has to answer is asleep.
    os.kill(process.pid, signal.SIGSTOP)
    logger = Relay("offline", dict(os.environ), process)
    logger.start(run_in(tmp_path))
    logger.log({"loss": 1.0}, 1)
    os.kill(process.pid, signal.SIGCONT)
    logger.finish(0)
    assert read_history(tmp_path) == {1: {"loss": 1.0}}


def test_offline_start_that_fails_is_said(tmp_path, relay, monkeypatch, caplog):
    monkeypatch.delenv("WANDB_MODE")
    logger = relay("offline", WANDB_CONSOLE="nonsense")
    with caplog.at_level(logging.WARNING, logger="jade"):
        logger.start(run_in(tmp_path))
        logger.log({"loss": 1.0}, 1)
        logger.finish(0)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("W&B is left out, it cannot start: ")
    assert "console" in message


class Metric(str, enum.Enum):
    """What the other process cannot import."""

    LOSS = "loss"


def test_values_of_the_users_own_classes_arrive_as_plain_ones(
    wandb_online, tmp_path, relay, caplog
):
    table = Media("table", [{"a": Metric.LOSS, "b": lambda: None}])
    logger = relay()
    logger.start(run_in(tmp_path))
    logger.log({Metric.LOSS: 1.0}, 1)
    logger.log_media("Table", table, write(table, tmp_path / "table"), 1)
    logger.finish(0)
    (row,) = wandb_online.runs["run1"].history
    assert row["loss"] == 1.0
    assert row["Table"]["nrows"] == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_what_can_be_printed_nowhere_else_does_not_end_the_process(
    wandb_online, tmp_path, relay, caplog
):
    logger = relay(PYTHONIOENCODING="ascii:strict")
    logger.start(run_in(tmp_path))
    logger._console._show("caf\u00e9 \udcff\n")
    logger.log({"loss": 1.0}, 1)
    logger.finish(0)
    run = wandb_online.runs["run1"]
    assert [row["loss"] for row in run.history] == [1.0]
    assert any("caf\u00e9 \\udcff" in line for line in run.output)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_wrong_key_is_refused_before_training(wandb_online, tmp_path, relay):
    logger = relay(WANDB_API_KEY="f" * 40)
    with pytest.raises(ConfigError, match=r"refuses the key.*wandb login --relogin"):
        logger.start(run_in(tmp_path))
    assert wandb_online.runs == {}


def test_server_that_is_away_makes_the_run_offline(
    wandb_online, tmp_path, relay, caplog, monkeypatch
):
    wandb_online.close_door()
    group = LoggerGroup([relay(WANDB_INIT_TIMEOUT="1")])
    with caplog.at_level(logging.WARNING, logger="jade"):
        group.start(run_in(tmp_path))
        group.log({"loss": 1.0}, 1)
        assert not group.keeps_files
        group.finish(0)
    assert "cannot be reached" in caplog.text
    assert f"`jade sync {tmp_path}`" in caplog.text
    assert read_history(tmp_path) == {1: {"loss": 1.0}}


def test_process_that_dies_is_reported_once_and_training_goes_on(
    wandb_online, tmp_path, relay, caplog
):
    logger = relay()
    logger.start(run_in(tmp_path))
    with caplog.at_level(logging.WARNING, logger="jade"):
        os.kill(logger._process.pid, signal.SIGKILL)
        wait_until(lambda: logger._is_gone)
        for step in range(100):
            logger.log({"loss": 1.0}, step)
        # Nobody takes it away, so nothing is kept.
        assert len(logger._messages) <= 1
        logger.finish(0)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "W&B has not got everything" in message
    assert f"`jade sync {tmp_path}`" in message


def test_wish_to_stop_reaches_training(wandb_online, tmp_path, relay, monkeypatch):
    wishes = []
    logger = relay()
    logger.on_stop_wish(lambda: wishes.append(True))
    logger.start(run_in(tmp_path))
    assert not logger.is_stop_wanted()
    wandb_online.stop_run("run1")
    logger.log({"loss": 1.0}, 1)
    # The client asks every 15 seconds.
    wait_until(lambda: wishes, seconds=60)
    assert logger.is_stop_wanted()


def test_in_a_sweep_the_server_is_asked_whether_a_signal_is_its_wish(wandb_online, tmp_path, relay):
    sweep = wandb_online.create_sweep("method: grid\nparameters: {a: {values: [1]}}\n")
    logger = relay(WANDB_SWEEP_ID=sweep, WANDB_RUN_ID="run1")
    logger.start(run_in(tmp_path))
    assert not logger.is_stop_wanted()
    wandb_online.stop_run("run1")
    assert logger.is_stop_wanted()


def test_user_interrupt_and_signals_to_the_group_do_not_end_the_process(wandb_online, tmp_path):
    script = textwrap.dedent(
        f"""
        import os, signal, sys
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(ROOT / "tests")!r}]
        from contract import run_in
        from pathlib import Path
        from jade.loggers.relay import Relay
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        logger = Relay("online", dict(os.environ))
        logger.start(run_in(Path({str(tmp_path)!r})))
        logger.log({{"loss": 1.0}}, 1)
        os.killpg(0, signal.SIGINT)
        os.killpg(0, signal.SIGTERM)
        logger.finish(0)
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True, start_new_session=True)
    run = wandb_online.runs["run1"]
    assert run.state == "finished"
    assert [row["loss"] for row in run.history] == [1.0]


def test_training_that_is_killed_loses_nothing_that_was_handed_over(wandb_online, tmp_path):
    script = textwrap.dedent(
        f"""
        import os, sys
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(ROOT / "tests")!r}]
        from contract import run_in
        from pathlib import Path
        from jade.loggers.relay import Relay
        logger = Relay("online", dict(os.environ))
        logger.start(run_in(Path({str(tmp_path)!r})))
        for step in range(50):
            logger.log({{"loss": 1.0}}, step)
        # The answer comes when all before it is done.
        logger.is_stop_wanted()
        os.kill(os.getpid(), 9)
        """
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: wandb_online.runs["run1"].state != "running")
    run = wandb_online.runs["run1"]
    assert run.state == "failed"
    assert len(run.history) == 50


def test_run_that_goes_on_waits_until_its_former_process_is_done(wandb_online, tmp_path, relay):
    script = textwrap.dedent(
        f"""
        import os, signal, sys
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(ROOT / "tests")!r}]
        from contract import run_in
        from pathlib import Path
        from jade.loggers.relay import Relay
        logger = Relay("online", dict(os.environ))
        logger.start(run_in(Path({str(tmp_path)!r})))
        for step in range(50):
            logger.log({{"loss": 1.0}}, step)
        # The answer comes when all before it is done.
        logger.is_stop_wanted()
        # It will not hear of our end before the next one has begun.
        os.kill(logger._process.pid, signal.SIGSTOP)
        print(logger._process.pid, flush=True)
        os.kill(os.getpid(), 9)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, stdout=subprocess.PIPE, text=True
    )
    # Enough for a start that waits for nobody.
    waker = threading.Timer(3.0, lambda: os.kill(int(done.stdout), signal.SIGCONT))
    waker.start()
    logger = relay()
    logger.start(run_in(tmp_path, resumed_at=49))
    for step in range(50, 60):
        logger.log({"loss": 1.0}, step)
    logger.finish(0)
    waker.join()
    time.sleep(1.0)
    run = wandb_online.runs["run1"]
    assert [row["iteration"] for row in run.history] == list(range(60))
    assert run.state == "finished"


def standing(pid):
    """Say how a process and its children stand beside others: policy, and niceness of session."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    sessions = [Path(f"/proc/{one}/autogroup") for one in (pid, *children)]
    policies = {os.sched_getscheduler(int(one)) for one in (pid, *children)}
    return len(children), policies, {int(s.read_text().split()[-1]) for s in sessions if s.exists()}


@pytest.mark.skipif(sys.platform != "linux", reason="how processes share processors is Linux' own")
def test_training_has_the_processors_first_until_it_waits(
    wandb_online, tmp_path, relay, monkeypatch
):
    monkeypatch.setattr("jade.loggers.relay.HURRIED_TIMEOUT_S", 0.1)
    process = RelayProcess(dict(os.environ))
    logger = Relay("online", dict(os.environ), process)
    logger.start(run_in(tmp_path))
    sessions = {10} if Path("/proc/self/autogroup").exists() else set()
    wait_until(lambda: standing(process.pid) == (1, {os.SCHED_BATCH}, sessions))
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    wandb_online.close_door()
    logger.finish(75)
    wait_until(lambda: standing(process.pid) == (1, {os.SCHED_OTHER}, {0} if sessions else set()))
    wandb_online.open_door()
    assert process.wait(30.0)


def test_stopped_run_leaves_to_its_process_what_the_server_does_not_take(
    wandb_online, tmp_path, relay, monkeypatch, caplog
):
    monkeypatch.setattr("jade.loggers.relay.HURRIED_TIMEOUT_S", 0.5)
    process = RelayProcess(dict(os.environ))
    logger = Relay("online", dict(os.environ), process)
    logger.start(run_in(tmp_path))
    wandb_online.close_door()
    for step in range(5):
        logger.log({"loss": 1.0}, step)
    logger.mark_preempting()
    with caplog.at_level(logging.WARNING, logger="jade"):
        logger.finish(75)
    # As at the end of training, whatever came of it.
    process.discard()
    assert "goes on trying" in caplog.text
    wandb_online.open_door()
    wandb_online.wait_until(lambda: wandb_online.runs["run1"].state == "preempted")
    assert len(wandb_online.runs["run1"].history) == 5
    assert process.wait(30.0)


def test_process_that_is_not_needed_is_gone_at_once():
    process = RelayProcess(dict(os.environ))
    pid = process.pid
    process.discard()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_warm_process_is_forked_with_wandb_in_it(wandb_online, tmp_path):
    script = textwrap.dedent(
        f"""
        import os, sys
        import wandb
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(ROOT / "tests")!r}]
        from pathlib import Path
        from jade.loggers.relay import Relay, RelayProcess
        process = RelayProcess(dict(os.environ))
        assert process.is_fork
        from contract import run_in
        logger = Relay("online", dict(os.environ), process)
        logger.start(run_in(Path({str(tmp_path)!r})))
        logger.log({{"loss": 1.0}}, 1)
        logger.finish(0)
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    run = wandb_online.runs["run1"]
    assert (run.state, len(run.history)) == ("finished", 1)


def test_question_to_a_server_that_fails_comes_to_an_end(wandb_online):
    """By itself, wandb would ask twenty times, and our end would wait for its."""
    wandb_online.faults.fail(500, match="graphql RunStopped")
    assert not wandb_questions.should_stop("team", "project", "run1")
    assert wandb_online.count("graphql", "RunStopped") == 1 + RETRIES
