"""`jade agent` as a process, with the real wandb client: work, signals, faults of both sides."""

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import yaml

from jade.cli import main
from jade.lock import RunLock

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 90

pytestmark = pytest.mark.slow

# It usually tells W&B every five seconds that it is alive, and takes what comes within as much time
# for the same signal.
QUICK = """
import sys
import jade.echo, jade.launch.agent
from jade.cli import main
jade.echo.ECHO_S = 1.0
jade.launch.agent.INTERVAL_S = jade.launch.agent.DOUBT_INTERVAL_S = 0.3
sys.exit(main())
"""
# A file system that hangs is waited for as long as there is a file.
HANGING = """
import os, time
from jade.launch import preflight
examine = preflight.examine_folder

def hang(name, path):
    while os.path.exists("hung"):
        time.sleep(0.05)
    return examine(name, path)

preflight.examine_folder, preflight.TIMEOUT_S = hang, 1.0
"""
TRAIN = "import sys\nfrom jade.cli import train_main\nsys.exit(train_main())\n"
COMMAND = [
    "${env}",
    "${interpreter}",
    "${program}",
    "--model_conf=model.yml",
    "--data_conf=data.yml",
    "--eval_conf=eval.yml",
    "--arch_impl=modules/architectures/small.py",
    "--seed=1",
]
# A trial of an ordinary program: it leaves a trace, and does what its value says.
SCRIPT = """
    import os, signal, sys, time

    what = dict(a.lstrip("-").split("=", 1) for a in sys.argv[1:])
    run = os.environ["WANDB_RUN_ID"]
    print("values", what, os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)

    def stop(number, _):
        if os.path.exists("deaf"):
            return
        open(f"stopped-{run}-{number}", "w").close()
        sys.exit(75)

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
        signal.signal(number, stop)
    open(f"started-{what['x']}-{run}", "w").close()
    deadline = time.monotonic() + float(what.get("seconds", 0))
    while time.monotonic() < deadline and not os.path.exists("go"):
        time.sleep(0.02)
    if os.path.exists("broken"):
        print("it is broken")
        sys.exit(1)
    sys.exit(int(what.get("code", 0)))
"""


class AgentProcess:
    """A `jade agent`, its output, and the folder that it works in."""

    def __init__(self, folder, *arguments, environ=None, program=QUICK, **options):
        self.folder = folder
        self.path = folder / f"agent-{time.monotonic_ns()}.txt"
        with self.path.open("wb") as output:
            options = {
                "stdin": subprocess.DEVNULL,
                "stdout": output,
                "stderr": subprocess.STDOUT,
                **options,
            }
            self.popen = subprocess.Popen(
                [sys.executable, "-c", program, "agent", *arguments],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), **(environ or {})},
                **options,
            )

    def wait(self):
        """Wait for its end; return the exit code and what it said."""
        return self.popen.wait(TIMEOUT_S), self.output

    @property
    def output(self):
        return self.path.read_text()

    def wait_for(self, holds):
        deadline = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < deadline, self.output
            assert self.popen.poll() is None, self.output
            time.sleep(0.02)

    def wait_for_files(self, pattern, number=1):
        self.wait_for(lambda: len(list(self.folder.glob(pattern))) >= number)


@pytest.fixture
def start(wandb_online):
    """Start agents; none outlives the test."""
    started = []

    def start_agent(folder, *arguments, **options):
        started.append(AgentProcess(folder, *arguments, **options))
        return started[-1]

    yield start_agent
    for agent in started:
        if agent.popen.poll() is None:
            agent.popen.kill()
        agent.popen.wait()


@pytest.fixture
def script(wandb_online, tmp_path):
    """Make a sweep of the script above, and return its folder and a function for its id."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "trial.py").write_text(textwrap.dedent(SCRIPT))

    def make(parameters, **more):
        settings = "".join(f"{key}: {value}\n" for key, value in more.items())
        text = f"program: trial.py\nmethod: grid\n{settings}parameters: {parameters}\n"
        return wandb_online.create_sweep(text)

    return folder, make


def training_sweep(project, server, parameters, *tokens):
    """Register a sweep of trainings of the project."""
    project.write("train.py", TRAIN)
    sweep = {
        "program": "train.py",
        "method": "grid",
        "metric": {"name": "Error", "goal": "minimize"},
        "command": [*COMMAND, *tokens],
        "parameters": parameters,
    }
    return server.create_sweep(yaml.safe_dump(sweep))


def states(server):
    return sorted(run.state for run in server.runs.values())


# At one of the points there is no result, as after a training that has diverged.
DIVERGED = """
    import math
    from jade.eval import DatasetEvaluation


    class SquaredError(DatasetEvaluation):
        def evaluate_batch(self, data):
            error = (self.trainer.net(data["x"]) - data["y"]).square().squeeze(1)
            return error * math.nan if self.trainer.opt.param_groups[0]["lr"] == 0.1 else error
