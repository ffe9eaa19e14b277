"""The W&B-compatible server as tests see it."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wandb_server.artifact_operations import ArtifactOperations
from wandb_server.artifacts import ServedArtifact
from wandb_server.desk import Desk
from wandb_server.door import Door
from wandb_server.faults import Faults
from wandb_server.run_operations import RunOperations
from wandb_server.runs import ServedRun
from wandb_server.sweep_operations import SweepOperations
from wandb_server.sweeps import ServedAgent, ServedSweep
from wandb_server.world import World

# The agent looks every five seconds, which cannot be set.
QUICK_AGENT = """
import sys
from wandb.cli.cli import cli
from wandb.wandb_agent import Agent
Agent.POLL_INTERVAL = 0.2
cli(["agent", *sys.argv[1:]])
"""
API_KEY = "0123456789abcdef" * 2 + "01234567"


class WandbServer:
    """A server on a free port of 127.0.0.1, with threads of its own.

    The wishes of somebody in W&B's web pages are methods: ``stop_run``, ``set_sweep_state``.
    """

    def __init__(self) -> None:
        self.world = World()
        self.faults = Faults()
        runs = RunOperations(self.world, lambda: self.base_url)
        sweeps = SweepOperations(self.world, runs)
        artifacts = ArtifactOperations(self.world, lambda: self.base_url)
        table = {**runs.table, **sweeps.table, **artifacts.table}
        self._desk = Desk(self.world, table, API_KEY, self.faults)
        self._door = Door(self._desk, self.faults)

    def __enter__(self) -> "WandbServer":
        self.open_door()
        return self

    def __exit__(self, *error: object) -> None:
        self.close_door()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._door.port}"

    @property
    def api_key(self) -> str:
        """The only key that is accepted."""
        return self._desk.api_key

    @api_key.setter
    def api_key(self, key: str) -> None:
        self._desk.api_key = key

    @property
    def unknown(self) -> list[str]:
        """What was asked that the server does not know, and where it has failed itself."""
        return self.world.unknown

    @property
    def requests(self) -> list[tuple[float, str, str]]:
        """Each request as (time, kind, name); kinds are graphql, file_stream, put, get, post."""
        return self._desk.requests

    @property
    def runs(self) -> dict[str, ServedRun]:
        """The runs of all projects by ID."""
        with self.world.lock:
            return {run.id: run for run in self.world.runs.values()}

    @property
    def sweeps(self) -> dict[str, ServedSweep]:
        """The sweeps of all projects by ID."""
        with self.world.lock:
            return {sweep.id: sweep for sweep in self.world.sweeps.values()}

    @property
    def agents(self) -> dict[str, ServedAgent]:
        """Every agent that ever was, by ID."""
        with self.world.lock:
            return dict(self.world.agents)

    @property
    def artifacts(self) -> dict[str, ServedArtifact]:
        """The artifacts of all projects as ``collection:v0``."""
        with self.world.lock:
            found = [a for a in self.world.artifacts.artifacts if a.state == "COMMITTED"]
            return {f"{artifact.collection}:v{artifact.version}": artifact for artifact in found}

    def environ(self, home: Path) -> dict[str, str]:
        """Return the variables with which the client talks to this server and to nobody else."""
        folders = {
            "HOME": home,
            "WANDB_CONFIG_DIR": home / "config",
            "WANDB_CACHE_DIR": home / "cache",
            "WANDB_DATA_DIR": home / "data",
            "WANDB_ARTIFACT_DIR": home / "artifacts",
        }
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        return {
            **{name: str(folder) for name, folder in folders.items()},
            "WANDB_MODE": "online",
            "WANDB_BASE_URL": self.base_url,
            "WANDB_API_KEY": self.api_key,
            "WANDB_ENTITY": "team",
            "WANDB_PROJECT": "project",
            "WANDB_ERROR_REPORTING": "false",
        }

    def agent_command(self, sweep_id: str, *options: str) -> list[str]:
        """Return the command of ``wandb agent`` for a sweep, but one that does not dawdle."""
        sweep = self.sweeps[sweep_id]
        path = f"{sweep.entity}/{sweep.project}/{sweep.id}"
        return [sys.executable, "-c", QUICK_AGENT, *options, path]

    def open_door(self) -> None:
        """Listen, on the same port as before."""
        self._door.open()

    def close_door(self) -> None:
        """Cut all connections and refuse new ones; what is known stays known."""
        self._door.close()

    def create_project(self, project: str, entity: str = "team") -> None:
        """Create a project; a run or a sweep in it would do so, too."""
        with self.world.lock:
            self.world.create_project(entity, project)

    def create_sweep(self, text: str, project: str = "project", entity: str = "team") -> str:
        """Register a sweep without a client, and return its ID."""
        values = {"config": text, "projectName": project, "entityName": entity}
        answer = self._desk.perform("UpsertSweep", values)
        return str(answer["upsertSweep"]["sweep"]["name"])

    def stop_run(self, run_id: str) -> None:
        """Wish that a run stops: in answers to its client, and by a command to its agent."""
        with self.world.lock:
            self.world.stop_run(self.runs[run_id])

    def set_sweep_state(self, sweep_id: str, state: str) -> None:
        """Set RUNNING, PAUSED, FINISHED (no new runs) or CANCELED (running ones are stopped)."""
        with self.world.lock:
            self.world.set_sweep_state(self.sweeps[sweep_id], state)

    def delete_sweep(self, sweep_id: str) -> None:
        """Forget a sweep: its agents will hear 404."""
        with self.world.lock:
            sweep = self.sweeps[sweep_id]
            del self.world.sweeps[(sweep.entity, sweep.project, sweep.id)]

    def delete_run(self, run_id: str) -> None:
        """Forget a run: its client will hear 404."""
        with self.world.lock:
            run = self.runs[run_id]
            del self.world.runs[(run.entity, run.project, run.id)]

    def exit_agent(self, agent_id: str) -> None:
        """Tell an agent to exit, also if that kills what it is running."""
        with self.world.lock:
            self.agents[agent_id].commands.append({"type": "exit"})

    def lose_agent(self, agent_id: str) -> None:
        """Take an agent as dead now instead of after ``world.silence_s`` without a heartbeat."""
        with self.world.lock:
            self.world.lose_agent(self.agents[agent_id])

    def count(self, kind: str, name: str | None = None) -> int:
        """Count the requests of a kind, and of a name."""
        return sum(
            1 for _, k, n in list(self.requests) if k == kind and (name is None or n == name)
        )

    def wait_until(self, holds: Callable[[], Any], timeout_s: float = 60) -> None:
        """Wait until a condition holds; raise TimeoutError after a time."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {timeout_s} s; unknown so far: {self.unknown}")
            time.sleep(0.02)
