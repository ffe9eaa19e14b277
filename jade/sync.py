"""Bring a run to W&B from what its directory keeps, as far as W&B does not have it."""

import contextlib
import json
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade.errors import ConfigError, NetworkError, RunInUseError, UnfinishedError
from jade.lock import RunLock
from jade.loggers import wandb_account as account
from jade.loggers.base import Logger, RunInfo
from jade.loggers.saved_log import SavedLog
from jade.loggers.wandb_logger import FINISH_TIMEOUT_S, WandbLogger
from jade.loggers.wandb_place import WandbPlace
from jade.publisher import LEVELS, PREFIX, Publisher
from jade.remote.client import Client, as_mapping
from jade.remote.download import Downloads, RemoteFile
from jade.remote.reference import RunReference
from jade.run_dir import FINISHED, PREEMPTED, RUNNING, STOPPED, RunDir
from jade.runs import CRASHED, load_run_summary
from jade.saved_runs import is_same, list_checkpoints, load_config, read_json

# Settings of the sweep or the run that happens to be in the environment, which is not this one.
NOT_OURS = ("WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_RUN_ID", "WANDB_RESUME")
# What would be said of this process and this machine, which never trained the run.
NOT_THE_RUN = {
    "WANDB_SILENT": "true",
    "WANDB_CONSOLE": "off",
    "WANDB_X_DISABLE_STATS": "true",
    "WANDB_X_DISABLE_META": "true",
    "WANDB_DISABLE_GIT": "true",
    "WANDB_DISABLE_CODE": "true",
}
# Files that differ a little without anything being lost: the end of a run writes them twice.
NOT_DECISIVE = ("status.json", "run.log")
DEFAULT_LEVEL = "best"
# A connection that is slower than this is waited for in vain.
LEAST_BYTES_PER_SECOND = 250_000.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Synced:
    """What was sent to W&B."""

    run_id: str
    url: str
    num_steps: int = 0
    num_media: int = 0
    num_files: int = 0
    is_new: bool = False
    was_current: bool = False


class _Offers(Logger):
    """Notes the files that a run would upload."""

    keeps_files = True

    def __init__(self) -> None:
        self.files: dict[str, Path] = {}

    def start(self, run: RunInfo) -> None:
        """Take part in no run."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Take no metrics."""

    def upload(self, path: Path, name: str) -> None:
        self.files[name] = path

    def finish(self, exit_code: int) -> None:
        """Have nothing to close."""