"""


def test_a_grid_of_trainings_runs_on_two_slots_and_arrives_on_wandb(project, wandb_online, start):
    project.write("modules/eval/errors.py", DIVERGED)
    parameters = {"model.params.lr": {"values": [0.1, 0.01]}, "epochs": {"values": [1, 2]}}
    sweep = training_sweep(project, wandb_online, parameters, "${args}")

    code, output = start(project.root, f"team/project/{sweep}", "--per_device", "2").wait()

    assert code == 0, output
    assert states(wandb_online) == ["finished"] * 4, output
    assert wandb_online.unknown == []
    points = {
        (r.config["model"]["params"]["lr"], r.config["epochs"]) for r in wandb_online.runs.values()
    }
    assert points == {(0.01, 1), (0.01, 2), (0.1, 1), (0.1, 2)}
    assert "4 trials in" in output
    assert "4 finished; best Error=" in output
    assert "best Error=nan" not in output
    for run_id, run in wandb_online.runs.items():
        (line,) = [line for line in output.splitlines() if line.startswith(run_id)]
        assert f"model.params.lr={run.config['model']['params']['lr']}" in line
        assert ("Error=nan" in line) == (run.config["model"]["params"]["lr"] == 0.1)
        assert "Error=" in line
        assert (
            "run directory" in (project.root / "experiments" / run_id / "console.log").read_text()
        )


def test_values_reach_a_program_and_count_limits_them(script, start, wandb_online, monkeypatch):
    folder, make = script
    sweep = make("{x: {values: [1, 2, 3]}, y: {value: text}}")
    # Who is logged in stands in a file, as for trainings.
    (folder / ".env").write_text(f"WANDB_API_KEY={wandb_online.api_key}\n")
    monkeypatch.delenv("WANDB_API_KEY")

    code, output = start(folder, sweep, "--cold", "--count", "2", "--devices", "cpu").wait()

    assert code == 0, output
    assert len(list(folder.glob("started-*"))) == 2
    logs = [
        path.read_text()
        for path in folder.glob(f"wandb/sweep-{sweep}/*.log")
        if path.stem != "server"
    ]
    assert (
        "values {'x': '1', 'y': 'text'} \n" in logs or "values {'x': '2', 'y': 'text'} \n" in logs
    )


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 75), ("SIGUSR1", 75), ("SIGINT", 130)])
def test_a_signal_is_passed_on_and_nothing_new_is_started(script, start, number, code):
    folder, make = script
    agent = start(
        folder, make("{x: {values: [1, 2, 3]}, seconds: {value: 60}}"), "--cold", "--per_device=2"
    )
    agent.wait_for_files("started-*", 2)

    agent.popen.send_signal(getattr(signal, number))

    assert agent.wait()[0] == code, agent.output
    assert len(list(folder.glob(f"stopped-*-{int(getattr(signal, number))}"))) == 2
    assert len(list(folder.glob("started-*"))) == 2
    assert "2 preempted" in agent.output


PAUSE = """
    import os, time
    from modules.models.line import LineTrainer


    class PausingTrainer(LineTrainer):
        def train_step(self, data):
            open("pausing", "w").close()
            while not os.path.exists("go"):
                time.sleep(0.01)
            super().train_step(data)
"""
GATE = """
            while not os.path.exists("go"):
                time.sleep(0.01)
"""
# Whoever is told to stop in the meantime stops after a step, long before the last one.
SLOW = """
            if not os.path.exists("go"):
                time.sleep(2)
