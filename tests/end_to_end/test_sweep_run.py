"""`jade sweep run` as a process: its runs, signals, faults, and what it does when called again."""

import csv
import fcntl
import io
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import yaml
from terminal import show_on_terminal

from jade.cli import main
from jade.launch.kept_sweep import open_kept
from jade.run_dir import RunDir

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
TRAIN = "import sys\nfrom jade.cli import train_main\nsys.exit(train_main())\n"
FIXED = [
    "--model_conf=model.yml",
    "--data_conf=data.yml",
    "--eval_conf=eval.yml",
    "--arch_impl=modules/architectures/small.py",
    "--epochs=2",
    "--seed=1",
]
# A trial that leaves a trace of each start, and does what its value says.
SCRIPT = """
    import os, signal, sys, time

    what = dict(a.lstrip("-").split("=", 1) for a in sys.argv[1:])
    run = os.environ["WANDB_RUN_ID"]
    with open("starts.txt", "a") as file:
        file.write(f"{what['x']} {os.getpid()}\\n")
    do = what["x"]
    if do == "affinity":
        print(sorted(os.sched_getaffinity(0)), os.environ["OMP_NUM_THREADS"], flush=True)
    if do == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if do.startswith("wait"):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
        signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not os.path.exists("go" + do[4:]):
            time.sleep(0.02)
    if do == "deaf":
        wait = lambda *_: signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
        signal.signal(signal.SIGTERM, wait)
        time.sleep(600)
    if do == "late":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        time.sleep(600)
    if do == "stops" and not os.path.exists("go"):
        sys.exit(75)
    if do == "mentions":
        sys.exit("The run a is in use by somebody.")
    if do == "memory":
        os.kill(os.getpid(), signal.SIGKILL)
    if do == "chatter":
        for _ in range(1600):
            sys.stdout.write("x" * 65535 + "\\n")
        sys.stdout.flush()
    if do == "once" and not os.path.exists("once"):
        open("once", "w").close()
        sys.exit("it fails once")
    if do == "broken":
        print("last words")
        sys.exit(3)
    time.sleep(float(what.get("seconds", 0)))
"""


class Sweeping:
    """A folder with a sweep file, and workers of it."""

    def __init__(self, folder, *usual):
        self.folder = folder
        self.workers = []
        self._usual = usual

    def write(self, parameters, *, name="sweep.yml", command=None, **more):
        sweep = {"program": "trial.py", "method": "grid", "parameters": parameters, **more}
        if command is not None:
            sweep["command"] = ["${env}", "${interpreter}", "${program}", *command, "${args}"]
        (self.folder / name).write_text(yaml.safe_dump(sweep))

    def start(self, *arguments, name="sweep.yml", stdout=None, jade=("-m", "jade")):
        path = self.folder / f"worker-{len(self.workers)}.txt"
        with path.open("wb") as output:
            worker = subprocess.Popen(
                [sys.executable, *jade, "sweep", "run", name, *self._usual, *arguments],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=stdout or output,
                stderr=subprocess.STDOUT,
            )
        worker.output = path
        self.workers.append(worker)
        return worker

    def run(self, *arguments, name="sweep.yml"):
        """Let a worker come to its end; return the exit code and what it said."""
        worker = self.start(*arguments, name=name)
        code = worker.wait(TIMEOUT_S)
        return code, worker.output.read_text()

    def wait_for(self, holds):
        deadline = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < deadline, [w.output.read_text() for w in self.workers]
            time.sleep(0.02)

    @property
    def starts(self):
        """What was started, in order."""
        path = self.folder / "starts.txt"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def states(self, name="sweep"):
        views = open_kept(str(self.folder / "experiments" / name)).study.views()
        return {str(view.values["x"]): view.state for view in views}

    @property
    def runs(self):
        return self.folder / "experiments" / "sweep" / "runs"