class Sync:
    """One run that is brought to W&B.

    Args:
        directory: Where it is.
        environ: Says to which entity and project, unless the run itself does.
        level: Which checkpoints are uploaded; None means those that the run itself would.
    """

    def __init__(
        self, directory: RunDir, environ: Mapping[str, str], level: str | None = None
    ) -> None:
        self._directory = directory
        self._environ = {k: v for k, v in environ.items() if k not in NOT_OURS}
        self._place = self._choose_place()
        self._config = load_config(directory)
        named = level or self._config.get("upload") or DEFAULT_LEVEL
        self._level = named if named in LEVELS else DEFAULT_LEVEL
        self._status = read_json(directory.status_file)
        self._log = SavedLog(directory.root)

    def _choose_place(self) -> WandbPlace:
        """Return where the run belongs: where it was started, or else where somebody wants it."""
        known, wanted = WandbPlace.load(self._directory.root), WandbPlace.of(self._environ)
        for what, own, other in (
            ("entity", known.entity, wanted.entity),
            ("project", known.project, wanted.project),
        ):
            if own and other and own != other:
                logger.warning(
                    "%s belongs to the %s %s on W&B, and is brought there, not to %s (%s says so).",
                    self._directory.run_id,
                    what,
                    own,
                    other,
                    self._directory.wandb_place,
                )
        return known.completed(wanted)

    def run(self, client: Client) -> Synced:
        """Send what W&B does not have.

        Raises:
            ConfigError: W&B has a run with this id and another configuration.
            RunInUseError: The run is still running.
            NetworkError: W&B cannot be reached.
            UnfinishedError: W&B has not got everything in time.
        """
        with RunLock(self._directory.root):
            found = self._find(client)
            self._require_same(found)
            offers = _Offers()
            publisher = Publisher(offers, self._directory, self._level)
            try:
                return self._bring(client, found, self._offer(publisher, offers))
            finally:
                publisher.clean_up()

    def _bring(self, client: Client, found: Any, offered: Mapping[str, Path]) -> Synced:
        known = {} if found is None else Downloads(client, found, PREFIX).files
        files = {n: path for n, path in offered.items() if not _is_there(known.get(n), path)}
        last = -1
        if found is not None:
            with client.asking(f"history of {self._directory.run_id}"):
                last = int(found.lastHistoryStep)
        steps = self._log.steps
        missing = [step for step in steps if step > last]
        self._warn_of_gaps(found, [step for step in steps if step <= last], last)
        if found is not None and not missing and self._is_current(found, files):
            return Synced(self._directory.run_id, str(found.url), was_current=True)
        return self._send(missing, files, is_new=found is None)

    def _find(self, client: Client) -> Any:
        """Find the run on W&B; None if it is not there yet."""
        place = self._place
        project = place.project or account.NO_PROJECT
        try:
            return client.find_run(RunReference(place.entity, project, self._directory.run_id))
        except ConfigError:
            return None

    def _require_same(self, found: Any) -> None:
        known = {} if found is None else as_mapping(found.config)
        if known.get("model") and not is_same(known, _as_json(self._config)):
            raise ConfigError(
                f"The run {'/'.join(found.path)} on W&B is one of another configuration than "
                f"{self._directory.root}: rename the directory, or name another project in "
                f"{self._directory.wandb_place.name} there, or else by WANDB_PROJECT."
            )

    def _offer(self, publisher: Publisher, offers: _Offers) -> dict[str, Path]:
        publisher.publish_description()
        for checkpoint in list_checkpoints(self._directory):
            publisher.publish_checkpoint(checkpoint.path)
        publisher.publish_end(self._status)
        return offers.files

    def _warn_of_gaps(self, found: Any, steps: Sequence[int], last: int) -> None:
        """Say so if W&B lacks rows before its last one, where it takes none any more."""
        num_there = 0 if found is None else int(found._attrs.get("historyLineCount") or 0)
        if found is not None and num_there < len(steps):
            logger.warning(
                "%s: W&B has %d of the %d rows up to iteration %d, and takes none before its last.",
                self._directory.run_id,
                num_there,
                len(steps),
                last,
            )

    def _is_current(self, found: Any, files: Mapping[str, Path]) -> bool:
        decisive = [n for n in files if n.removeprefix(PREFIX) not in NOT_DECISIVE]
        known = as_mapping(found.summary_metrics)
        summary = _as_json(_with_numbers(read_json(self._directory.summary)))
        return (
            not decisive
            and str(found.state) in _states(self._state)
            and all(_is_equal(known.get(name), value) for name, value in summary.items())
        )

    @property
    def _state(self) -> str:
        status = str(self._status.get("status"))
        return CRASHED if status == RUNNING else status

    @property
    def _exit_code(self) -> int:
        """With which code the run ended; one that was killed has left none."""
        if self._state in (FINISHED, STOPPED):
            return 0
        code = self._status.get("exit_code")
        return code if isinstance(code, int) and code != 0 else 1

    def _send(self, steps: Sequence[int], files: Mapping[str, Path], *, is_new: bool) -> Synced:
        num_bytes = sum(path.stat().st_size for path in files.values())
        destination = WandbLogger(
            "online",
            self._environ,
            place=self._place,
            finish_timeout_s=FINISH_TIMEOUT_S + num_bytes / LEAST_BYTES_PER_SECOND,
        )
        destination.start(self._describe())
        if destination.mode != "online":
            destination.finish(0)
            raise NetworkError(
                f"{self._directory.run_id} was not sent: W&B at {account.base_url(self._environ)} "
                "cannot be reached any more."
            )
        url = str(destination.url)
        num_media = self._log.replay(destination, steps)
        for name, path in files.items():
            destination.upload(path, name)
        destination.summarize(_with_numbers(read_json(self._directory.summary)))
        if self._state == PREEMPTED:
            destination.mark_preempting()
        try:
            destination.finish(self._exit_code)
        except TimeoutError as error:
            raise UnfinishedError(
                f"{self._directory.run_id}: W&B at {account.base_url(self._environ)} has not got "
                "everything in time. Call it again: what has arrived is not sent twice "
                "(WANDB_FINISH_TIMEOUT sets how many seconds it may take)."
            ) from error
        return Synced(self._directory.run_id, url, len(steps), num_media, len(files), is_new)

    def _describe(self) -> RunInfo:
        config = self._config
        return RunInfo(
            run_id=self._directory.run_id,
            directory=self._directory.root,
            config=config,
            name=config.get("run_name"),
            group=config.get("group"),
            tags=tuple(config.get("tags") or ()),
            notes=config.get("notes"),
            job_type=config.get("job_type"),
        )


def sync_run(
    directory: RunDir, client: Client, environ: Mapping[str, str], level: str | None = None
) -> Synced:
    """Bring one run to W&B; see `Sync`."""
    found = load_run_summary(directory.root)
    if found is not None and found.status == RUNNING:
        raise RunInUseError(
            f"{directory.root} is still running: it is brought to W&B by itself, or later by "
            "`jade sync`."
        )
    if not directory.config.is_file():
        raise ConfigError(f"The run {directory.root} has no config.yml: it did not even begin.")
    return Sync(directory, environ, level).run(client)


@contextlib.contextmanager
def own_environment() -> Iterator[None]:
    """Let wandb see neither a sweep nor a run of the environment, nor this process and machine.

    It reads the environment when it is used for the first time.
    """
    before = {name: os.environ.get(name) for name in (*NOT_OURS, *NOT_THE_RUN)}
    for name in NOT_OURS:
        os.environ.pop(name, None)
    os.environ.update(NOT_THE_RUN)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _is_there(file: RemoteFile | None, path: Path) -> bool:
    return file is not None and bool(file.md5) and file.problem_of(path) is None


def _states(status: str) -> tuple[str, ...]:
    """Return what W&B may call a run that ended so."""
    if status in (FINISHED, STOPPED):
        return ("finished", "killed") if status == STOPPED else ("finished",)
    if status == PREEMPTED:
        return ("preempted", "preempting")
    return ("failed", "crashed", "killed")


def _with_numbers(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary with the numbers that JSON does not have, and so are text in the file."""
    odd = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    return {k: odd.get(v, v) if isinstance(v, str) else v for k, v in summary.items()}


def _is_equal(known: Any, value: Any) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return str(known).lower().replace("infinity", "inf") == str(value)
    return bool(known == value)


def _as_json(value: Any) -> Any:
    """Return values as they are after a way through JSON."""
    return json.loads(json.dumps(value, default=str))
