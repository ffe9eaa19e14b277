"""Look a sweep up on W&B before jobs are submitted for it, also where it is not."""

import contextlib
import itertools
from collections.abc import Mapping

from jade.errors import ConfigError, JadeError
from jade.remote.client import Client
from jade.remote.reference import SweepReference

# So many other projects are looked through for a sweep that is not where it should be.
MOST_PROJECTS = 20


def require_sweep_on_wandb(reference: SweepReference, environ: Mapping[str, str]) -> SweepReference:
    """Return the whole name of a sweep that exists.

    Raises:
        ConfigError: There is no such sweep in the project; the message says which one has it.
        NetworkError: W&B cannot be reached.
    """
    client = Client(environ)
    entity = client.complete(reference)
    complete = SweepReference(entity, reference.project, reference.sweep_id)
    try:
        client.find_sweep(complete)
    except ConfigError as error:
        project = _find_project(client, complete)
        if project is None:
            raise
        meant = SweepReference(entity, project, reference.sweep_id)
        raise ConfigError(
            f"There is no sweep {reference.sweep_id} in {entity}/{reference.project}. It is one of "
            f"another project: did you mean {meant}?"
        ) from error
    return complete


def _find_project(client: Client, reference: SweepReference) -> str | None:
    """Find the project of the same entity that has a sweep; None if none has it."""
    with contextlib.suppress(JadeError):
        with client.asking(f"the projects of {reference.entity}"):
            found = itertools.islice(client.api.projects(reference.entity), MOST_PROJECTS)
            names = [str(project.name) for project in found]
        for name in names:
            with contextlib.suppress(ConfigError):
                client.find_sweep(SweepReference(reference.entity, name, reference.sweep_id))
                return name
    return None
