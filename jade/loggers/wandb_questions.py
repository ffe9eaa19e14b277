"""Ask W&B about one run: whether it should stop, and of what configuration it is."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from jade.loggers.wandb_patience import soon_at_an_end

TIMEOUT_S = 5
STOP_QUERY = """
query RunStopped($entity: String, $project: String, $run: String!) {
    project(name: $project, entityName: $entity) { run(name: $run) { shouldStop stopped } }
}
"""
CONFIG_QUERY = """
query RunConfig($entity: String, $project: String, $run: String!) {
    project(name: $project, entityName: $entity) { run(name: $run) { config } }
}
"""

_LOG = logging.getLogger(__name__)


def should_stop(entity: str | None, project: str | None, run_id: str) -> bool:
    """Tell whether somebody wants the run to end; no answer is none."""
    known = _ask(STOP_QUERY, entity, project, run_id)
    return bool(known.get("stopped") or known.get("shouldStop"))


def known_config(entity: str | None, project: str | None, run_id: str) -> dict[str, Any]:
    """Return the configuration of a run; empty if there is no such run, or no answer."""
    text = _ask(CONFIG_QUERY, entity, project, run_id).get("config")
    entries = json.loads(text) if isinstance(text, str) else text
    if not isinstance(entries, Mapping):
        return {}
    return {
        str(key): entry["value"]
        for key, entry in entries.items()
        if isinstance(entry, Mapping) and "value" in entry
    }


def _ask(query: str, entity: str | None, project: str | None, run_id: str) -> Mapping[str, Any]:
    import wandb

    variables = {"entity": entity, "project": project, "run": run_id}
    try:
        with soon_at_an_end(TIMEOUT_S):
            api = wandb.Api(timeout=TIMEOUT_S)
        answer = api._service_api.execute_graphql(query, variables=variables, timeout=TIMEOUT_S)
        return answer["project"]["run"] or {}
    except Exception as error:
        _LOG.debug("W&B does not say anything of the run %s: %s", run_id, error)
        return {}
