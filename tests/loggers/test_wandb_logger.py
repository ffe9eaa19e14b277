"""The real W&B client writes offline files, or talks to a server on this machine's loopback."""

import base64
import json
import logging
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from contract import LoggerContract, run_in

from jade.errors import ConfigError
from jade.loggers import LoggerGroup
from jade.loggers.wandb_account import default_url, resolve_mode
from jade.loggers.wandb_logger import WandbLogger
from jade.media import Media, write

KEY = "k3y" + "0" * 37
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """Give W&B an empty home and none of the variables of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith("WAND") and name != "WANDB_SERVICE":
            monkeypatch.delenv(name)
    directory = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture(autouse=True, scope="module")
def service_ends_with_this_file():
    import wandb  # noqa: F401  so that the first test does not wait for it

    yield
    stop_service()


def stop_service():
    """End the client's service process; the next start reads the environment anew."""
    import wandb

    wandb.teardown()


def read_records(directory, *, within_s=5.0):
    """Return the records of a finished offline run as pairs of kind and record.

    The client's service writes the end of the file a moment after ``finish`` has returned.
    """
    (path,) = directory.glob("wandb/offline-run-*/*.wandb")
    deadline = time.monotonic() + within_s
    while True:
        records = [(item.WhichOneof("record_type"), item) for item in parse_records(path)]
        if any(kind == "exit" for kind, _ in records):
            return records
        assert time.monotonic() < deadline, f"{path} has no end"
        time.sleep(0.01)


def parse_records(path):
    """Yield the records of a .wandb file: blocks of 32 kB, each record in one or more parts."""
    from wandb.proto import wandb_internal_pb2

    data, position, content = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        left_in_block = 32768 - position % 32768
        if left_in_block < 7:
            position += left_in_block
            continue
        _, length, part = struct.unpack("<IHB", data[position : position + 7])
        position += 7 + length
        content += data[position - length : position]
        if part in (1, 4) and position <= len(data):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(content)
            content = b""
            yield record


def unflatten(items):
    """Return the values of a record, nested as they were logged."""
    values = {}
    for item in items:
        *outer, name = [item.key] if item.key else item.nested_key
        place = values
        for key in outer:
            place = place.setdefault(key, {})
        place[name] = json.loads(item.value_json)
    return values


def read_history(directory):
    """Return the logged values by step, without those that W&B adds."""
    history = {}
    for kind, record in read_records(directory):
        if kind == "history":
            row = unflatten(record.history.item)
            assert row["iteration"] == row["_step"] == record.history.step.num
            step = row.pop("iteration")
            history[step] = {name: value for name, value in row.items() if name[0] != "_"}
    return history


def started(directory, **details):
    logger = WandbLogger("offline")
    logger.start(run_in(directory, **details))
    return logger


class TestWandbLoggerContract(LoggerContract):
    def make(self):
        return WandbLogger("offline")

    def read(self, directory):
        return {
            step: {name: value for name, value in row.items() if not isinstance(value, dict)}
            for step, row in read_history(directory).items()
        }


class TestDisabledWandbLogger:
    def test_disabled_logger_accepts_everything_and_writes_nothing(self, tmp_path):
        logger = WandbLogger("disabled")
        logger.start(run_in(tmp_path))
        logger.log({"a": 1}, step=1)
        logger.log_media("x", Media("text", ""), tmp_path / "x", step=1)
        logger.summarize({"a": 1})
        logger.mark_preempting()
        logger.finish(0)
        assert list(tmp_path.iterdir()) == []