@pytest.fixture
def sweeping(tmp_path, monkeypatch):
    """A folder whose sweeps run the script above; no worker outlives the test."""
    folder = tmp_path / "a folder with blanks"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "trial.py").write_text(textwrap.dedent(SCRIPT))
    # What the trials do needs neither warmth nor a search for GPUs.
    made = Sweeping(folder, "--no_check", "--cold", "--devices=cpu")
    yield made
    for worker in made.workers:
        if worker.poll() is None:
            worker.kill()
        worker.wait()


@pytest.fixture
def training(project, monkeypatch):
    """The project of tests, whose sweeps train."""
    project.write("train.py", TRAIN)
    made = Sweeping(project.root, "--no_check", "--devices=cpu")
    write = made.write
    made.write = lambda parameters, **more: write(
        parameters,
        **{"program": "train.py", "command": FIXED, "metric": {"name": "Error"}, **more},
    )
    yield made
    for worker in made.workers:
        if worker.poll() is None:
            worker.kill()
        worker.wait()


def test_a_grid_is_trained_once_and_again_only_where_it_is_new(training, capsys):
    training.write({"model.params.lr": {"values": [0.1, 0.2]}})
    code, output = training.run("--workers=2", "--tags=mine")
    assert code == 0, output
    assert "2 done; best Error=" in output
    runs = sorted(training.runs.iterdir())
    assert len(runs) == 2
    for run in runs:
        assert RunDir(run).read_status()["status"] == "finished"
        assert (run / "console.log").stat().st_size
    trained = {run: (run / "metrics.csv").stat().st_mtime_ns for run in runs}
    configs = [yaml.safe_load((run / "config.yml").read_text()) for run in runs]
    assert sorted(config["model"]["params"]["lr"] for config in configs) == [0.1, 0.2]
    assert configs[0]["tags"] == ["mine"]

    training.write({"model.params.lr": {"values": [0.1, 0.2, 0.3]}})
    code, output = training.run("--workers=2")

    assert code == 0, output
    assert "1 of 3 points are new" in output
    assert len(list(training.runs.iterdir())) == 3
    assert trained == {run: (run / "metrics.csv").stat().st_mtime_ns for run in runs}
    # Nothing is left lying about.
    left = {path.name for path in (training.runs.parent / "work").iterdir()}
    assert left == {"server.log"}
    assert main(["sweep", "list"]) == 0
    assert main(["sweep", "status", "sweep.yml"]) == 0
    shown = capsys.readouterr().out
    assert "3 done" in shown
    assert "model.params.lr=0.1" in shown


def test_repetitions_have_recorded_seeds_and_their_mean_counts(training):
    training.write({"model.params.lr": {"values": [0.1]}}, jade={"repetitions": 2})
    code, output = training.run("--workers=2")
    assert code == 0, output
    first, second = sorted(training.runs.iterdir(), key=lambda path: len(path.name))
    seeds = [yaml.safe_load((run / "config.yml").read_text())["seed"] for run in (first, second)]
    errors = [RunDir(run).read_status()["latest"]["Error"] for run in (first, second)]
    (view,) = open_kept("sweep").study.views()

    assert seeds[0] == 1
    assert seeds[1] not in (None, 1)
    assert view.value == pytest.approx(sum(errors) / 2)
    assert "(mean of 2)" in output


def test_a_run_whose_metric_is_missing_fails_and_can_be_mended(training):
    training.write({"model.params.lr": {"values": [0.1]}}, metric={"name": "Erorr"})
    code, output = training.run()
    assert code == 1
    assert "it never logged the metric 'Erorr', but Error, loss" in output
    assert "no trial has succeeded" in output

    training.write({"model.params.lr": {"values": [0.1]}})
    code, output = training.run("--retry-failed")

    assert code == 0, output
    assert "1 done; best Error=" in output


