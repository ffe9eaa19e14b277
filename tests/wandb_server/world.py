"""All that the server knows: projects, runs, sweeps, agents, artifacts."""

import secrets
import string
import threading
import time
from typing import Any

from wandb_server.artifacts import ArtifactStore
from wandb_server.refusal import RefusalError
from wandb_server.runs import ServedRun, storage_id
from wandb_server.sweeps import ServedAgent, ServedSweep, as_go_writes

Key = tuple[str, str, str]
LETTERS = string.ascii_lowercase + string.digits


def new_id() -> str:
    """Make an ID like those of W&B."""
    return "".join(secrets.choice(LETTERS) for _ in range(8))


class World:
    """The state behind the answers; whoever reads or changes it holds ``lock``."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.user = "user"
        self.default_entity = "team"
        self.entities = {"team", "user"}
        self.projects: list[tuple[str, str]] = []
        self.runs: dict[Key, ServedRun] = {}
        self.sweeps: dict[Key, ServedSweep] = {}
        self.agents: dict[str, ServedAgent] = {}
        self.artifacts = ArtifactStore()
        self.unknown: list[str] = []
        self.silence_s = 20.0

    def create_project(self, entity: str, project: str) -> None:
        """Create a project of an entity that exists, as the first run or sweep in it does."""
        if entity not in self.entities:
            raise RefusalError(f"entity {entity} not found during upsertBucket", status=404)
        if (entity, project) not in self.projects:
            self.projects.append((entity, project))

    def find_run(self, key: Key) -> ServedRun | None:
        return self.runs.get(key)

    def run_by_storage_id(self, wanted: str) -> ServedRun | None:
        return next((run for run in self.runs.values() if run.storage_id == wanted), None)

    def sweep_by_storage_id(self, wanted: str) -> ServedSweep:
        for sweep in self.sweeps.values():
            if wanted in (sweep.storage_id, sweep.id):
                return sweep
        raise RefusalError(f"sweep {wanted} not found", status=404)

    def add_run(self, key: Key) -> ServedRun:
        """Create a run that nobody has started yet."""
        self.create_project(*key[:2])
        run = self.runs[key] = ServedRun(*key)
        run.display_name = f"run-{len(self.runs)}"
        return run

    def runs_of(self, sweep: ServedSweep) -> list[ServedRun]:
        keys = [(sweep.entity, sweep.project, run_id) for run_id in sweep.runs]
        return [self.runs[key] for key in keys if key in self.runs]

    def add_agent(self, sweep: ServedSweep, host: str) -> ServedAgent:
        name = new_id()
        agent = ServedAgent(storage_id("Agent", "v1", name), sweep.id, host)
        self.agents[agent.id] = agent
        return agent

    def settle(self, run: ServedRun) -> None:
        """Take a run that has ended from its agent; one that was preempted waits for the next."""
        if not run.has_ended:
            return
        for agent in self.agents.values():
            agent.runs.discard(run.id)
        sweep = self.sweeps.get((run.entity, run.project, run.sweep or ""))
        if sweep and run.state == "preempted" and run.id not in sweep.requeued:
            sweep.requeued.append(run.id)

    def heartbeat(self, agent_id: str, run_state: dict[str, Any]) -> list[dict[str, Any]]:
        """Hear what an agent runs, and tell it what to do next."""
        agent = self.agents.get(agent_id)
        sweep = next((s for s in self.sweeps.values() if agent and s.id == agent.sweep), None)
        if agent is None or sweep is None:
            raise RefusalError("sweep not found", status=404)
        agent.hear()
        live = {run_id for run_id, is_alive in run_state.items() if is_alive}
        for run_id in agent.runs - live:
            self.vanish((sweep.entity, sweep.project, run_id))
        agent.runs &= live
        if agent.commands:
            commands, agent.commands = agent.commands, []
            return commands
        if live or sweep.state == "PAUSED":
            return []
        return self._work_for(agent, sweep)

    def vanish(self, key: Key) -> None:
        """Note that the process of a run is gone."""
        run = self.runs.get(key)
        if run is not None:
            run.vanish()
            self.settle(run)

    def _work_for(self, agent: ServedAgent, sweep: ServedSweep) -> list[dict[str, Any]]:
        if sweep.state == "CANCELED":
            return self._exit(agent)
        if sweep.requeued:
            run = self.runs[(sweep.entity, sweep.project, sweep.requeued.popleft())]
            run.state = "pending"
            return self._hand_out(agent, sweep, run, "resume")
        point = None if sweep.state == "FINISHED" else sweep.next_point()
        if point is not None:
            run = self.add_run((sweep.entity, sweep.project, new_id()))
            run.sweep = sweep.id
            run.raw_config = {name: {"value": value} for name, value in point.items()}
            sweep.runs.append(run.id)
            return self._hand_out(agent, sweep, run, "run")
        return self._wait_or_exit(agent, sweep)

    def _hand_out(
        self, agent: ServedAgent, sweep: ServedSweep, run: ServedRun, command: str
    ) -> list[dict[str, Any]]:
        agent.runs.add(run.id)
        agent.num_runs += 1
        args = {
            name: {"value": as_go_writes(item["value"])} for name, item in run.raw_config.items()
        }
        program = sweep.config.get("program")
        return [{"type": command, "run_id": run.id, "program": program, "args": args}]

    def _wait_or_exit(self, agent: ServedAgent, sweep: ServedSweep) -> list[dict[str, Any]]:
        self.give_up_silent_agents(sweep)
        if sweep.requeued:
            return self._work_for(agent, sweep)
        if any(other.runs for other in self.agents.values() if other.sweep == sweep.id):
            return []
        sweep.state = "FINISHED"
        return self._exit(agent)

    def give_up_silent_agents(self, sweep: ServedSweep) -> None:
        """Take agents that have not been heard of for a while as dead, and their runs too."""
        for agent in self.agents.values():
            is_silent = time.monotonic() - agent.last_heard > self.silence_s
            if agent.sweep == sweep.id and is_silent:
                self.lose_agent(agent)

    def lose_agent(self, agent: ServedAgent) -> None:
        """Take an agent as dead."""
        agent.state = "CRASHED"
        for sweep in self.sweeps.values():
            for run_id in list(agent.runs) if sweep.id == agent.sweep else ():
                self.vanish((sweep.entity, sweep.project, run_id))
        agent.runs.clear()

    @staticmethod
    def _exit(agent: ServedAgent) -> list[dict[str, Any]]:
        agent.state = "FINISHED"
        return [{"type": "exit"}]

    def stop_run(self, run: ServedRun) -> None:
        """Wish that a run stops: its own client hears it, and the agent that has it."""
        run.is_asked_to_stop = True
        for agent in self.agents.values():
            if run.id in agent.runs:
                agent.commands.append({"type": "stop", "run_id": run.id})

    def set_sweep_state(self, sweep: ServedSweep, state: str) -> None:
        """Change the state of a sweep; CANCELED also stops what is running."""
        sweep.state = state
        if state == "CANCELED":
            for run in self.runs_of(sweep):
                if not run.has_ended:
                    self.stop_run(run)