def test_offline_file_holds_config_details_axis_summary_and_exit_code(tmp_path):
    logger = started(
        tmp_path, name="n", group="g", tags=("t1", "t2"), notes="why", job_type="train"
    )
    logger.log({"loss": 0.5}, step=10)
    logger.log({"loss": 0.25}, step=20)
    logger.summarize({"best": {"loss": np.float32(0.25)}, "reason": "done", "at": [1, Path("x")]})
    logger.mark_preempting()
    logger.finish(75)

    records = read_records(tmp_path)
    run = next(record.run for kind, record in records if kind == "run")
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["model"] == {"params": {"beta": 0.1, "path": "$DATA"}}
    assert config["seed"] == 3
    assert (run.run_id, run.display_name, run.run_group) == ("run1", "n", "g")
    assert (list(run.tags), run.notes, run.job_type) == (["t1", "t2"], "why", "train")
    axes = [record.metric for kind, record in records if kind == "metric"]
    assert [(axis.name, axis.options.hidden) for axis in axes if axis.name] == [("iteration", True)]
    assert ("*", "iteration") in [(axis.glob_name, axis.step_metric) for axis in axes]
    updates = [i for kind, record in records if kind == "summary" for i in record.summary.update]
    summary = unflatten(updates)
    assert (summary["reason"], summary["best"]) == ("done", {"loss": 0.25})
    assert summary["at"] == [1, "x"]
    assert any(kind == "preempting" for kind, _ in records)
    assert [record.exit.exit_code for kind, record in records if kind == "exit"] == [75]
    assert read_history(tmp_path) == {10: {"loss": 0.5}, 20: {"loss": 0.25}}


@pytest.mark.parametrize(
    ("media", "type_"),
    [
        (Media("image", np.full((8, 8), 0.5), caption="gray"), "image-file"),
        (Media("images", np.zeros((3, 1, 4, 4))), "image-file"),
        (Media("histogram", [1.0, 2.0]), "histogram"),
        (Media("table", [{"a": 1}, {"a": "x"}]), "table-file"),
        (Media("text", "a < b"), "html-file"),
        (Media("audio", np.zeros(80), sample_rate=8000), "audio-file"),
    ],
)
def test_offline_media_is_recorded_with_its_file(tmp_path, media, type_):
    path = write(media, tmp_path / "file")
    logger = started(tmp_path)
    logger.log_media("val/x", media, path, step=4)
    logger.finish(0)

    value = read_history(tmp_path)[4]["val/x"]
    assert value["_type"] == type_
    if type_ == "image-file":
        (copy,) = tmp_path.glob(f"wandb/offline-run-*/files/{value['path']}")
        assert copy.read_bytes() == path.read_bytes()
    if type_ == "html-file":
        (copy,) = tmp_path.glob(f"wandb/offline-run-*/files/{value['path']}")
        assert "<pre>a &lt; b</pre>" in copy.read_text()


def test_offline_long_run_is_read_back_whole(tmp_path):
    logger = started(tmp_path)
    for step in range(400):
        logger.log({f"metric{number}": step + number for number in range(5)}, step)
    logger.finish(0)
    assert len(read_history(tmp_path)) == 400


def test_start_and_finish_leave_random_states_and_signal_handlers_alone(tmp_path):
    def states():
        handlers = [signal.getsignal(number) for number in signal.valid_signals()]
        numpy_state = np.random.get_state()
        return random.getstate(), str(numpy_state), torch.get_rng_state().tolist(), handlers

    before = states()
    logger = started(tmp_path)
    after_start = states()
    logger.log({"a": 1}, step=1)
    logger.finish(0)

    assert after_start == before
    assert states() == before


def test_api_key_is_in_no_file_of_the_run(tmp_path, monkeypatch):
    stop_service()
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    logger = started(tmp_path)
    logger.log({"a": 1}, step=1)
    logger.finish(0)
    stop_service()

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".wandb" for path in files)
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_auto_without_login_goes_offline_and_says_how_to_upload_once(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="jade"):
        logger = WandbLogger()
        logger.start(run_in(tmp_path))
        logger.log({"a": 1}, step=1)
        logger.finish(0)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "`wandb login`" in message
    assert f"`jade sync {tmp_path}`" in message
    assert logger.mode == "offline"