def test_a_hopeless_run_is_stopped_early(training):
    more = {"early_terminate": {"type": "hyperband", "min_iter": 2, "eta": 2, "strict": True}}
    training.write({"model.params.lr": {"values": [0.1, 1.0e-7]}}, **more)
    code, output = training.run("--workers=1", "--epochs=3000", "--eval.Error.evaluate_every=1")
    assert code == 0, output
    assert "1 done, 1 stopped" in output
    assert "note: early_terminate.strict only counts on W&B" in output
    statuses = [RunDir(run).read_status() for run in training.runs.iterdir()]
    assert sorted(status["status"] for status in statuses) == ["finished", "stopped"]
    (stopped,) = [status for status in statuses if status["status"] == "stopped"]
    assert stopped["exit_code"] == 0
    assert "the sweep, which has seen enough" in stopped["reason"]


def test_a_signal_leaves_everything_to_be_continued(training):
    training.write({"model.params.lr": {"values": [0.1, 0.2]}})
    arguments = [
        "--workers=1",
        "--epochs=4000",
        "--log_loss_every=500",
        "--eval.Error.evaluate_every=500",
    ]
    worker = training.start(*arguments)
    training.wait_for(lambda: len(list(training.runs.glob("*/metrics.csv"))) == 1)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(TIMEOUT_S) == 75, worker.output.read_text()
    (run,) = training.runs.iterdir()
    status = RunDir(run).read_status()
    assert status["status"] == "preempted"
    begun = status["iterations"]

    code, output = training.run(*arguments)

    assert code == 0, output
    assert "2 done" in output
    log = (run / "run.log").read_text()
    assert f"resumed from {run}/checkpoints/last.pt, iteration {begun}" in log
    assert RunDir(run).read_status()["attempts"] == 2


def test_a_killed_worker_loses_its_run_which_goes_on_from_its_checkpoint(training):
    training.write({"model.params.lr": {"values": [0.1]}})
    arguments = [
        "--epochs=4000",
        "--backup_every=100 iterations",
        "--log_loss_every=500",
        "--eval.Error.evaluate_every=500",
    ]
    worker = training.start(*arguments)
    training.wait_for(lambda: list(training.runs.glob("*/checkpoints/last.pt")))
    worker.kill()
    worker.wait()

    code, output = training.run(*arguments)

    assert code == 0, output
    (run,) = training.runs.iterdir()
    assert "resumed from" in (run / "run.log").read_text()
    assert RunDir(run).read_status()["status"] == "finished"


def test_a_killed_server_loses_its_run_which_goes_on_once_it_has_stopped(training):
    # The first start finds that another process has it.
    once = "from pathlib import Path\nif not Path('once').exists():\n    Path('once').touch()\n"
    (training.folder / "train.py").write_text(f"{once}    raise SystemExit(73)\n{TRAIN}")
    training.write({"model.params.lr": {"values": [0.1]}})
    worker = training.start(
        "--epochs=4000",
        "--backup_every=100 iterations",
        "--log_loss_every=500",
        "--eval.Error.evaluate_every=500",
    )
    training.wait_for(lambda: list(training.runs.glob("*/checkpoints/last.pt")))
    (server,) = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    environ = Path(f"/proc/{server}/environ").read_text().split("\0")
    assert {"MALLOC_MMAP_MAX_=0", "MALLOC_TOP_PAD_=67108864"} <= set(environ)

    os.kill(int(server), signal.SIGKILL)

    assert worker.wait(TIMEOUT_S) == 0, worker.output.read_text()
    (run,) = training.runs.iterdir()
    assert "resumed from" in (run / "run.log").read_text()
    assert RunDir(run).read_status()["status"] == "finished"


def test_workers_that_are_killed_at_random_leave_no_point_out_and_run_none_twice(sweeping):
    sweeping.write({"x": {"values": list(range(30))}, "seconds": {"value": 0.1}})
    chance = random.Random(1)
    for _ in range(5):
        workers = [sweeping.start("--workers=2") for _ in range(2)]
        enough = chance.randrange(30)
        sweeping.wait_for(lambda enough=enough: len(sweeping.starts) >= enough)
        for worker in workers:
            time.sleep(chance.random())
            worker.kill()
            worker.wait()
    finished = {x for x, state in sweeping.states().items() if state == "complete"}
    counts = {x: sweeping.starts.count(x) for x in finished}

    too_many = len(os.sched_getaffinity(0)) + 1
    code, output = sweeping.run(f"--workers={too_many}")

    assert code == 0, output
    assert f"note: --workers {too_many}: {too_many - 1} at a time" in output
    assert sweeping.states() == {str(x): "complete" for x in range(30)}
    assert counts == {x: sweeping.starts.count(x) for x in finished}


