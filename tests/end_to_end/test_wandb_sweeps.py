"""`wandb sweep` and `wandb agent`, as they are, drive runs of JADE; the server is on loopback."""

import shutil
import signal
import subprocess
import sys

import pytest
import yaml
from sweeping import FIXED, ROOT, environment, make_sweep, run_agent, start_agent

from jade.run_dir import RunDir
from jade.saved_runs import load_config

OTHER_ARCHITECTURE = """
    from torch import nn


    class Net(nn.Module):
        def __init__(self, n_out):
            super().__init__()
            self.layer = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, n_out))

        def forward(self, x):
            return self.layer(x)
"""


@pytest.fixture
def sweep_project(project, wandb_online):
    """The miniature project with an entry for agents."""
    shutil.copy(ROOT / "train.py", project.root / "train.py")
    project.write("modules/architectures/other.py", OTHER_ARCHITECTURE)
    project.write("other.yml", "class: LineTrainer\nparams:\n  lr: 0.3\n  batch_size: 5\n")
    return project


SWEPT = {
    "model.params.lr": {"values": [1e-05]},
    "model.shuffle": {"value": False},
    "data.train.params.n": {"value": 12},
    "eval.Error.params.n_samples": {"values": [7]},
    "seed": {"value": 5},
    "epochs": {"value": 3},
    "arch_impl": {"value": "modules/architectures/other.py"},
    "model_conf": {"value": "other.yml"},
}
NESTED = {
    "model": {"parameters": {"params": {"parameters": {"lr": {"values": [1e-05]}}}}},
    "data": {
        "parameters": {"train": {"parameters": {"params": {"parameters": {"n": {"value": 12}}}}}}
    },
    **{key: SWEPT[key] for key in ("seed", "epochs", "arch_impl", "model_conf", "model.shuffle")},
    "eval.Error.params.n_samples": {"values": [7]},
}


VARIANTS = [
    (["${args}"], SWEPT),
    ([], SWEPT),
    (["${args_no_hyphens}"], SWEPT),
    (["${args_json}"], SWEPT),
    (["${args_json_file}"], SWEPT),
    (["${args}"], NESTED),
]


def test_swept_values_take_effect_however_the_command_passes_them(sweep_project, wandb_online):
    # All at once: an agent spends most of its time asleep.
    sweeps = [make_sweep(wandb_online, parameters, macros) for macros, parameters in VARIANTS]
    # The agent's own command is `python train.py ${args}`: all that is needed is swept there.
    fixed = dict(part.removeprefix("--").split("=") for part in FIXED)
    values = {key: {"value": int(v) if v.isdigit() else v} for key, v in fixed.items()}
    text = yaml.safe_dump(
        {"program": "train.py", "method": "grid", "parameters": {**values, **SWEPT}}
    )
    sweeps.append(wandb_online.create_sweep(text))
    agents = [
        start_agent(wandb_online, sweep, "--count", "1", cwd=sweep_project.root) for sweep in sweeps
    ]
    outputs = [agent.communicate(timeout=120)[0] for agent in agents]

    for sweep, output in zip(sweeps, outputs, strict=True):
        (run_id,) = wandb_online.sweeps[sweep].runs
        run = wandb_online.runs[run_id]
        assert run.state == "finished", output
        config = load_config(RunDir(sweep_project.root / "experiments" / run_id))
        assert config["model"]["params"] == {"lr": 1e-05, "batch_size": 5, "shuffle": False}
        assert config["data"]["train"]["params"]["n"] == 12
        assert config["eval"]["Error"]["params"]["n_samples"] == 7
        assert (config["seed"], config["epochs"]) == (5, 3)
        assert config["arch_impl"] == "modules/architectures/other.py"
        # W&B has the same in nested form; what it adds itself, beside that, says the same, too.
        assert run.config["model"]["params"]["lr"] == 1e-05
        assert run.config.get("model.params.lr", 1e-05) == 1e-05
        assert run.config["data"]["train"]["params"]["n"] == 12
        assert run.history[-1]["epoch"] == 3