def test_offline_on_request_says_nothing(tmp_path, caplog, capfd):
    with caplog.at_level(logging.WARNING, logger="jade"):
        started(tmp_path).finish(0)
    assert caplog.records == []
    assert "wandb" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("WAND_USER", "WANDB_USER"), ("WANDB_PROJET", "WANDB_PROJECT"), ("wandb_mode", "WANDB_MODE")],
)
def test_misspelled_variable_is_pointed_out(tmp_path, monkeypatch, caplog, variable, meant):
    monkeypatch.setenv(variable, "me")
    with caplog.at_level(logging.WARNING, logger="jade"):
        started(tmp_path).finish(0)
    assert [record.getMessage() for record in caplog.records] == [
        f"The variable {variable} is not read. Did you mean {meant!r}?"
    ]


def test_variables_of_wandb_itself_are_not_pointed_out(tmp_path, monkeypatch, caplog):
    for name in ("WANDB_NAME", "WANDB_NOTES", "WANDB_USERNAME", "WANDB_RUN_GROUP"):
        monkeypatch.setenv(name, "x")
    with caplog.at_level(logging.WARNING, logger="jade"):
        started(tmp_path).finish(0)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("variables", "entity"),
    [
        ({"WANDB_USER": "u"}, "u"),
        ({"WANDB_ENTITY": "e", "WANDB_USER": "u"}, "e"),
        ({}, ""),
    ],
)
def test_project_and_entity_come_from_the_environment(tmp_path, variables, entity):
    logger = WandbLogger("offline", {"WANDB_PROJECT": "p", **variables})
    logger.start(run_in(tmp_path))
    logger.finish(0)
    run = next(record.run for kind, record in read_records(tmp_path) if kind == "run")
    assert (run.project, run.entity) == ("p", entity)


def test_trial_of_a_sweep_keeps_the_id_that_the_sweep_gave(tmp_path, monkeypatch, capfd):
    stop_service()
    given = {"SWEEP_ID": "s1", "RUN_ID": "trial7", "PROJECT": "p", "SILENT": "false"}
    for name, value in given.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    logger = started(tmp_path)
    logger.finish(0)
    stop_service()
    run = next(record.run for kind, record in read_records(tmp_path) if kind == "run")
    assert (run.run_id, run.sweep_id, run.project) == ("trial7", "s1", "p")
    assert "gnor" not in capfd.readouterr().err


def test_second_run_in_a_process_is_a_run_of_its_own(tmp_path):
    first = started(tmp_path / "first")
    second = started(tmp_path / "second")
    second.log({"a": 2}, step=2)
    second.finish(0)
    first.finish(0)
    assert read_history(tmp_path / "first") == {}
    assert read_history(tmp_path / "second") == {2: {"a": 2}}


# How the mode is chosen.


def save_netrc(home, host):
    (home / ".netrc").write_text(f"machine {host}\n  login user\n  password {KEY}\n")


def save_settings(path, **values):
    path.parent.mkdir(parents=True)
    path.write_text(
        "[default]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
    )


@pytest.mark.parametrize(
    ("mode", "environ", "resolved"),
    [
        ("auto", {}, "offline"),
        ("auto", {"WANDB_API_KEY": KEY}, "online"),
        ("auto", {"WANDB_IDENTITY_TOKEN_FILE": "/t"}, "online"),
        ("auto", {"WANDB_MODE": "offline", "WANDB_API_KEY": KEY}, "offline"),
        ("auto", {"WANDB_MODE": "dryrun"}, "offline"),
        ("auto", {"WANDB_MODE": "disabled"}, "disabled"),
        ("auto", {"WANDB_MODE": ""}, "offline"),
        ("online", {"WANDB_MODE": "disabled", "WANDB_API_KEY": KEY}, "online"),
        ("offline", {"WANDB_API_KEY": KEY}, "offline"),
        ("disabled", {"WANDB_MODE": "online"}, "disabled"),
    ],
)
def test_mode_follows_request_then_variables_then_login(home, mode, environ, resolved):
    assert resolve_mode(mode, {"HOME": str(home), **environ}) == resolved


