"""Bring a run from W&B into the folder of the runs here, to go on with it."""

import logging
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from jade.errors import CheckpointError, ConfigError, NetworkError
from jade.lock import RunLock, is_held
from jade.loggers import wandb_account as account
from jade.remote.client import Client
from jade.remote.history import complete_metrics
from jade.remote.reference import RunReference
from jade.remote.remote_run import CHECKPOINTS, CODE, RemoteRun, fetch_newest
from jade.run_dir import RUN_ID, RunDir, check_writable
from jade.saved_runs import is_same, list_checkpoints, load_config
from jade.whole_file import ASIDE

RECORDS = ("config.yml", "provenance.json", "status.json", "summary.json", "metrics.csv", "run.log")

logger = logging.getLogger(__name__)


def fetch_run(run_id: str, environ: Mapping[str, str], experiments_root: Path) -> RunDir | None:
    """Make sure that a run which a sweep hands out again is here, as far as it has come.

    Args:
        run_id: Of the run (``WANDB_RUN_ID``).
        environ: Says in which entity and project it is.
        experiments_root: Where its directory is made, or is already; another machine may have gone
            on with it since.

    Returns:
        The directory, from which the run can go on; None if W&B has no checkpoint of it.

    Raises:
        NetworkError: W&B does not say whether there is one: to start again would lose what was
            done.
        CheckpointError: There are checkpoints, but all of them are damaged.
    """
    directory = RunDir(experiments_root / run_id)
    if not directory.config.is_file():
        return _fetch_new(run_id, environ, experiments_root)
    try:
        client, remote = _ask(run_id, environ)
        _update(client, remote, directory)
    except (NetworkError, ConfigError) as error:
        logger.warning("%s What is here is continued.", error)
    return directory


def _ask(run_id: str, environ: Mapping[str, str]) -> tuple[Client, RemoteRun]:
    project = account.project(environ) or account.NO_PROJECT
    client = Client(environ)
    return client, RemoteRun(client, RunReference(account.entity(environ), project, run_id))


def _fetch_new(run_id: str, environ: Mapping[str, str], root: Path) -> RunDir | None:
    try:
        client, remote = _ask(run_id, environ)
    except ConfigError as error:
        logger.info("%s It begins here.", error)
        return None
    if not remote.has("config.yml") or not remote.checkpoint_names():
        return None
    return _make(client, remote, root)


def adopt_run(client: Client, reference: RunReference, root: Path) -> RunDir:
    """Make sure that the directory of a run is below ``root`` and as new as what W&B has.

    Raises:
        ConfigError: W&B has no such run, or nothing to go on from; or the run with this id here is
            another one. Nothing is changed then.
    """
    directory = RunDir(root / reference.run_id)
    remote = RemoteRun(client, reference)
    remote.require_records()
    if remote.state == "running" and not is_held(directory.root):
        logger.warning(
            "W&B counts %s as running: if another machine is still in it, end it there first.",
            remote.reference,
        )
    if not directory.config.is_file():
        if not remote.checkpoint_names():
            raise ConfigError(
                f"The run {remote.reference} has no checkpoint on W&B: there is nothing to go on "
                f"from. `jade train --config` with its config.yml starts it again."
            )
        return _make(client, remote, root)
    _update(client, remote, directory)
    return directory


def _make(client: Client, remote: RemoteRun, root: Path) -> RunDir:
    """Download a run aside, and give it its name once all of it is there."""
    run_id = remote.reference.run_id
    if not RUN_ID.fullmatch(run_id):
        raise ConfigError(f"The run id {run_id!r} cannot be the name of a directory.")
    check_writable(root)
    root.mkdir(parents=True, exist_ok=True)
    final = RunDir(root / run_id)
    aside = Path(tempfile.mkdtemp(prefix=f".{run_id}.", suffix=ASIDE, dir=root))
    try:
        # The directory has its right name from the start, for whoever looks at it.
        directory = RunDir(aside / run_id)
        _fetch(client, remote, directory)
        _give_name(directory, final)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    logger.info("%s was fetched from W&B to %s", remote.reference, final.root)
    return final


def _give_name(directory: RunDir, final: RunDir) -> None:
    try:
        directory.root.rename(final.root)
    except OSError as error:
        if final.config.is_file():
            # Another process was faster.
            return
        raise ConfigError(
            f"{final.root} is in the way of the run that was fetched from W&B: {error.strerror}."
        ) from error


def _fetch(client: Client, remote: RemoteRun, directory: RunDir) -> int | None:
    """Download all that going on needs, and return the iteration of the newest checkpoint."""
    for folder in (directory.root, directory.checkpoints, directory.evaluations):
        folder.mkdir(parents=True, exist_ok=True)
    remote.fetch(directory, (*RECORDS, CODE))
    load_config(directory)
    iteration = fetch_newest(remote, directory)
    if iteration is not None:
        complete_metrics(client, remote.run, directory, iteration)
    return iteration


def _update(client: Client, remote: RemoteRun, directory: RunDir) -> None:
    """Take over what W&B has, if it is ahead of the directory that is here."""
    if is_held(directory.root):
        # Whoever goes on is told by the lock.
        return
    with tempfile.TemporaryDirectory(
        prefix=f".{directory.run_id}.", suffix=ASIDE, dir=directory.root.parent
    ) as folder:
        other = RunDir(Path(folder) / directory.run_id)
        other.root.mkdir()
        remote.fetch(other, ("config.yml",))
        if not is_same(load_config(directory), load_config(other)):
            raise ConfigError(
                f"{directory.root} is a run of another configuration than {remote.reference}: "
                "move it away, or give another --experiments_root."
            )
        here = _newest(directory)
        if not remote.checkpoint_names() or _is_equal(remote, directory):
            return
        there = _fetch_or_none(client, remote, other)
        if there is None or (here is not None and there <= here):
            logger.info("%s is as new as what W&B has, or newer.", directory.root)
            return
        logger.warning(
            "%s was left at iteration %s, W&B has iteration %d: that is taken over.",
            directory.root,
            "0 (without a checkpoint)" if here is None else here,
            there,
        )
        with RunLock(directory.root):
            _take_over(other, directory)


def _fetch_or_none(client: Client, remote: RemoteRun, other: RunDir) -> int | None:
    try:
        return _fetch(client, remote, other)
    except CheckpointError as error:
        logger.warning("%s That of %s is used.", error, other.run_id)
        return None


def _newest(directory: RunDir) -> int | None:
    known = [item.iteration for item in list_checkpoints(directory) if item.iteration is not None]
    return max(known, default=None)


def _is_equal(remote: RemoteRun, directory: RunDir) -> bool:
    name = directory.last_checkpoint.name
    if not remote.has(f"{CHECKPOINTS}{name}") or not directory.last_checkpoint.is_file():
        return False
    file = remote.describe(f"{CHECKPOINTS}{name}")
    return bool(file.md5) and file.problem_of(directory.last_checkpoint) is None


def _take_over(other: RunDir, directory: RunDir) -> None:
    """Put the files of one directory in the place of another's; its checkpoints are kept."""
    directory.checkpoints.mkdir(exist_ok=True)
    for kept in list_checkpoints(directory):
        if kept.kind == "last" and kept.iteration is not None:
            kept.path.replace(directory.checkpoint(kept.iteration))
    for path in sorted(other.checkpoints.iterdir()):
        path.replace(directory.checkpoints / path.name)
    for name in RECORDS:
        if (other.root / name).is_file():
            (other.root / name).replace(directory.root / name)
    if other.code.is_dir():
        shutil.rmtree(directory.code, ignore_errors=True)
        other.code.replace(directory.code)