def test_faults_of_single_runs_harm_no_other(sweeping):
    values = ["memory", "broken", "chatter", "fine", "hang", "once", "late", "mentions"]
    sweeping.write({"x": {"values": values}}, jade={"timeout": "3 seconds"})

    code, output = sweeping.run("--workers=2", "--retry=1", "--grace=1 second")

    assert code == 1, output
    assert sweeping.states() == {
        **dict.fromkeys(["chatter", "fine", "once", "late"], "complete"),
        **dict.fromkeys(["memory", "broken", "hang", "mentions"], "fail"),
    }
    starts = sweeping.starts
    assert {x: starts.count(x) for x in values} == {
        "memory": 2,
        "broken": 2,
        "chatter": 1,
        "fine": 1,
        "hang": 2,
        "once": 2,
        # It was about to end when its time was over.
        "late": 1,
        "mentions": 2,
    }
    assert "failed (killed by SIGKILL: out of memory?)" in output
    assert "failed (it took longer than 3.0 s)" in output
    assert "failed (exit 3)" in output
    table = output[output.index("Failed") :]
    assert "last words" in table
    assert len(output) < 20_000


def test_failed_points_are_repeated_only_when_that_is_wanted(sweeping):
    sweeping.write({"x": {"values": ["broken", "fine"]}})
    assert sweeping.run(name="./sweep.yml")[0] == 1
    assert sweeping.run(name=".//sweep.yml")[0] == 1
    assert sorted(sweeping.starts) == ["broken", "fine"]

    assert sweeping.run("--retry-failed")[0] == 1

    assert sorted(sweeping.starts) == ["broken", "broken", "fine"]
    sweeping.write({"x": {"values": ["fine"]}})
    code, output = sweeping.run("--retry-failed")
    assert code == 0, output
    assert "1 done, 1 no longer in the file" in output
    assert len(sweeping.starts) == 3


def test_a_run_that_stops_by_itself_is_left_for_the_next_call(sweeping):
    sweeping.write({"x": {"values": ["stops", "fine"]}})
    code, output = sweeping.run("--workers=1")
    assert code == 75, output
    assert "stopped by itself (exit 75); the next call goes on with it" in output
    assert sweeping.starts == ["stops", "fine"]
    assert sweeping.states() == {"stops": "left", "fine": "complete"}

    (sweeping.folder / "go").touch()
    assert sweeping.run()[0] == 0

    assert sweeping.starts == ["stops", "fine", "stops"]


def test_a_run_that_cannot_be_started_waits_until_it_can(sweeping):
    sweeping.write({"x": {"values": ["wait", "fine"]}})
    worker = sweeping.start("--workers=1")
    sweeping.wait_for(lambda: sweeping.starts == ["wait"])
    work = sweeping.runs.parent / "work"
    away = work.rename(sweeping.folder / "away")
    (sweeping.folder / "go").touch()
    sweeping.wait_for(lambda: "A run cannot be started: No such" in worker.output.read_text())

    away.rename(work)

    assert worker.wait(TIMEOUT_S) == 0, worker.output.read_text()
    assert worker.output.read_text().count("A run cannot be started") == 1
    assert sweeping.states() == {"wait": "complete", "fine": "complete"}