@pytest.mark.parametrize(
    ("host", "environ", "resolved"),
    [
        ("api.wandb.ai", {}, "online"),
        ("elsewhere.org", {}, "offline"),
        ("wandb.lab.org:8080", {"WANDB_BASE_URL": "http://wandb.lab.org:8080"}, "online"),
        ("api.wandb.ai", {"WANDB_BASE_URL": "http://wandb.lab.org"}, "offline"),
    ],
)
def test_mode_auto_with_a_stored_key_is_online_for_its_host_only(home, host, environ, resolved):
    save_netrc(home, host)
    assert resolve_mode("auto", {"HOME": str(home), **environ}) == resolved


def test_mode_auto_reads_the_netrc_that_is_named(home, tmp_path):
    save_netrc(tmp_path, "api.wandb.ai")
    environ = {"HOME": str(home), "NETRC": str(tmp_path / ".netrc")}
    assert resolve_mode("auto", environ) == "online"


def test_mode_auto_with_a_broken_netrc_is_offline(home):
    (home / ".netrc").write_text("machine api.wandb.ai\n  pasword x\n")
    assert resolve_mode("auto", {"HOME": str(home)}) == "offline"


def test_mode_auto_reads_the_settings_files_of_wandb(home):
    environ = {"HOME": str(home)}
    save_settings(home / ".config" / "wandb" / "settings", base_url="https://wandb.lab.org")
    save_netrc(home, "wandb.lab.org")
    assert resolve_mode("auto", environ) == "online"
    # What `wandb offline` stores in the working directory, here the home.
    save_settings(home / "wandb" / "settings", mode="offline")
    assert resolve_mode("auto", environ) == "offline"
    assert resolve_mode("online", environ) == "online"


def test_mode_auto_with_a_key_in_the_settings_file_is_online(home):
    save_settings(home / ".config" / "wandb" / "settings", api_key=KEY)
    assert resolve_mode("auto", {"HOME": str(home)}) == "online"


def test_mode_auto_with_broken_settings_is_as_without(home):
    (home / "wandb").mkdir()
    (home / "wandb" / "settings").write_text("no section = 1\n")
    assert resolve_mode("auto", {"HOME": str(home), "WANDB_API_KEY": KEY}) == "online"


def test_stored_login_is_found_where_wandb_stores_it(home):
    from wandb.sdk.lib import wbauth

    wbauth.write_netrc_auth(host="https://api.wandb.ai", api_key=KEY)
    assert resolve_mode("auto", {"HOME": str(home)}) == "online"


def test_default_host_is_the_one_of_the_installed_package(home):
    # It has moved once: a host that is written down here would be the wrong one.
    import wandb

    host = urlsplit(wandb.Settings().base_url).netloc
    assert urlsplit(default_url()).netloc == host
    save_netrc(home, host)
    assert resolve_mode("auto", {"HOME": str(home)}) == "online"


@pytest.mark.parametrize(
    ("mode", "environ", "message"),
    [
        ("ofline", {}, "W&B mode: no 'ofline'.* Did you mean 'offline'"),
        ("auto", {"WANDB_MODE": "onlin"}, "WANDB_MODE: no 'onlin'.* Did you mean 'online'"),
        ("auto", {"WANDB_MODE": "auto"}, "WANDB_MODE: no 'auto'"),
        ("online", {}, "needs a login for https://.*: run `wandb login`"),
        ("auto", {"WANDB_MODE": "online"}, "needs a login"),
    ],
)
def test_mode_that_cannot_be_had_is_refused_when_the_logger_is_made(home, mode, environ, message):
    with pytest.raises(ConfigError, match=message):
        WandbLogger(mode, {"HOME": str(home), **environ})


@pytest.mark.parametrize("environ", [{}, {"WANDB_API_KEY": KEY}, {"WANDB_MODE": "offline"}])
def test_auto_without_the_package_is_disabled_with_one_line(tmp_path, monkeypatch, caplog, environ):
    monkeypatch.setitem(sys.modules, "wandb", None)
    logger = WandbLogger("auto", environ)
    logger.start(run_in(tmp_path))
    logger.log({"a": 1}, step=1)
    logger.finish(0)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "pip install 'jade-trainer[wandb]'" in message
    assert logger.mode == "disabled"