"""


@pytest.fixture
def paused(project, wandb_online, start):
    """An agent with a training that is in the middle of a step."""
    project.write("modules/models/pausing.py", PAUSE)
    project.write("model.yml", "class: PausingTrainer\n")
    sweep = training_sweep(project, wandb_online, {"epochs": {"values": [3]}})
    agent = start(project.root, sweep)
    agent.wait_for_files("pausing")
    return agent, sweep


def test_a_preempted_training_is_continued_by_the_next_agent(
    paused, project, wandb_online, start, arguments, tmp_path
):
    """A job that ends signals all of its processes: the trials, too, which then hear it twice."""
    first, sweep = paused
    (directory,) = (project.root / "experiments").iterdir()
    trial = json.loads((directory / "status.json").read_text())["pid"]
    os.kill(trial, signal.SIGTERM)
    # The kernel makes one signal of two that nobody has heard yet.
    time.sleep(0.5)
    first.popen.send_signal(signal.SIGTERM)
    first.wait_for(lambda: "asked to stop" in first.output)
    time.sleep(0.3)
    (project.root / "go").touch()
    assert first.wait()[0] == 75, first.output
    assert "1 preempted" in first.output

    (run,) = wandb_online.runs.values()
    run.commit = "0123456789abcdef"
    # On another machine, which has the project, but none of its runs.
    there = tmp_path / "elsewhere"
    shutil.copytree(project.root, there, ignore=shutil.ignore_patterns("experiments", "wandb"))
    subprocess.run(["git", "init", "--quiet"], cwd=there, check=True)
    author = ["-c", "user.name=u", "-c", "user.email=u@example.org"]
    commit = ["git", *author, "commit", "--quiet", "--allow-empty", "--message=new"]
    subprocess.run(commit, cwd=there, check=True)
    code, output = start(there, sweep).wait()

    assert code == 0, output
    assert "that of the newest run of the sweep is of 0123456789ab" in output
    assert (run.state, run.num_starts) == ("finished", 2)
    assert "(continued)" in output
    assert "1 trial in" in output
    # Bit by bit what it would have been without all that.
    assert main([*arguments, "--epochs=3", "--experiments_root=alone"]) == 0
    (alone,) = (project.root / "alone").iterdir()
    assert run.files["jade/metrics.csv"] == (alone / "metrics.csv").read_bytes()


LOST_AND_STOPPED = """
    import os, time
    from modules.models.line import LineTrainer


    class AskingTrainer(LineTrainer):
        def initialize(self, lr: float = 0.1):
            super().initialize(lr)
            self.lr = lr

        def train_step(self, data):
            with open(f"training-{self.lr}", "w") as file:
                file.write(str(os.getpid()))
            while not os.path.exists(f"go-{self.lr}"):
                time.sleep(0.01)
            super().train_step(data)
"""


def test_a_terminal_that_is_closed_loses_nothing(project, wandb_online, start):
    project.write("modules/models/pausing.py", PAUSE.replace(GATE, SLOW))
    project.write("model.yml", "class: PausingTrainer\n")
    sweep = training_sweep(project, wandb_online, {"epochs": {"values": [3]}})
    ours, theirs = pty.openpty()
    agent = start(
        project.root,
        sweep,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        # So the terminal is its own: whoever closes that sends the signal.
        program="import fcntl, os, termios\nos.setsid()\n"
        f"fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n{QUICK}",
    )
    os.close(theirs)
    agent.wait_for_files("pausing")
    (run,) = wandb_online.runs.values()

    os.close(ours)
    assert agent.popen.wait(TIMEOUT_S) == 75
    assert run.state == "preempted"
    (project.root / "go").touch()
    code, output = start(project.root, sweep).wait()
    assert code == 0, output
    assert run.state == "finished"
    assert sorted({row["iteration"] for row in run.history}) == [
        row["iteration"] for row in run.history
    ]
    assert len(wandb_online.runs) == 1


def test_a_training_ends_as_stopped_by_the_wish_of_the_server_and_failed_when_killed(
    project, wandb_online, start
):
    project.write("modules/models/asking.py", LOST_AND_STOPPED)
    project.write("model.yml", "class: AskingTrainer\n")
    parameters = {"model.params.lr": {"values": [0.1, 0.2]}, "epochs": {"value": 3}}
    sweep = training_sweep(project, wandb_online, parameters, "${args_json_file}")
    agent = start(project.root, sweep)

    agent.wait_for_files("training-0.1")
    first = wandb_online.runs[wandb_online.sweeps[sweep].runs[0]]
    wandb_online.stop_run(first.id)
    wandb_online.wait_until(lambda: not any(a.commands for a in wandb_online.agents.values()))
    time.sleep(0.3)
    (project.root / "go-0.1").touch()
    agent.wait_for(lambda: (project.root / "training-0.2").exists())
    wandb_online.wait_until(lambda: (project.root / "training-0.2").read_text())
    os.kill(int((project.root / "training-0.2").read_text()), signal.SIGKILL)

    code, output = agent.wait()
    assert code == 0, output
    assert "1 stopped, 1 failed" in output
    assert "failed (killed by SIGKILL: out of memory?)" in output
    second = wandb_online.runs[wandb_online.sweeps[sweep].runs[1]]
    assert (first.exit_code, first.summary["run/status"]) == (0, "stopped")
    wandb_online.wait_until(lambda: second.state == "failed")


PAUSED_START = """
    import os, sys, time

    open("starting", "w").close()
    while not os.path.exists("started"):
        time.sleep(0.01)
    from jade.cli import train_main

    sys.exit(train_main())