@pytest.fixture
def small_disk(sweeping):
    """A disk of its own for what is needed to start runs."""
    folder = sweeping.runs.parent / "work"
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        pytest.skip("only root may mount a disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_holds_up_only_runs_that_are_not_yet_there(sweeping, small_disk):
    sweeping.write({"x": {"values": ["wait1", "wait2", "fine"]}})
    worker = sweeping.start("--workers=2", "--per_device=2")
    sweeping.wait_for(lambda: sorted(sweeping.starts) == ["wait1", "wait2"])
    for path in small_disk.glob("config-*"):
        # What would make room when its run ends.
        path.unlink()
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"):
        ballast.write_bytes(bytes(2**21))
    (sweeping.folder / "go1").touch()
    said = f"A run cannot be started: No space left on device ({small_disk}"
    sweeping.wait_for(lambda: said in worker.output.read_text())
    (sweeping.folder / "go2").touch()
    sweeping.wait_for(lambda: sweeping.states()["wait2"] == "complete")
    assert sorted(sweeping.starts) == ["wait1", "wait2"]

    ballast.unlink()

    assert worker.wait(TIMEOUT_S) == 0, worker.output.read_text()
    assert worker.output.read_text().count("A run cannot be started") == 1
    assert set(sweeping.states().values()) == {"complete"}


def test_nobody_need_read_what_a_sweep_says(sweeping):
    sweeping.write({"x": {"values": ["wait", "fine"]}})
    worker = sweeping.start("--workers=1", stdout=subprocess.PIPE)
    sweeping.wait_for(lambda: sweeping.starts == ["wait"])
    worker.stdout.close()
    (sweeping.folder / "go").touch()

    worker.wait(TIMEOUT_S)

    assert sweeping.states() == {"wait": "complete", "fine": "complete"}


def test_a_storage_that_is_away_for_a_while_stops_nothing(sweeping):
    sweeping.write({"x": {"values": ["wait", "fine"]}})
    worker = sweeping.start("--workers=1")
    sweeping.wait_for(lambda: sweeping.starts == ["wait"])
    folder = sweeping.runs.parent
    away = folder.rename(sweeping.folder / "away")
    (sweeping.folder / "go").touch()
    sweeping.wait_for(lambda: "Trying again; what is running goes on" in worker.output.read_text())

    away.rename(folder)

    assert worker.wait(TIMEOUT_S) == 0, worker.output.read_text()
    assert sweeping.starts == ["wait", "fine"]
    assert set(sweeping.states().values()) == {"complete"}


def test_two_interrupts_end_a_worker_whose_storage_is_locked(sweeping):
    sweeping.write({"x": {"values": ["wait"]}})
    worker = sweeping.start()
    sweeping.wait_for(lambda: sweeping.starts == ["wait"])
    with (sweeping.runs.parent / "journal.log.lock").open("r+") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        (sweeping.folder / "go").touch()
        sweeping.wait_for(lambda: "  finished" in worker.output.read_text())
        worker.send_signal(signal.SIGINT)
        sweeping.wait_for(lambda: "Another process holds the lock" in worker.output.read_text())
        worker.send_signal(signal.SIGINT)

        assert worker.wait(TIMEOUT_S) == 130, worker.output.read_text()

    assert sweeping.run()[0] == 0
    assert sweeping.states() == {"wait": "complete"}


def test_second_signal_to_a_job_ends_its_runs_at_once(sweeping, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    sweeping.write({"x": {"values": ["deaf"]}})
    quick = "import jade.cli, jade.echo, sys; jade.echo.ECHO_S = 2; sys.exit(jade.cli.main())"
    worker = sweeping.start("--devices=cpu", jade=("-c", quick))
    sweeping.wait_for(lambda: sweeping.starts == ["deaf"])
    time.sleep(0.3)
    worker.send_signal(signal.SIGTERM)
    sweeping.wait_for(lambda: "asked to stop" in worker.output.read_text())
    worker.send_signal(signal.SIGTERM)
    time.sleep(2.2)
    assert "A second signal" not in worker.output.read_text()
    worker.send_signal(signal.SIGUSR2)

    assert worker.wait(TIMEOUT_S) == 75, worker.output.read_text()

    assert "A second signal: runs end at once." in worker.output.read_text()
    assert sweeping.states() == {"deaf": "left"}


def test_interrupt_ends_runs_and_the_sweep_goes_on_later(sweeping):
    limit = {"max_concurrent_runs": 1}
    sweeping.write({"x": {"values": ["wait", "fine"]}}, jade=limit)
    worker = sweeping.start("--workers=2")
    sweeping.wait_for(lambda: sweeping.starts == ["wait"])
    worker.send_signal(signal.SIGINT)
    assert worker.wait(TIMEOUT_S) == 130
    assert sweeping.states() == {"wait": "left", "fine": "waiting"}

    (sweeping.folder / "go").touch()
    assert sweeping.run()[0] == 0

    assert sorted(sweeping.starts) == ["fine", "wait", "wait"]


def test_stop_reaches_a_worker_through_the_storage(sweeping, capsys):
    sweeping.write({"x": {"values": ["wait"]}})
    worker = sweeping.start()
    sweeping.wait_for(lambda: sweeping.starts == ["wait"])

    assert main(["sweep", "stop", "sweep.yml"]) == 0

    assert f"asked to stop: process {worker.pid}" in capsys.readouterr().out
    assert worker.wait(TIMEOUT_S) == 75
    assert main(["sweep", "stop", "sweep.yml"]) == 0
    assert "nobody works at the sweep sweep" in capsys.readouterr().out


def test_two_workers_share_a_sweep_in_a_database(sweeping, monkeypatch, capsys):
    sweeping.write({"x": {"values": list(range(6))}, "seconds": {"value": 0.2}})
    storage = "--storage=sqlite:///study.db"
    workers = [sweeping.start(storage, "--workers=1") for _ in range(2)]

    for worker in workers:
        assert worker.wait(TIMEOUT_S) == 0, worker.output.read_text()

    assert sorted(sweeping.starts) == [str(x) for x in range(6)]
    assert set(sweeping.states().values()) == {"complete"}
    # It is remembered, wherever it is called from, and not exchanged.
    monkeypatch.chdir(sweeping.folder / "experiments")
    assert set(sweeping.states().values()) == {"complete"}
    monkeypatch.chdir(sweeping.folder)
    code, output = sweeping.run()
    assert (code, "6 done" in output) == (0, True)
    other = ["--no_check", "--devices=cpu", "--storage=other.log"]
    assert main(["sweep", "run", "sweep.yml", *other]) == 2
    assert f"is sqlite:///{sweeping.folder}/study.db, not" in capsys.readouterr().err
    assert not (sweeping.folder / "other.log").exists()


def test_each_slot_has_its_own_cores_and_threads(sweeping, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    sweeping.write({"x": {"values": ["affinity"]}, "y": {"values": [1, 2]}})
    code, output = sweeping.run("--workers=2")
    assert code == 0, output
    printed = [path.read_text() for path in (sweeping.runs.parent / "work").glob("*.log")]
    told = [text.split("\n")[0] for text in printed if "]" in text]
    cores = sorted(os.sched_getaffinity(0))

    assert len(told) == 2
    assert "note: OMP_NUM_THREADS=64 is more than the cores of a run" in output
    each = len(cores) // 2
    assert all(text.endswith(str(max(each, 1))) for text in told)
    if each:
        assert {text.partition("]")[0] + "]" for text in told} <= {
            str(cores[:each]),
            str(cores[each : 2 * each]),
        }


def test_count_run_cap_and_target_end_a_sweep(training):
    training.write({"model.params.lr": {"min": 0.01, "max": 0.1}}, method="random", run_cap=3)
    assert training.run("--count=1", "--epochs=1")[0] == 0
    assert len(list(training.runs.iterdir())) == 1
    assert training.run("--epochs=1")[0] == 0
    assert len(list(training.runs.iterdir())) == 3

    metric = {"name": "Error", "goal": "minimize", "target": 1000.0}
    training.write({"model.params.lr": {"min": 0.01, "max": 0.1}}, method="bayes", metric=metric)
    runs = training.folder / "experiments" / "aimed" / "runs"
    for _ in range(2):
        code, output = training.run("--workers=1", "--epochs=1", "--name=aimed")
        assert code == 0, output
        assert "The target is reached: Error=" in output
        assert len(list(runs.iterdir())) == 1

    # Somebody wants more.
    metric["target"] = -1.0
    training.write({"model.params.lr": {"min": 0.01, "max": 0.1}}, method="bayes", metric=metric)
    code, output = training.run("--workers=1", "--epochs=1", "--name=aimed", "--count=2")
    assert (code, "The target" in output) == (0, False), output
    assert len(list(runs.iterdir())) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "takes one sweep file"),
        (["model.yml"], "the sweep has no method"),
        (["sweep.yml", "--workers=0"], "--workers must be at least 1, not 0."),
        (["sweep.yml", "--devices=gpu"], "there is no device 'gpu'"),
        (["sweep.yml", "--devices=cuda:7"], "--devices: cuda:7 is not here."),
        (["custom.yml"], "custom.yml:2: method: custom is decided by a scheduler of W&B"),
        (["sweep.yml", "--epoch=3"], "epoch"),
        (["sweep.yml", "--storage=nosql://x"], "Write sqlite:///FILE"),
        (["sweep.yml", "--confirm"], "--confirm needs somebody to ask"),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_written(training, capsys, arguments, message):
    training.write({"model.params.lr": {"values": [0.1]}})
    custom = yaml.safe_load((training.folder / "sweep.yml").read_text())
    custom = {"program": "train.py", "method": "custom", **custom, "scheduler": {"job": "j"}}
    custom["method"] = "custom"
    (training.folder / "custom.yml").write_text(yaml.safe_dump(custom, sort_keys=False))

    assert main(["sweep", "run", *arguments]) == 2

    assert message in capsys.readouterr().err
    assert not (training.folder / "experiments").exists()


def test_another_configuration_under_the_same_name_is_refused(training, capsys):
    training.write({"model.params.lr": {"values": [0.1]}})
    assert training.run()[0] == 0

    assert main(["sweep", "run", "sweep.yml", "--no_check", "--epochs=3"]) == 2

    assert "'epochs': 2" in capsys.readouterr().err


def test_a_sweep_that_was_never_run_has_no_status(training, capsys):
    training.write({"model.params.lr": {"values": [0.1]}})

    assert main(["sweep", "status", "sweep.yml"]) == 2
    assert "has not been run yet" in capsys.readouterr().err
    assert main(["sweep", "status", "nothing"]) == 2
    assert "There is no sweep 'nothing'" in capsys.readouterr().err
    assert main(["sweep", "list"]) == 0
    assert "no sweep below experiments" in capsys.readouterr().out


def test_damaged_run_directories_are_mended_or_named(training):
    training.write({"model.params.lr": {"values": [0.1, 0.2, 0.3]}})
    assert training.run("--count=3", "--workers=2")[0] == 0
    half, mute, broken = sorted(training.runs.iterdir())
    (half / "config.yml").unlink()
    (mute / "status.json").write_text("{")
    for path in (broken / "checkpoints").iterdir():
        path.write_bytes(b"damaged")
    (broken / "status.json").write_text(json.dumps({"status": "failed"}))
    kept = training.folder / "experiments" / "sweep"
    for name in ("journal.log", "journal.log.lock"):
        (kept / name).unlink()

    code, output = training.run("--workers=2")

    assert code == 1
    assert "are damaged: nothing is left to go on from" in output
    states = sorted(view.state for view in open_kept("sweep").study.views())
    assert states == ["complete", "complete", "fail"]


def test_finished_runs_of_the_same_configuration_are_shown_and_reused(training, trained, capsys):
    former = trained("--model.params.lr=0.1")
    training.write({"model.params.lr": {"values": [0.1, 0.2]}})

    code, output = training.run("--reuse")

    assert code == 0, output
    assert f"reused: model.params.lr=0.1  from {former}" in output
    assert "2 done" in output
    assert len(list(training.runs.iterdir())) == 1
    views = open_kept("sweep").study.views()
    assert views[0].value == RunDir(former).read_status()["latest"]["Error"]
    assert views[0].result["runs"][0]["path"] == str(former)

    # A point that fails before it has a directory counts, too; whoever looks at the sweep sees all.
    training.write({"model.params.lr": {"values": [0.1, 0.2, "much"]}})
    code, output = training.run()
    assert code == 1, output
    (log,) = (training.runs.parent / "work").glob("sweep-*.log")
    assert f"output: {log}\n" in output
    capsys.readouterr()
    assert main(["analyze", "sweep", "--csv=all.csv"]) == 0
    with (training.folder / "all.csv").open() as file:
        rows = {row["model.params.lr"]: row for row in csv.DictReader(file)}
    assert rows["0.1"]["path"] == str(former)
    statuses = {lr: row["status"] for lr, row in rows.items()}
    assert statuses == {"0.1": "finished", "0.2": "finished", "much": "failed"}
    assert "exit 2" in rows["much"]["run/reason"]
    assert main(["test", "experiments/sweep", "--devices=cpu"]) == 0
    shown = capsys.readouterr().out
    assert "2 of 2 runs are tested" in shown
    assert f"not tested: {log.stem} has no checkpoint (failed)" in shown


@pytest.mark.parametrize(("answer", "is_run"), [("y\n", True), ("\n", False)])
def test_a_sweep_and_a_training_wait_for_a_yes(
    training, arguments, monkeypatch, capsys, answer, is_run
):  # C17
    training.write({"model.params.lr": {"values": [0.25]}})
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert main(["sweep", "run", "sweep.yml", "--confirm"]) == 0
    shown = capsys.readouterr().out
    assert "lr: 0.25" in shown
    assert ("nothing was started" in shown) is not is_run
    assert training.runs.exists() is is_run

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert main([*arguments, "--confirm", "--experiments_root=single"]) == 0

    shown = capsys.readouterr().out
    assert "# model.yml:3" in shown
    assert (training.folder / "single").exists() is is_run


class Terminal(io.StringIO):
    """What somebody types."""

    def isatty(self):
        return True


def test_wandb_takes_a_file_with_a_section_of_ours(training, wandb_online, capsys):
    jade = {"repetitions": 2, "zip": [["model.params.lr", "model.params.batch_size"]]}
    parameters = {
        "model.params.lr": {"values": [0.1, 0.2]},
        "model.params.batch_size": {"values": [2, 4]},
    }
    training.write(parameters, jade=jade)

    command = [sys.executable, "-m", "wandb", "sweep", "sweep.yml"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    assert result.returncode == 0, result.stderr
    ((_, sweep),) = wandb_online.sweeps.items()
    assert sweep.config["jade"] == jade
    assert main(["check", "sweep.yml"]) == 0
    shown = capsys.readouterr().out
    assert "only `jade sweep run` heeds the section jade (repetitions, zip)" in shown
    assert "grid of 2 points, each 2 times: 4 runs" in shown


def test_runs_are_in_one_group_on_wandb_if_that_is_wanted(training, wandb_online):
    training.write({"model.params.lr": {"values": [0.1, 0.2]}})

    code, output = training.run("--workers=2", "--group-to-wandb")

    assert code == 0, output
    found = {run_id: run.group for run_id, run in wandb_online.runs.items()}
    assert found == {path.name: "sweep" for path in training.runs.iterdir()}


def test_a_terminal_has_a_live_table(sweeping):
    sweeping.write({"x": {"values": ["fine", "affinity"]}, "seconds": {"value": 1}})

    lines = show_on_terminal(
        ["sweep", "run", "sweep.yml", "--no_check", "--devices=cpu"], 120
    ).plain

    text = "\n".join(lines)
    assert "where" in text
    assert "cpu/1 │ seconds=1 x=fine" in text
    assert "running" in text
    assert "2 done" in lines[-1] or "2 done" in lines[-2]
