"""Find a run wherever it is: in a directory here, or on W&B."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from jade.envvars import read_environment
from jade.errors import ConfigError, NetworkError
from jade.remote.adoption import adopt_run
from jade.remote.cached_run import CachedRun, cache_root
from jade.remote.client import Client
from jade.remote.listing import choose_run, describe_run
from jade.remote.reference import (
    Reference,
    RunReference,
    SweepReference,
    is_explicit,
    parse_reference,
)
from jade.remote.remote_run import RemoteRun
from jade.run_dir import RUNNING, RunDir
from jade.runs import (
    CRASHED,
    UNKNOWN,
    RunSummary,
    default_root,
    find_directory,
    find_run,
    load_run_summary,
)

L = TypeVar("L")
T = TypeVar("T")

logger = logging.getLogger(__name__)


def find_anywhere(wanted: str | Path, root: Path | None = None) -> RunDir | CachedRun:
    """Find a run by its directory, its id, or a reference to W&B; what is here always wins.

    A run on W&B is not altered; its records and its code are fetched into the cache.

    Raises:
        ConfigError: It is neither here nor there.
        NetworkError: It is not here, and W&B cannot be asked.
    """
    return _search(wanted, root, _open, find_directory)


def names_remote_run(wanted: str) -> bool:
    """Tell whether a text could mean a run on W&B, without asking for it."""
    return parse_reference(wanted, read_environment(os.environ, None)) is not None


def find_summary(wanted: str | Path) -> tuple[RunSummary, RemoteRun | None]:
    """Find how a run stands, wherever it is; the second part is the run on W&B, if it is there."""
    found = _search(wanted, None, lambda reference: _open(reference, ("run.log",)), find_run)
    if isinstance(found, RunSummary):
        return found, None
    listed = describe_run(found.remote.run)
    stored = load_run_summary(found.directory.root)
    if stored is None or stored.status == UNKNOWN:
        return replace(listed, path=found.directory.root), found.remote
    # Nobody here is in it: whether it runs, or has crashed, W&B knows.
    is_open = stored.status in (RUNNING, CRASHED)
    return replace(stored, status=listed.status if is_open else stored.status), found.remote


def bring_here(wanted: str | Path, root: Path | None = None) -> tuple[RunDir, Mapping[str, str]]:
    """Find a run to go on with: one that is on W&B gets a directory below ``root``.

    Returns:
        The directory, and the variables with which W&B goes on with the very run that was named
        there, whatever the environment says of entity and project.
    """
    target = default_root() if root is None else root
    return _search(
        wanted,
        root,
        lambda reference: _adopt(reference, target),
        lambda name, below: (find_directory(name, below), {}),
    )


def _search(
    wanted: str | Path,
    root: Path | None,
    fetch: Callable[[Reference], T],
    look: Callable[[str | Path, Path | None], L],
) -> L | T:
    text, environ = str(wanted), read_environment(os.environ, None)
    if is_explicit(text) and not Path(text).exists():
        reference = parse_reference(text, environ)
        if reference is not None:
            return fetch(reference)
    try:
        return look(wanted, root)
    except ConfigError as local:
        reference = parse_reference(text, environ)
        if reference is None:
            raise _with_hint(local, text) from None
        try:
            return fetch(reference)
        except (ConfigError, NetworkError) as error:
            raise type(error)(f"{local}\nAs the run {reference} on W&B: {error}") from error


def _with_hint(error: ConfigError, text: str) -> ConfigError:
    parts = text.split("/")
    if len(parts) != 2 or not all(parts) or Path(parts[0]).is_dir() or "." in parts:
        return error
    return ConfigError(f"{error} If it is a run on W&B, write entity/{text}, or set WANDB_ENTITY.")


def _open(reference: Reference, more: Iterable[str] = ()) -> CachedRun:
    environ = read_environment(os.environ, None)
    client = Client(environ)
    remote = RemoteRun(client, _chosen(client, reference))
    cached = CachedRun(client, remote, cache_root(environ))
    cached.load_records(more)
    return cached


def _chosen(client: Client, reference: Reference) -> RunReference:
    if not isinstance(reference, SweepReference):
        return reference
    chosen = choose_run(client, reference)
    logger.info("sweep %s, %s: run %s", reference, reference.which, chosen)
    return chosen


def _adopt(reference: Reference, root: Path) -> tuple[RunDir, Mapping[str, str]]:
    environ = read_environment(os.environ, None)
    client = Client(environ)
    chosen = _chosen(client, reference)
    directory = adopt_run(client, chosen, root)
    return directory, {"WANDB_ENTITY": client.complete(chosen), "WANDB_PROJECT": chosen.project}