"""
PAUSED_BUILD = """
    import os, sys, time
    from modules.models.line import LineTrainer


    class BuildingTrainer(LineTrainer):
        def initialize(self, lr: float = 0.1):
            open("building", "w").close()
            while not os.path.exists("go"):
                time.sleep(0.01)
            super().initialize(lr)

        def train_step(self, data):
            if getattr(sys.modules.get("wandb"), "run", None) is not None:
                open("wandb-is-here", "w").close()
            super().train_step(data)
"""


def test_a_training_that_is_stopped_before_it_began_is_handed_out_again(
    project, wandb_online, start
):
    """W&B hands out again what it is told of: by the run, or else by the agent."""
    project.write("modules/models/building.py", PAUSED_BUILD)
    project.write("model.yml", "class: BuildingTrainer\n")
    sweep = training_sweep(
        project, wandb_online, {"model.params.lr": {"values": [0.03]}}, "${args}", "--epochs=1"
    )
    project.write("train.py", PAUSED_START)

    first = start(project.root, sweep, "--cold")
    first.wait_for_files("starting")
    first.popen.send_signal(signal.SIGTERM)
    assert first.wait()[0] == 75, first.output
    assert "was not begun: W&B hands it out again" in first.output
    assert "1 preempted" in first.output
    (run,) = wandb_online.runs.values()
    assert (run.state, run.config) == ("preempted", {"model.params.lr": 0.03})

    (project.root / "started").touch()
    second = start(project.root, sweep)
    second.wait_for_files("building")
    second.popen.send_signal(signal.SIGUSR1)
    second.wait_for(lambda: "asked to stop" in second.output)
    time.sleep(0.3)
    (project.root / "go").touch()
    assert second.wait()[0] == 75, second.output
    assert "1 preempted" in second.output
    assert "not begun" not in second.output
    assert (run.state, run.num_starts, run.sweep) == ("preempted", 2, sweep)

    code, output = start(project.root, sweep, "--cold").wait()
    assert code == 0, output
    # That JADE has asked W&B itself is no reason to have it in the process of training.
    assert not (project.root / "wandb-is-here").exists()
    assert list(wandb_online.runs.values()) == [run]
    assert (run.state, run.num_starts) == ("finished", 3)
    assert run.config["model"]["params"]["lr"] == 0.03


def test_work_that_arrives_while_the_agent_stops_is_given_back(script, start, wandb_online):
    folder, make = script
    sweep = make("{x: {values: [1]}}")
    wandb_online.set_sweep_state(sweep, "PAUSED")
    agent = start(folder, sweep, "--cold")
    agent.wait_for(lambda: "paused" in agent.output)
    wandb_online.faults.hold("graphql Heartbeat")
    wandb_online.set_sweep_state(sweep, "RUNNING")
    wandb_online.wait_until(lambda: wandb_online.runs)

    agent.popen.send_signal(signal.SIGTERM)
    agent.wait_for(lambda: "No more work is taken" in agent.output)
    wandb_online.faults.clear()

    assert agent.wait()[0] == 75, agent.output
    assert "was not begun: W&B hands it out again" in agent.output
    assert list(folder.glob("started-*")) == []
    code, output = start(folder, sweep, "--cold").wait()
    assert code == 0, output
    assert len(list(folder.glob("started-1-*"))) == len(wandb_online.runs) == 1


def test_a_job_that_begins_again_goes_on_with_what_died_with_its_machine(
    project, wandb_online, start
):
    project.write("modules/models/pausing.py", PAUSE)
    project.write("model.yml", "class: PausingTrainer\n")
    sweep = training_sweep(project, wandb_online, {"epochs": {"values": [3]}})
    job = {"SLURM_JOB_ID": f"{os.getpid()}-{time.monotonic_ns()}"}
    first = start(project.root, sweep, environ=job)
    first.wait_for_files("pausing")
    mark = f"SLURM_JOB_ID={job['SLURM_JOB_ID']}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)
    first.popen.wait()
    (project.root / "go").touch()

    code, output = start(project.root, sweep, environ=job).wait()

    assert code == 0, output
    assert "was cut off with this job, and goes on" in output
    (run,) = wandb_online.runs.values()
    assert (run.state, run.num_starts) == ("finished", 2)
    assert not list(project.root.glob("wandb/sweep-*/job-*.json"))


def test_a_job_keeps_what_cannot_be_given_back(project, wandb_online, start):
    sweep = training_sweep(project, wandb_online, {"epochs": {"values": [1]}}, "${args}")
    project.write("train.py", PAUSED_START)
    job = {"SLURM_JOB_ID": "7"}
    wandb_online.faults.fail(400, match="UpsertBucket")
    first = start(project.root, sweep, "--cold", environ=job)
    first.wait_for_files("starting")
    first.popen.send_signal(signal.SIGTERM)
    assert first.wait()[0] == 75, first.output
    assert "cannot be given back to W&B: this job goes on with it later" in first.output

    wandb_online.faults.clear()
    (project.root / "starting").unlink()
    again = start(project.root, sweep, "--cold", environ={**job, "SLURM_RESTART_COUNT": "1"})
    again.wait_for_files("starting")
    again.popen.send_signal(signal.SIGTERM)
    assert again.wait()[0] == 75, again.output
    assert "was cut off with this job, and goes on" in again.output
    assert "does not go on here: W&B hands it out again" in again.output
    assert states(wandb_online) == ["preempted"]


def find_warm_server(agent):
    """Return the number of the process that starts the trials of an agent."""
    children = Path(f"/proc/{agent.popen.pid}/task").glob("*/children")
    for child in " ".join(path.read_text() for path in children).split():
        if b"jade.launch.warm_server" in Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    raise AssertionError(agent.output)


@pytest.mark.parametrize("is_cut_off", [True, False])
def test_a_training_that_is_lost_goes_on(paused, project, wandb_online, is_cut_off):
    """Nobody can say how it ended; it may have stopped by itself, or not at all."""
    agent, _ = paused
    (directory,) = (project.root / "experiments").iterdir()
    trial = json.loads((directory / "status.json").read_text())["pid"]
    server = find_warm_server(agent)
    os.kill(server, signal.SIGSTOP)
    if is_cut_off:
        os.kill(trial, signal.SIGKILL)
    os.kill(server, signal.SIGKILL)
    agent.wait_for(lambda: "is started again once nobody uses it" in agent.output)
    (project.root / "go").touch()

    code, output = agent.wait()

    assert code == 0, output
    assert "1 trial in" in output
    assert "1 finished" in output
    assert ("has ended by itself: preempted" in output) != is_cut_off
    (run,) = wandb_online.runs.values()
    assert (run.state, run.num_starts) == ("finished", 2)


def preempt(agent, project):
    """Stop an agent whose training is in the middle of a step."""
    agent.popen.send_signal(signal.SIGTERM)
    agent.wait_for(lambda: "asked to stop" in agent.output)
    time.sleep(0.3)
    (project.root / "go").touch()
    assert agent.wait()[0] == 75, agent.output


def test_a_training_whose_run_is_in_use_waits_for_it(paused, project, wandb_online, start):
    first, sweep = paused
    preempt(first, project)
    project.write("train.py", PAUSED_START)
    second = start(project.root, sweep, "--cold")
    second.wait_for_files("starting")

    (directory,) = (project.root / "experiments").iterdir()
    with RunLock(directory):
        (project.root / "started").touch()
        second.wait_for(lambda: "started again once nobody uses it (exit 73)" in second.output)
        second.wait_for(lambda: "is in use by another process: waiting" in second.output)

    code, output = second.wait()
    assert code == 0, output
    assert "1 trial in" in output
    assert "1 finished" in output
    (run,) = wandb_online.runs.values()
    assert (run.state, run.num_starts) == ("finished", 2)


def test_a_job_that_begins_again_takes_no_run_from_another_agent(project, wandb_online, start):
    """Until W&B says that it does not run: then W&B had not heard that it was stopped."""
    project.write("modules/models/pausing.py", PAUSE)
    project.write("model.yml", "class: PausingTrainer\n")
    sweep = training_sweep(project, wandb_online, {"epochs": {"values": [3]}})
    first = start(project.root, sweep, environ={"SLURM_JOB_ID": "7"})
    first.wait_for_files("pausing")
    preempt(first, project)
    (run,) = wandb_online.runs.values()
    with wandb_online.world.lock:
        wandb_online.sweeps[sweep].requeued.clear()
        run.state = "running"

    job = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}
    again = start(project.root, sweep, environ=job)
    again.wait_for(lambda: "Others may have runs of this job by now" in again.output)
    again.wait_for(lambda: "W&B has no more work" in again.output)
    time.sleep(1)
    assert (run.state, run.num_starts) == ("running", 1), again.output
    run.state = "crashed"

    code, output = again.wait()
    assert code == 0, output
    assert "was cut off with this job, and goes on" in output
    assert (run.state, run.num_starts) == ("finished", 2)


STILLBORN = """
import os, sys

