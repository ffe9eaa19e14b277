"""The GraphQL operations that concern sweeps and agents."""

import json
from collections.abc import Callable
from typing import Any

import yaml

from wandb_server.points import SweepConfigError
from wandb_server.refusal import RefusalError
from wandb_server.run_operations import RunOperations, page, sampled_history
from wandb_server.run_query import value_of
from wandb_server.runs import now
from wandb_server.sweeps import ServedAgent, ServedSweep
from wandb_server.world import World, new_id

Variables = dict[str, Any]
STATES = ("RUNNING", "PAUSED", "FINISHED", "CANCELED")


class SweepOperations:
    """Answers to operations by their name."""

    def __init__(self, world: World, runs: RunOperations) -> None:
        self._world = world
        self._runs = runs
        self.table: dict[str, Callable[[str, Variables], Any]] = {
            "UpsertSweep": self._upsert_sweep,
            "SweepWithRuns": self._sweep_with_runs,
            "GetSweep": self._get_sweep,
            "GetSweepLegacy": self._get_sweep,
            "GetSweepState": self._get_sweep,
            "GetSweeps": self._get_sweeps,
            "CreateAgent": self._create_agent,
            "Heartbeat": self._heartbeat,
            "GetSweepAgents": self._get_agents,
            "GetSweepAgent": self._get_agents,
        }

    def _fields(self, sweep: ServedSweep) -> dict[str, Any]:
        return {
            "__typename": "Sweep",
            "id": sweep.storage_id,
            "name": sweep.id,
            "displayName": sweep.display_name or sweep.config.get("name"),
            "method": sweep.config["method"],
            "state": sweep.state,
            "description": sweep.config.get("description"),
            "config": sweep.text,
            "bestLoss": self._best_loss(sweep),
            "createdAt": sweep.created_at,
            "updatedAt": sweep.created_at,
            "heartbeatAt": now(),
            "earlyStopJobRunning": False,
            "controller": None,
            "scheduler": None,
            "runCount": len(sweep.runs),
            "runCountExpected": None,
            "project": self._runs.project_fields(sweep.entity, sweep.project),
        }

    def _best_loss(self, sweep: ServedSweep) -> float | None:
        name = (sweep.config.get("metric") or {}).get("name")
        if name is None:
            return None
        found = [value_of(run, f"summary_metrics.{name}") for run in self._world.runs_of(sweep)]
        return min((value for value in found if isinstance(value, int | float)), default=None)

    def _find(self, values: Variables, name: str = "sweep") -> ServedSweep | None:
        entity = values.get("entity") or values.get("entityName") or self._world.default_entity
        project = values.get("project") or values.get("projectName")
        return self._world.sweeps.get((entity, project or "uncategorized", values[name]))

    def _upsert_sweep(self, query: str, values: Variables) -> Any:
        if values.get("id"):
            sweep = self._world.sweep_by_storage_id(values["id"])
        else:
            sweep = self._create(values)
        if values.get("config") is not None:
            self._configure(sweep, values["config"])
        if values.get("displayName"):
            sweep.display_name = values["displayName"]
        if values.get("state"):
            if values["state"] not in STATES:
                raise RefusalError(f"unknown state of a sweep: {values['state']}")
            self._world.set_sweep_state(sweep, values["state"])
        return {"upsertSweep": {"sweep": self._fields(sweep), "configValidationWarnings": []}}

    def _create(self, values: Variables) -> ServedSweep:
        entity = values.get("entityName") or self._world.default_entity
        project = values.get("projectName") or "uncategorized"
        try:
            sweep = ServedSweep(entity, project, new_id(), values["config"])
        except (SweepConfigError, yaml.YAMLError) as error:
            raise RefusalError(f"Invalid sweep config: {error}") from error
        self._world.create_project(entity, project)
        self._world.sweeps[(entity, project, sweep.id)] = sweep
        return sweep

    @staticmethod
    def _configure(sweep: ServedSweep, text: str) -> None:
        try:
            sweep.configure(text)
        except (SweepConfigError, yaml.YAMLError) as error:
            raise RefusalError(f"Invalid sweep config: {error}") from error

    def _sweep_with_runs(self, query: str, values: Variables) -> Any:
        sweep = self._find(values)
        if sweep is None:
            return {"project": {"sweep": None}}
        specs = values["specs"] if isinstance(values["specs"], list) else [values["specs"]]
        nodes = [
            {
                **self._runs.fields(run, query),
                "sampledHistory": [sampled_history(run, json.loads(spec)) for spec in specs],
            }
            for run in self._world.runs_of(sweep)
        ]
        runs = {"edges": [{"node": node} for node in nodes]}
        return {"project": {"sweep": {**self._fields(sweep), "runs": runs}}}

    def _get_sweep(self, query: str, values: Variables) -> Any:
        sweep = self._find(values, "name" if "name" in values else "sweep")
        return {"project": {"sweep": sweep and self._fields(sweep)}}

    def _get_sweeps(self, query: str, values: Variables) -> Any:
        place = (values["entity"], values["project"])
        if place not in self._world.projects:
            return {"project": None}
        nodes = [self._fields(s) for key, s in self._world.sweeps.items() if key[:2] == place]
        sweeps = page(nodes, values.get("perPage") or 50, values.get("cursor"))
        return {"project": {"totalSweeps": len(nodes), "sweeps": sweeps}}

    def _create_agent(self, query: str, values: Variables) -> Any:
        sweep = self._find(values)
        if sweep is None:
            raise RefusalError(f"sweep {values['sweep']} not found", status=404)
        agent = self._world.add_agent(sweep, values["host"])
        return {"createAgent": {"agent": {"id": agent.id}}}

    def _heartbeat(self, query: str, values: Variables) -> Any:
        commands = self._world.heartbeat(values["id"], json.loads(values.get("runState") or "{}"))
        answer = {"agent": {"id": values["id"]}, "commands": json.dumps(commands)}
        return {"agentHeartbeat": answer}

    @staticmethod
    def _agent_fields(agent: ServedAgent) -> dict[str, Any]:
        return {
            "id": agent.id,
            "name": agent.id,
            "host": agent.host,
            "state": agent.state,
            "totalRuns": agent.num_runs,
            "createdAt": agent.created_at,
            "heartbeatAt": agent.heartbeat_at,
        }

    def _get_agents(self, query: str, values: Variables) -> Any:
        sweep = self._find(values)
        if sweep is None:
            return {"project": {"sweep": None}}
        agents = [agent for agent in self._world.agents.values() if agent.sweep == sweep.id]
        found = {
            "agents": {"edges": [{"node": self._agent_fields(agent)} for agent in agents]},
            "agent": next(
                (self._agent_fields(a) for a in agents if a.id == values.get("agentID")), None
            ),
        }
        return {"project": {"sweep": found}}
