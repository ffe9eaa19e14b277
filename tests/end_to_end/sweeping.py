"""What tests of sweeps share: a project whose runs an agent starts, and agents as processes."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
FIXED = [
    "--data_conf=data.yml",
    "--eval_conf=eval.yml",
    "--arch_impl=modules/architectures/small.py",
    "--model_conf=model.yml",
    "--epochs=2",
    "--seed=1",
]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of this test, in which agents find this JADE and this Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        **more,
    }


def make_sweep(server, parameters, macros=("${args}",), **more) -> str:
    """Register a sweep of the project's trainer as `wandb sweep` does, and return its id."""
    command = ["${env}", "${interpreter}", "${program}", *FIXED, *macros]
    sweep = {
        "program": "train.py",
        "method": "grid",
        "command": command,
        "parameters": parameters,
        **more,
    }
    return server.create_sweep(yaml.safe_dump(sweep))


def start_agent(server, sweep, *options: str, cwd: Path, **variables: str) -> subprocess.Popen:
    """Start `wandb agent`, with what it and its runs print in one pipe."""
    return subprocess.Popen(
        server.agent_command(sweep, *options),
        cwd=cwd,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_agent(server, sweep, *options: str, cwd: Path, **variables: str) -> str:
    """Let `wandb agent` come to its end, and return what was printed."""
    agent = start_agent(server, sweep, *options, cwd=cwd, **variables)
    output, _ = agent.communicate(timeout=120)
    return output