if "jade.launch.warm_server" in sys.orig_argv and os.path.exists("broken-server"):
    os._exit(1)
"""


def test_work_is_given_back_where_no_process_can_be_started(script, start, wandb_online):
    folder, make = script
    (folder / "sitecustomize.py").write_text(STILLBORN)
    path = f"{folder}{os.pathsep}{ROOT}"
    sweep = make("{x: {values: [1, 2, 3]}, seconds: {value: 60}}")
    agent = start(folder, sweep, "--cold", environ={"PYTHONPATH": path})
    agent.wait_for_files("started-*")
    (folder / "broken-server").touch()
    os.kill(find_warm_server(agent), signal.SIGKILL)

    code, output = agent.wait()

    assert code == 1, output
    assert "cannot be started here: The process that starts programs ends at once" in output
    assert "was not begun: W&B hands it out again" in output
    assert [run.state for run in wandb_online.runs.values()][-1] == "preempted"


def test_a_training_whose_agent_is_killed_still_tells_wandb(paused, project, wandb_online):
    """The process that speaks with W&B for all trials outlives the agent."""
    agent, _ = paused
    agent.popen.kill()
    agent.popen.wait()
    time.sleep(0.5)
    (project.root / "go").touch()

    wandb_online.wait_until(lambda: states(wandb_online) == ["preempted"])


def test_a_killed_agent_leaves_no_trial_behind(script, start):
    folder, make = script
    agent = start(folder, make("{x: {values: [1, 2]}, seconds: {value: 60}}"), "--cold")
    agent.wait_for_files("started-*")

    agent.popen.kill()
    agent.popen.wait()

    deadline = time.monotonic() + TIMEOUT_S
    while not list(folder.glob("stopped-*-15")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_trial_that_is_killed_and_one_that_is_impossible_do_not_end_the_work(script, start):
    folder, make = script
    (folder / "trial.py").write_text(
        "import os, sys\nx = sys.argv[1][-1]\nprint('this is', x, flush=True)\n"
        "os.kill(os.getpid(), 9) if x == '1' else sys.exit({'2': 2}.get(x, 0))\n"
    )

    code, output = start(folder, make("{x: {values: [1, 2, 3]}}"), "--cold").wait()

    assert code == 0, output
    assert "failed (killed by SIGKILL: out of memory?)\n    this is 1" in output
    assert "impossible (exit 2)\n    this is 2" in output
    assert "1 finished, 1 failed, 1 impossible" in output


def test_failures_that_are_alike_end_the_work(script, start):
    folder, make = script
    (folder / "broken").touch()

    code, output = start(
        folder, make("{x: {values: [1, 2, 3, 4, 5]}}"), "--cold", "--max_failures=3"
    ).wait()

    assert code == 1, output
    assert len(list(folder.glob("started-*"))) == 3
    assert "3 trials in a row have failed" in output


def test_a_machine_that_breaks_is_noticed_after_the_first_failure(
    project, wandb_online, start, tmp_path
):
    data = tmp_path / "data"
    data.mkdir()
    project.write(
        "modules/data/points.py",
        """
        import torch
        from pathlib import Path
        from torch.utils.data import TensorDataset


        class Points(TensorDataset):
            def __init__(self, root: str):
                list(Path(root).iterdir())
                super().__init__(torch.zeros(4, 2), torch.zeros(4, 1))
        """,
    )
    project.write("data.yml", "train:\n  class: Points\n  params: {root: $DATA_ROOT/points}\n")
    project.write("eval.yml", "{}")
    parameters = {"model.params.lr": {"values": [1, 2, 3, 4, 5]}, "epochs": {"value": 1}}
    sweep = training_sweep(project, wandb_online, parameters)

    code, output = start(project.root, sweep).wait()
    assert code == 2, output
    assert "needs DATA_ROOT, which is not set" in output
    assert wandb_online.runs == {}

    code, output = start(project.root, sweep, environ={"DATA_ROOT": str(data)}).wait()
    assert code == 2, output
    assert f"{data}/points does not exist" in output
    assert wandb_online.runs == {}

    (data / "points").mkdir()
    agent = start(project.root, sweep, "--cold", environ={"DATA_ROOT": str(data)})
    agent.wait_for(lambda: len(wandb_online.runs) > 0)
    (data / "points").rmdir()
    code, output = agent.wait()
    assert code == 1, output
    assert "This machine cannot run the sweep any more" in output
    assert len(wandb_online.runs) < 5


def test_an_examination_that_hangs_ends_the_work(script, start, wandb_online):
    folder, make = script
    sweep = make("{x: {values: [1, 2, 3]}, seconds: {value: 60}}")
    (folder / "hung").touch()
    code, output = start(folder, sweep, "--cold", program=HANGING + QUICK).wait()
    assert code == 2, output
    assert "has not answered" in output
    assert wandb_online.runs == {}

    (folder / "hung").unlink()
    agent = start(folder, sweep, "--cold", program=HANGING + QUICK)
    agent.wait_for_files("started-*")
    for name in ("hung", "broken", "go"):
        (folder / name).touch()
    code, output = agent.wait()
    assert code == 1, output
    assert "This machine cannot run the sweep any more" in output
    assert "has not answered" in output
    assert len(wandb_online.runs) == 1


def test_a_deleted_sweep_lets_its_trials_finish(script, start, wandb_online):
    folder, make = script
    sweep = make("{x: {values: [1, 2]}, seconds: {value: 60}}")
    agent = start(folder, sweep, "--cold")
    agent.wait_for_files("started-*")

    wandb_online.delete_sweep(sweep)
    agent.wait_for(lambda: "was deleted" in agent.output)
    (folder / "go").touch()

    code, output = agent.wait()
    assert code == 1, output
    assert "1 trial in" in output
    assert "1 finished" in output


def test_a_stop_by_the_wish_of_the_server_ends_one_trial(script, start, wandb_online):
    """Fact 6: one that does not listen is killed after WANDB_AGENT_KILL_DELAY seconds."""
    folder, make = script
    agent = start(
        folder,
        make("{x: {values: [1, 2, 3]}, seconds: {value: 60}}"),
        "--cold",
        environ={"WANDB_AGENT_KILL_DELAY": "1"},
    )
    agent.wait_for_files("started-*")

    wandb_online.stop_run(next(iter(wandb_online.runs)))
    agent.wait_for_files("stopped-*-15")
    agent.wait_for_files("started-2-*")
    (folder / "deaf").touch()
    wandb_online.stop_run(list(wandb_online.runs)[1])
    agent.wait_for_files("started-3-*")
    (folder / "go").touch()

    code, output = agent.wait()
    assert code == 0, output
    assert "stopped (killed by SIGKILL)" in output
    assert "1 finished, 1 stopped, 1 preempted" in output


def test_a_second_signal_to_a_job_ends_its_trials_also_those_that_do_not_listen(script, start):
    folder, make = script
    (folder / "deaf").touch()
    sweep = make("{x: {values: [1, 2]}, seconds: {value: 60}}")
    job = {"SLURM_JOB_ID": "7", "WANDB_AGENT_KILL_DELAY": "1"}
    agent = start(folder, sweep, "--cold", "--per_device=2", environ=job)
    agent.wait_for_files("started-*", 2)

    agent.popen.send_signal(signal.SIGUSR1)
    agent.popen.send_signal(signal.SIGTERM)
    agent.wait_for(lambda: "2 trials asked to stop" in agent.output)
    time.sleep(1.2)
    assert "A second signal" not in agent.output
    agent.popen.send_signal(signal.SIGUSR2)

    assert agent.wait()[0] == 75, agent.output
    assert "A second signal: trials end at once." in agent.output
    assert agent.output.count("stopped (killed by SIGKILL)") == 2


def test_a_second_signal_to_a_job_is_passed_on_to_its_trials(script, start):
    folder, make = script
    (folder / "deaf").touch()
    sweep = make("{x: {value: 1}, seconds: {value: 60}}", method="random", run_cap=1)
    agent = start(folder, sweep, "--cold", environ={"SLURM_JOB_ID": "7"})
    agent.wait_for_files("started-*")
    agent.popen.send_signal(signal.SIGUSR1)
    agent.wait_for(lambda: "asked to stop" in agent.output)
    (folder / "deaf").unlink()
    time.sleep(1.2)
    agent.popen.send_signal(signal.SIGUSR2)

    assert agent.wait()[0] == 75, agent.output
    assert len(list(folder.glob("stopped-*-12"))) == 1


def test_a_server_that_goes_away_between_trials_is_waited_for(script, start, wandb_online):
    folder, make = script
    agent = start(folder, make("{x: {values: [1, 2, 3]}, seconds: {value: 60}}"), "--cold")
    agent.wait_for_files("started-*")
    wandb_online.close_door()
    (folder / "go").touch()
    agent.wait_for(lambda: "W&B does not answer" in agent.output)

    wandb_online.open_door()

    code, output = agent.wait()
    assert code == 0, output
    assert "W&B answers again" in output
    assert "3 finished" in output
    assert len(wandb_online.runs) == 3


def test_an_agent_gives_up_a_server_that_stays_away(script, start, wandb_online):
    folder, make = script
    agent = start(
        folder, make("{x: {values: [1]}, seconds: {value: 60}}"), "--cold", "--patience=1 s"
    )
    agent.wait_for_files("started-*")
    wandb_online.close_door()
    (folder / "go").touch()

    code, output = agent.wait()

    assert code == 1, output
    assert "W&B has not answered for" in output


def test_a_trial_that_cannot_be_started_here_is_left_to_others(script, start, wandb_online):
    """As on a disk that is full: what its process needs cannot be written."""
    folder, make = script
    sweep = make("{x: {values: [1, 2]}, seconds: {value: 60}}")
    agent = start(folder, sweep, "--cold")
    agent.wait_for_files("started-*")
    place = folder / "wandb" / f"sweep-{sweep}"
    place.rename(folder / "away")
    place.touch()
    (folder / "go").touch()

    code, output = agent.wait()

    assert code == 1, output
    assert "cannot be started here: [Errno 20] Not a directory" in output
    assert "was not begun: W&B hands it out again" in output
    assert "Traceback" not in output
    assert [run.state for run in wandb_online.runs.values()][1] == "preempted"


def test_two_agents_run_each_point_once(script, start, wandb_online):
    folder, make = script
    sweep = make("{x: {values: [1, 2, 3, 4, 5, 6, 7, 8]}}")

    agents = [start(folder, sweep, "--cold", "--per_device=2") for _ in range(2)]

    assert [agent.wait()[0] for agent in agents] == [0, 0], [agent.output for agent in agents]
    points = sorted(path.name.split("-")[1] for path in folder.glob("started-*"))
    assert points == ["1", "2", "3", "4", "5", "6", "7", "8"]
    assert len(wandb_online.runs) == 8


def test_a_time_limit_stops_trials_in_time(script, start):
    folder, make = script

    # Its own start counts, which takes a while on a busy machine.
    code, output = start(
        folder, make("{x: {values: [1, 2]}, seconds: {value: 60}}"), "--cold", "--time_limit=25 s"
    ).wait()

    assert code == 75, output
    assert len(list(folder.glob("started-*"))) == 1
    assert "The time limit is near" in output


def test_no_trial_is_taken_that_the_time_of_the_job_is_too_short_for(script, start, tmp_path):
    folder, make = script
    (tmp_path / "squeue").write_text("#!/bin/sh\necho 0:26\n")
    (tmp_path / "squeue").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"

    code, output = start(
        folder,
        make("{x: {values: [1, 2]}, seconds: {value: 14}}"),
        "--cold",
        environ={"SLURM_JOB_ID": "7", "PATH": path},
    ).wait()

    assert code == 75, output
    assert len(list(folder.glob("started-*"))) == 1
    assert "is shorter than a trial takes" in output


def test_a_paused_sweep_is_waited_for_and_a_finished_one_ends_the_agent(
    script, start, wandb_online
):
    folder, make = script
    sweep = make("{x: {values: [1, 2]}}")
    wandb_online.set_sweep_state(sweep, "PAUSED")
    agent = start(folder, sweep, "--cold")
    agent.wait_for(lambda: "paused" in agent.output)

    wandb_online.set_sweep_state(sweep, "FINISHED")

    code, output = agent.wait()
    assert code == 0, output
    assert "0 trials" in output


@pytest.mark.parametrize(
    ("name", "environ", "message", "expected"),
    [
        ("team/project/nosuchsweep", {}, "There is no sweep team/project/nosuchsweep", 2),
        ("team/nosuchproject/s", {}, "There is no sweep team/nosuchproject/s on W&B", 2),
        (None, {"WANDB_API_KEY": "f" * 40}, "does not accept the API key", 2),
        (None, {"WANDB_BASE_URL": "http://127.0.0.1:9"}, "http://127.0.0.1:9 cannot be asked", 1),
    ],
)
def test_a_sweep_that_cannot_be_had_is_one_message(
    script, start, wandb_online, name, environ, message, expected
):
    folder, make = script
    sweep = make("{x: {values: [1]}}")

    code, output = start(folder, name or sweep, "--cold", environ=environ).wait()

    assert code == expected, output
    assert message in output
    assert "Traceback" not in output
    assert wandb_online.runs == {}