def test_disabled_without_the_package_says_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "wandb", None)
    WandbLogger("auto", {"WANDB_MODE": "disabled"}).start(run_in(tmp_path))
    assert caplog.records == []


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_mode_on_request_without_the_package_is_refused(monkeypatch, mode):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"pip install 'jade-trainer\[wandb\]'"):
        resolve_mode(mode, {"WANDB_API_KEY": KEY})


def run_python(script, *options):
    command = [sys.executable, *options, "-c", script]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_disabled_logger_never_imports_wandb():
    script = """
import pathlib, sys
from jade.loggers import RunInfo
from jade.loggers.wandb_logger import WandbLogger
logger = WandbLogger("disabled")
logger.start(RunInfo("r", pathlib.Path("."), {}))
logger.log({"a": 1}, 1)
logger.finish(0)
print(sorted({"wandb", "torch", "numpy"} & set(sys.modules)))
"""
    assert run_python(script) == "[]"


def test_folder_of_offline_runs_is_not_taken_for_the_package(home):
    (home / "wandb").mkdir()
    script = """
from jade.loggers.wandb_account import resolve_mode
print(resolve_mode("auto", {"WANDB_API_KEY": "x"}))
"""
    # Without site-packages (-S), only the folder is left to be found.
    assert run_python(script, "-S") == "disabled"


# Online, against a server that knows just enough.