def test_two_agents_share_a_grid_without_a_point_twice(sweep_project, wandb_online):
    path = sweep_project.write(
        "sweep.yml",
        f"""
        program: train.py
        method: grid
        command: ["${{env}}", "${{interpreter}}", "${{program}}", {", ".join(FIXED)}]
        metric: {{name: Error, goal: minimize}}
        parameters:
          model.params.lr: {{values: [0.1, 0.2]}}
          model.batch_size: {{values: [2, 5]}}
        """,
    )
    made = subprocess.run(
        [sys.executable, "-m", "wandb", "sweep", str(path)],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    (sweep,) = wandb_online.sweeps
    assert sweep in made.stderr
    agents = [start_agent(wandb_online, sweep, cwd=sweep_project.root) for _ in range(2)]
    outputs = [agent.communicate(timeout=120)[0] for agent in agents]
    runs = [wandb_online.runs[run_id] for run_id in wandb_online.sweeps[sweep].runs]
    assert [run.state for run in runs] == ["finished"] * 4, outputs
    points = {
        (run.config["model"]["params"]["lr"], run.config["model"]["params"]["batch_size"])
        for run in runs
    }
    assert points == {(0.1, 2), (0.1, 5), (0.2, 2), (0.2, 5)}
    assert all("Error" in run.summary for run in runs)


@pytest.mark.parametrize("name", ["simple_vae_sweep", "simple_vib_sweep"])
def test_sweep_files_of_the_examples_run_unchanged(wandb_online, tmp_path, mnist_root, name):
    # In a copy of the project: runs leave files behind.
    here = tmp_path / "here"
    for folder in ("modules", "configurations", "sweeps"):
        shutil.copytree(ROOT / folder, here / folder)
    shutil.copy(ROOT / "train.py", here)
    subprocess.run(
        [sys.executable, "-m", "wandb", "sweep", f"sweeps/{name}.yml"],
        cwd=here,
        env=environment(),
        check=True,
    )
    (sweep,) = wandb_online.sweeps
    variables = {"DATA_ROOT": str(mnist_root), "NUM_WORKERS": "0"}
    agent = start_agent(wandb_online, sweep, "--count", "1", cwd=here, **variables)
    # Ten epochs would take minutes: what is seen once it trains is enough.
    wandb_online.wait_until(lambda: any(run.files for run in wandb_online.runs.values()))
    (run_id,) = wandb_online.sweeps[sweep].runs
    directory = RunDir(here / "experiments" / run_id)
    wandb_online.wait_until(lambda: "Loss" in read_text(directory.metrics))
    wandb_online.stop_run(run_id)
    output, _ = agent.communicate(timeout=120)
    run = wandb_online.runs[run_id]
    assert run.exit_code == 0, output
    params = run.config["model"]["params"]
    assert 0 < params["beta"] < 3
    assert run.config["model.params.beta"] == params["beta"]
    assert params["z_dim"] in (16, 32, 64)
    assert run.config.get("model.z_dim", params["z_dim"]) == params["z_dim"]


def read_text(path):
    return path.read_text() if path.is_file() else ""


def test_key_that_fits_nothing_fails_before_wandb_is_touched(sweep_project, wandb_online):
    sweep = make_sweep(wandb_online, {"model.params.lrr": {"value": 0.1}})
    output = run_agent(wandb_online, sweep, "--count", "1", cwd=sweep_project.root)
    assert "'lrr'" in output
    assert "Did you mean 'model.params.lr'?" in output
    assert not (sweep_project.root / "experiments").exists()
    assert wandb_online.count("graphql", "UpsertBucket") == 0


def test_run_that_the_server_wants_to_end_is_stopped_not_preempted(sweep_project, wandb_online):
    sweep = make_sweep(wandb_online, {"epochs": {"value": 1_000_000}})
    agent = start_agent(wandb_online, sweep, "--count", "1", cwd=sweep_project.root)
    directory = wait_for_training(wandb_online, sweep, sweep_project.root)
    wandb_online.stop_run(directory.run_id)
    output, _ = agent.communicate(timeout=120)
    assert directory.read_status()["status"] == "stopped", output
    assert "the wish of W&B" in directory.read_status()["reason"]
    run = wandb_online.runs[directory.run_id]
    assert run.exit_code == 0
    assert run.summary["run/status"] == "stopped"


EPOCHS = 700


@pytest.mark.parametrize("goes_on", ["here", "elsewhere"])
def test_preempted_run_is_handed_out_again_and_ends_as_if_nothing_had_happened(
    sweep_project, wandb_online, tmp_path, goes_on
):
    """The signal goes to the agent, and on to its run; another agent gets the run again.

    Elsewhere is a machine that has the project, but none of its runs.
    """
    swept = {"epochs": {"value": EPOCHS}, "seed": {"values": [3]}}
    sweep = make_sweep(wandb_online, swept, ["--backup_every=100 iterations"])
    here = sweep_project.root
    agent = start_agent(wandb_online, sweep, "--forward-signals", "--count", "1", cwd=here)
    directory = wait_for_training(wandb_online, sweep, here)
    agent.send_signal(signal.SIGTERM)
    output, _ = agent.communicate(timeout=120)
    run = wandb_online.runs[directory.run_id]
    assert (run.state, run.exit_code) == ("preempted", 75), output
    assert 0 < run.summary["run/iterations"] < 3 * EPOCHS

    if goes_on == "elsewhere":
        there = tmp_path / "elsewhere"
        ignored = shutil.ignore_patterns("experiments", "wandb")
        shutil.copytree(here, there, ignore=ignored)
        shutil.rmtree(here / "experiments")
        here = there
    output = run_agent(wandb_online, sweep, "--count", "1", cwd=here)
    assert run.state == "finished", output
    steps = [row["iteration"] for row in run.history]
    assert steps == sorted(set(steps))
    alone = [*FIXED, f"--epochs={EPOCHS}", "--seed=3", "--experiments_root=alone"]
    subprocess.run(
        [sys.executable, "train.py", *alone, "--wandb=disabled"],
        cwd=here,
        env=environment(WANDB_MODE="disabled"),
        check=True,
    )
    (other,) = (here / "alone").iterdir()
    # Bit by bit, and what W&B has of it, too.
    assert run.files["jade/metrics.csv"] == (other / "metrics.csv").read_bytes()
    assert len(steps) == len((other / "metrics.csv").read_text().splitlines()) - 1


def wait_for_training(server, sweep, root):
    """Wait until the first run of a sweep trains, and return its directory."""
    server.wait_until(lambda: server.sweeps[sweep].runs)
    directory = RunDir(root / "experiments" / server.sweeps[sweep].runs[0])
    server.wait_until(lambda: len(read_text(directory.metrics).splitlines()) > 3)
    return directory
