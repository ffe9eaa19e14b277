"""Speak with W&B as the agent of a sweep; all that is private in the package wandb is used here."""

import itertools
import json
import socket
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from jade.errors import ConfigError, JadeError
from jade.remote.client import Client, status_of, text_of
from jade.remote.reference import RunReference, SweepReference
from jade.signals import EXIT_PREEMPTED

# An answer may take this long; the server has then been asked once, not several times.
TIMEOUT_S = 30.0
HEARTBEAT = """
mutation Heartbeat($id: ID!, $metrics: JSONString, $runState: JSONString) {
  agentHeartbeat(input: {id: $id, metrics: $metrics, runState: $runState}) { agent { id } commands }
}
"""
REFUSED = (401, 403)
# Said of a run that W&B does not know, or no more.
GONE = "gone"
# How many of the newest runs are asked for their commit: those that wait have none.
NUM_LOOKED_AT = 10
# For a run that is only opened to be given back: nothing of this machine belongs to it.
GIVEN_BACK = {
    "mode": "online",
    "resume": "allow",
    "reinit": "create_new",
    "init_timeout": 20.0,
    "finish_timeout": 20.0,
    "finish_timeout_raises": True,
    "console": "off",
    "silent": True,
    "disable_code": True,
    "disable_git": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}


class SweepGoneError(Exception):
    """The sweep, or the agent, does not exist any more."""


class AccessDeniedError(Exception):
    """The key is not accepted any more."""


class ServerAwayError(Exception):
    """There was no answer, or none that helps; time may."""


class WandbSweep:
    """A sweep on W&B, as an agent sees it.

    Args:
        reference: Which sweep.
        environ: Says who is logged in, and where.

    Raises:
        ConfigError: There is no such sweep, nobody is logged in, or wandb is of another version.
        NetworkError: W&B cannot be reached.
    """

    def __init__(self, reference: SweepReference, environ: Mapping[str, str]) -> None:
        ask_briefly()
        client = Client(environ)
        self.url = client.url
        self.entity = client.complete(reference)
        self.project = reference.project
        self.sweep_id = reference.sweep_id
        self._client = client
        self._sweep = client.find_sweep(reference)
        self._execute = self._find_private()

    @property
    def config(self) -> Mapping[str, Any]:
        """What the sweep file says."""
        config: Mapping[str, Any] = self._sweep.config
        return config

    def read_state(self) -> str:
        """Ask whether the sweep is RUNNING, PAUSED, FINISHED or CANCELED; empty if unknown."""
        try:
            found: Mapping[str, Any] = self._sweep.load(force=True)
        except Exception:
            return ""
        return str(found.get("state") or "").upper()

    def newest_commit(self) -> str | None:
        """Return the commit of the newest run that has one; None if there is none, or no answer."""
        path = f"{self.entity}/{self.project}"
        try:
            runs = self._client.api.runs(
                path, filters={"sweep": self.sweep_id}, order="-created_at", per_page=NUM_LOOKED_AT
            )
            newest = itertools.islice(runs, NUM_LOOKED_AT)
            return next((str(run.commit) for run in newest if run.commit), None)
        except Exception:
            return None

    def read_run_state(self, run_id: str) -> str:
        """Ask whether a run is running, preempted, crashed and so on, or gone; empty if unknown."""
        reference = RunReference(self.entity, self.project, run_id)
        # It would say again what it has said before.
        self._client.api.flush()
        try:
            return str(self._client.find_run(reference).state).lower()
        except ConfigError as error:
            return "" if status_of(error) in REFUSED else GONE
        except (JadeError, OSError):
            return ""

    def register(self) -> str:
        """Register an agent, and return its id."""
        from wandb.apis.public.sweeps import _register_agent

        with self._client.asking(f"an agent of sweep {self}"):
            agent = _register_agent(
                self._client.api,
                socket.gethostname(),
                sweep_id=self.sweep_id,
                project=self.project,
                entity=self.entity,
            )
        return str(agent["id"])

    def ask(self, agent_id: str, run_ids: Iterable[str]) -> list[Mapping[str, Any]]:
        """Say which runs of an agent are alive, and return what it should do.

        Raises:
            SweepGoneError: The sweep was deleted.
            AccessDeniedError: The key is not accepted.
            ServerAwayError: Everything else; the question may have been heard all the same.
        """
        states = json.dumps(dict.fromkeys(run_ids, True))
        variables = {"id": agent_id, "metrics": "{}", "runState": states}
        try:
            answer = self._execute(HEARTBEAT, variables=variables, timeout=TIMEOUT_S)
            commands: list[Mapping[str, Any]] = json.loads(answer["agentHeartbeat"]["commands"])
        except Exception as error:
            raise _explain(error) from error
        return commands

    def give_back(self, run_id: str, values: Mapping[str, Any]) -> None:
        """Have a run handed out again that was never begun.

        W&B hands out again what says of itself that it is preempted, so it has to be opened.

        Raises:
            ServerAwayError: W&B has not heard it.
        """
        import wandb

        place = {"entity": self.entity, "project": self.project, "sweep_id": self.sweep_id}
        wanted = {**GIVEN_BACK, **place, "run_id": run_id}
        known = {k: v for k, v in wanted.items() if k in wandb.Settings.model_fields}
        try:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                settings = wandb.Settings(**known)
                run = wandb.init(dir=folder, config=dict(values), settings=settings)
                run.mark_preempting()
                run.finish(EXIT_PREEMPTED)
        except Exception as error:
            raise ServerAwayError(text_of(error)) from error

    def __str__(self) -> str:
        return f"{self.entity}/{self.project}/{self.sweep_id}"

    def _find_private(self) -> Any:
        try:
            from wandb.apis.public.sweeps import _register_agent  # noqa: F401

            return self._client.api._service_api.execute_graphql
        except (ImportError, AttributeError) as error:
            import wandb

            raise ConfigError(
                f"jade agent does not know wandb {wandb.__version__} (it lacks: {error}). "
                "Use wandb 0.31, or `wandb agent`, which runs the same trials."
            ) from error


def ask_briefly() -> None:
    """Keep wandb from repeating a question over and over: each one that is heard takes a point.

    Whether and when to ask again is for an agent to decide, which can tell what is the matter.
    """
    import wandb

    known = wandb.Settings.model_fields
    # Not 0, which stands for the usual number: 20.
    wanted = {"x_graphql_retry_max": 1, "silent": True}
    wandb.setup(wandb.Settings(**{k: v for k, v in wanted.items() if k in known}))


def _explain(error: Exception) -> Exception:
    status = status_of(error)
    if status == 404:
        return SweepGoneError("the sweep was deleted")
    if status in REFUSED:
        return AccessDeniedError("the API key is not accepted any more")
    return ServerAwayError(text_of(error))