class Server(ThreadingHTTPServer):
    """Stands in for W&B: notes what the client sends, answers what it needs to go on."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.upserts, self.streams, self.errors, self.last_step = [], [], [], None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        error = sys.exc_info()[1]
        # The client's service ends without closing its connections.
        if not isinstance(error, ConnectionError):
            self.errors.append(error)

    def answer(self, operation, variables):
        project = {"id": "cA==", "name": "p", "entity": {"id": "ZQ==", "name": "e"}}
        if operation == "UpsertBucket":
            self.upserts.append(variables)
            bucket = {"id": "cg==", "name": variables["name"], "displayName": "n", "config": "{}"}
            bucket.update(description="", sweepName=None, historyLineCount=0, project=project)
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if operation == "RunResumeStatus" and self.last_step is not None:
            tail = json.dumps([json.dumps({"_step": self.last_step, "_runtime": 1})])
            bucket = {"id": "cg==", "name": "run1", "config": "{}", "summaryMetrics": "{}"}
            bucket.update(displayName="n", tags=[], notes="", wandbConfig='{"t": 1}')
            bucket.update(historyLineCount=1, eventsLineCount=0, logLineCount=0)
            bucket.update(historyTail=tail, eventsTail="[]")
            return {"model": {**project, "bucket": bucket}}
        if operation == "CreateRunFiles":
            files = [{"name": n, "uploadUrl": f"{self.url}/{n}"} for n in variables["files"]]
            return {"createRunFiles": {"runID": "cg==", "uploadHeaders": [], "files": files}}
        return {
            "RunResumeStatus": {"model": None},
            "OrganizationCoreWeaveOrganizationID": {"entity": {"organization": None}},
            "ServerFeaturesQuery": {"serverInfo": {"features": []}},
        }.get(operation)

    def history(self):
        lines = [
            line
            for stream in self.streams
            for line in stream.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
        ]
        rows = [json.loads(line) for line in lines]
        return [(row["iteration"], row["loss"]) for row in rows]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_PUT(self):
        self.read_body()
        self.reply(200, {})

    def do_POST(self):
        body = self.read_body()
        if self.path.endswith("/file_stream"):
            self.server.streams.append(json.loads(body or b"{}"))
            return self.reply(200, {"exitcode": None, "limits": {}, "stopped": False})
        if self.path != "/graphql":
            return self.reply(404, {})
        assert (
            self.headers["Authorization"].split()[1]
            == base64.b64encode(f"api:{KEY}".encode()).decode()
        )
        request = json.loads(body)
        operation = re.search(r"(?:query|mutation)\s+(\w+)", request["query"]).group(1)
        data = self.server.answer(operation, request.get("variables") or {})
        errors = [] if data else [{"message": f"unknown {operation}"}]
        return self.reply(200, {"data": data, **({"errors": errors} if errors else {})})

    def read_body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, code, content):
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server(monkeypatch):
    stop_service()
    server = Server()
    monkeypatch.setenv("WANDB_BASE_URL", server.url)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_PROJECT", "p")
    monkeypatch.setenv("WANDB_USER", "e")
    yield server
    stop_service()
    server.shutdown()
    server.server_close()
    assert server.errors == []


def test_online_run_sends_details_metrics_and_exit_code(tmp_path, server):
    logger = WandbLogger()
    logger.start(run_in(tmp_path, name="n", group="g", tags=("t",), notes="why", job_type="j"))
    logger.log({"loss": 0.5}, step=1)
    logger.log({"loss": 0.25}, step=2)
    logger.mark_preempting()
    logger.finish(75)

    sent = server.upserts[0]
    assert (sent["name"], sent["project"], sent["entity"]) == ("run1", "p", "e")
    assert (sent["displayName"], sent["groupName"], sent["jobType"]) == ("n", "g", "j")
    assert (sent["tags"], sent["notes"]) == (["t"], "why")
    config = json.loads(sent["config"])
    assert config["model"]["value"] == {"params": {"beta": 0.1, "path": "$DATA"}}
    assert server.history() == [(1, 0.5), (2, 0.25)]
    assert any(stream.get("preempting") for stream in server.streams)
    assert [s["exitcode"] for s in server.streams if s.get("complete")] == [75]


def test_online_resumed_run_continues_behind_the_last_step(tmp_path, server, capfd):
    server.last_step = 7
    logger = WandbLogger()
    logger.start(run_in(tmp_path))
    for step in range(5, 10):
        logger.log({"loss": step}, step)
    logger.finish(0)

    assert server.history() == [(8, 8), (9, 9)]
    assert "less than" not in capfd.readouterr().err


@pytest.mark.slow
def test_online_server_that_goes_away_holds_up_the_end_only_briefly(
    tmp_path, server, monkeypatch, caplog
):
    monkeypatch.setenv("WANDB_FINISH_TIMEOUT", "1")
    group = LoggerGroup([WandbLogger()])
    group.start(run_in(tmp_path))
    server.shutdown()
    server.server_close()
    group.log({"loss": 1}, step=1)
    group.finish(0)
    assert "TimeoutError" in caplog.text


@pytest.mark.slow
def test_run_without_a_server_is_recorded_offline(tmp_path, monkeypatch, caplog):
    stop_service()
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "1")
    group = LoggerGroup([WandbLogger()])
    group.start(run_in(tmp_path))
    group.log({"loss": 1}, step=1)
    group.finish(0)
    stop_service()
    assert "cannot be reached" in caplog.text
    assert f"`jade sync {tmp_path}`" in caplog.text
    assert read_history(tmp_path) == {1: {"loss": 1}}


def test_file_that_cannot_be_sent_at_the_end_does_not_keep_the_end_back(wandb_online, tmp_path):
    logger = WandbLogger("online", dict(os.environ))
    logger.start(run_in(tmp_path))
    (tmp_path / "last.pt").write_bytes(b"weights")
    for name in ("last.pt", "last.pt", "other.pt"):
        # The second one has to wait, and so does all that comes after it.
        logger.upload(tmp_path / "last.pt", f"jade/{name}")
    folder = Path(logger._run.dir) / "jade"
    folder.rename(folder.with_name("away"))
    folder.touch()
    with pytest.raises(OSError, match=r"jade"):
        logger.finish(0)
    assert wandb_online.runs["run1"].state == "finished"
