"""Record a run on Weights & Biases: online, offline for a later `wandb sync`, or not at all."""

import html
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.concealment import find_expanded
from jade.errors import ConfigError
from jade.loggers import wandb_account as account
from jade.loggers import wandb_questions
from jade.loggers.base import Logger, RunInfo
from jade.loggers.console import Screen
from jade.loggers.saved_log import SavedLog
from jade.loggers.turn import Turn
from jade.loggers.uploads import Uploads
from jade.loggers.wandb_place import WandbPlace
from jade.run_dir import RunDir
from jade.saved_runs import is_same, read_json
from jade.whole_file import copy_whole

if TYPE_CHECKING:
    from jade.media import Media

_LOG = logging.getLogger(__name__)
_STEP = "iteration"
REFUSED_KEY = ("error 401", "not logged in", "invalid api key", "unauthorized")
REFUSED_RUN = ("error 403", "error 404", "permission denied", "forbidden", "not found")
# How long an earlier process may take to bring what it has to W&B.
TURN_TIMEOUT_S = 60.0
FINISH_TIMEOUT_S = 300.0
# Each holds unless its variable (WANDB_INIT_TIMEOUT, ...) is set. The timeouts keep a server that
# does not answer from holding up the start and the end of a run.
_SETTINGS = {
    "init_timeout": 60.0,
    "quiet": True,
    "finish_timeout_raises": True,
    "reinit": "finish_previous",
    # W&B would upload what differs from the last commit, also in files that hold secrets. A run has
    # a copy of its code, and in its provenance the differences of all other files.
    "disable_git": True,
}


class WandbLogger(Logger):
    """A W&B run with the id of the JADE run, and its iterations as the axis of every metric.

    The mode is resolved here, so that one that cannot be had is an error before anything starts.

    Args:
        mode: As for `resolve_mode`.
        environ: The environment of the run.
        pid: The process that trains, if it is not this one.
        place: Where the run belongs, whatever the environment says.
        finish_timeout_s: How long the end may take, unless the user has said so.
    """

    def __init__(
        self,
        mode: str = "auto",
        environ: Mapping[str, str] | None = None,
        *,
        pid: int | None = None,
        place: WandbPlace | None = None,
        finish_timeout_s: float = FINISH_TIMEOUT_S,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self.mode = account.resolve_mode(mode, self._environ)
        requested = account.requested_mode(mode, self._environ)
        self._is_fallback = self.mode not in (requested, "online")
        self._pid = os.getpid() if pid is None else pid
        self._screen: Screen | None = None
        self._place = place
        self._finish_timeout_s = finish_timeout_s
        self._run: Any = None
        self._first_step = 0
        # The run that is being finished: it still takes files, but nothing is logged any more.
        self._finishing: Any = None
        self._uploads = Uploads(self._send, self._drop)
        self._turn: Turn | None = None
        self._is_stop_wanted = False
        self._report_stop: Callable[[], None] = _do_nothing

    def start(self, run: RunInfo) -> None:
        self.open(run)
        self.catch_up(run)

    def open(self, run: RunInfo) -> None:
        """Open the run on W&B, as far as that takes no longer if it is a long one."""
        if self.mode == "disabled":
            if self._is_fallback:
                _LOG.warning("W&B is off, the package wandb is not installed: %s.", account.INSTALL)
            return
        for hint in account.misspelled(self._environ, account.known_variables()):
            _LOG.warning(hint)
        run.directory.mkdir(parents=True, exist_ok=True)
        if self.mode == "online":
            self._refuse_another(run)
            self._wait_for_turn(run)
        try:
            self._run = self._init(run)
        except _unreachable() as error:
            self._raise_refusal(error)
            self._run = self._init_offline(run, error)
        if self._is_in_training:
            # A program prints what it likes, also what a variable stands for.
            self._screen = Screen(self.show_text, find_expanded(RunDir(run.directory)))
            self._screen.start()
        self._note_place(run)
        self._run.define_metric(_STEP, hidden=True)
        self._run.define_metric("*", step_metric=_STEP)
        self._first_step = getattr(self._run, "starting_step", 0)
        self._announce()

    def catch_up(self, run: RunInfo) -> None:
        """Log what W&B lacks of a run that is continued: it takes nothing before its last step.

        It was on its way when the run was cut off, or was logged while W&B was away.
        """
        if self.mode != "online" or run.resumed_at is None:
            return
        log = SavedLog(run.directory)
        missing = [step for step in log.steps if self._first_step <= step <= run.resumed_at]
        if missing:
            _LOG.info(
                "W&B gets what it lacks: iterations %d to %d (%d rows).",
                missing[0],
                missing[-1],
                len(missing),
            )
            log.replay(self, missing)

    @property
    def url(self) -> str | None:
        """Where people look at the run; None if it is not online."""
        return None if self._run is None else self._run.url

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._record(metrics, step)
        self._uploads.send_due()

    def log_media(self, name: str, media: "Media", path: Path, step: int) -> None:
        if self._run is not None:
            self._record({name: _to_wandb(media, path)}, step)

    def summarize(self, values: Mapping[str, Any]) -> None:
        if self._run is not None:
            self._run.summary.update(_plain(values))

    def mark_preempting(self) -> None:
        if self._run is not None:
            self._run.mark_preempting()

    def show_text(self, text: str) -> None:
        if self._run is not None and hasattr(self._run, "write_logs"):
            self._run.write_logs(text)

    @property
    def keeps_files(self) -> bool:
        # Offline, it would only be a second copy on the same disk.
        return self._run is not None and self.mode == "online"

    def upload(self, path: Path, name: str) -> None:
        if self.keeps_files:
            self._uploads.offer(path, name)
            self._uploads.send_due()

    def send_due_uploads(self) -> None:
        """Send the files that have waited long enough."""
        self._uploads.send_due()

    def upload_model(self, path: Path, name: str) -> None:
        if not self.keeps_files:
            return
        import wandb

        artifact = wandb.Artifact(name, type="model")
        artifact.add_file(str(path), skip_cache=True)
        self._run.log_artifact(artifact)

    def on_stop_wish(self, callback: Callable[[], None]) -> None:
        self._report_stop = callback

    def is_stop_wanted(self) -> bool:
        if not self._is_stop_wanted and self._environ.get("WANDB_SWEEP_ID"):
            # The agent's signal may be here before W&B's next answer.
            run = self._run
            self._is_stop_wanted = run is not None and wandb_questions.should_stop(
                run.entity, run.project, run.id
            )
        return self._is_stop_wanted

    def finish(self, exit_code: int) -> None:
        run, self._run = self._run, None
        if self._screen is not None:
            self._screen.stop()
        try:
            if run is not None:
                self._finish(run, exit_code)
        finally:
            if self._turn is not None:
                self._turn.give_back()

    def _finish(self, run: Any, exit_code: int) -> None:
        if self.mode == "online":
            self._finishing = run
        try:
            self._uploads.send_all()
        finally:
            run.finish(exit_code=exit_code)
        shutil.rmtree(_copies_in(Path(run.dir)), ignore_errors=True)

    @property
    def _is_in_training(self) -> bool:
        """Whether what this process prints is what the run prints."""
        return self._pid == os.getpid() and self._place is None

    def _note_place(self, run: RunInfo) -> None:
        """Write down where the run belongs: whoever brings it there later may not know.

        A run that goes on offline stays where it belonged.
        """
        if self._place is not None:
            return
        place = WandbPlace.load(run.directory).completed(WandbPlace.of(self._environ))
        if self.mode == "online":
            opened = self._run
            place = WandbPlace(opened.entity, opened.project, opened.sweep_id or None)
        place.save(run.directory)

    def _refuse_another(self, run: RunInfo) -> None:
        """Refuse an id that somebody has chosen if W&B has another run of it.

        That one would get this configuration, and none of the steps that it already has.
        """
        environ = self._environ
        is_chosen = bool(environ.get("WANDB_RUN_ID")) and not environ.get("WANDB_SWEEP_ID")
        if run.resumed_at is not None or not is_chosen:
            return
        place = account.entity(environ), account.project(environ) or account.NO_PROJECT
        known = wandb_questions.known_config(*place, run.run_id)
        if known.get("model") and not is_same(known, _plain(run.config)):
            raise ConfigError(
                f"W&B has a run {run.run_id} (WANDB_RUN_ID) of another configuration in the "
                f"project {place[1]}: set another WANDB_RUN_ID or WANDB_PROJECT."
            )

    def _wait_for_turn(self, run: RunInfo) -> None:
        staging = RunDir(run.directory).staging
        self._turn = Turn(staging / "turn.lock")
        if not self._turn.take(TURN_TIMEOUT_S):
            _LOG.warning(
                "An earlier process of %s still speaks with W&B: rows may be missing there.",
                run.run_id,
            )
            return
        # A process that was killed has left them behind: whole checkpoints, among others.
        for folder in staging.glob("run-*/files"):
            shutil.rmtree(_copies_in(folder), ignore_errors=True)

    def _init(self, run: RunInfo) -> Any:
        import wandb
        from wandb.errors import UsageError

        settings = self._choose_settings(run)
        # Not the method itself: wandb copies its settings, and would copy this logger with it.
        own = {"stop_fn": lambda: self._note_stop(), "x_stats_pid": self._pid}
        settings.update({k: v for k, v in own.items() if k in wandb.Settings.model_fields})
        arguments = {"mode": self.mode, **self._init_arguments(run)}
        if self.mode == "online" and not self._environ.get("WANDB_RESUME"):
            # Offline, W&B ignores it with a warning.
            arguments["resume"] = "allow"
        try:
            return wandb.init(settings=wandb.Settings(**settings), **arguments)
        except UsageError as error:
            raise ConfigError(f"W&B refuses the run: {_one_line(error)}") from error

    def _choose_settings(self, run: RunInfo) -> dict[str, Any]:
        """Return our settings, as far as this wandb knows them and the user has not set them."""
        import wandb

        git = read_json(RunDir(run.directory).provenance).get("git") or {}
        wanted = {
            **_SETTINGS,
            "finish_timeout": self._finish_timeout_s,
            "git_commit": git.get("commit"),
            # Offline, W&B has nothing to say that is not said here in one line.
            "silent": self.mode == "offline",
        }
        if self._place is not None:
            wanted["sweep_id"] = self._place.sweep_id
        if self._is_in_training:
            # By itself it may read along below Python, where nothing can be concealed.
            wanted["console"] = "wrap"
        return {
            name: value
            for name, value in wanted.items()
            if name in wandb.Settings.model_fields and f"WANDB_{name.upper()}" not in self._environ
        }

    def _init_arguments(self, run: RunInfo) -> dict[str, Any]:
        """Return what ``wandb.init`` is told of the run; None leaves it to W&B's own variables."""
        arguments = {
            "dir": str(run.directory),
            "config": _plain(run.config),
            "name": run.name,
            "group": run.group,
            "tags": run.tags or None,
            "notes": run.notes,
            "job_type": run.job_type,
        }
        environ = self._environ
        # In a sweep, W&B has decided on these, and warns of any that it is given.
        if self._place is not None or not environ.get("WANDB_SWEEP_ID"):
            place = self._place or WandbPlace()
            variable = environ.get("WANDB_ENTITY") or environ.get("WANDB_USER") or None
            arguments["id"] = run.run_id
            arguments["project"] = place.project or environ.get("WANDB_PROJECT") or None
            arguments["entity"] = place.entity or variable
        return arguments

    def _raise_refusal(self, error: Exception) -> None:
        """Raise what the user can mend: an answer that will not be another one the next time."""
        from wandb.errors import AuthenticationError

        place = account.base_url(self._environ)
        if isinstance(error, AuthenticationError) or _says(error, REFUSED_KEY):
            raise ConfigError(
                f"W&B at {place} refuses the key: {_one_line(error)} Run `wandb login --relogin`, "
                "set another WANDB_API_KEY, or choose --wandb offline."
            ) from error
        if _says(error, REFUSED_RUN):
            named = f"{account.entity(self._environ)}/{account.project(self._environ)}"
            raise ConfigError(
                f"W&B at {place} refuses the run: {_one_line(error)} "
                f"Do the entity and project exist, and may you write there ({named})?"
            ) from error

    def _init_offline(self, run: RunInfo, error: Exception) -> Any:
        """Record offline what cannot be sent now."""
        import wandb

        _LOG.warning(
            "W&B at %s cannot be reached (%s): this run is recorded offline. "
            "`jade sync %s` uploads it later.",
            account.base_url(self._environ),
            _one_line(error),
            run.directory,
        )
        # The client remembers a run that it could not start.
        wandb.teardown()
        self.mode = "offline"
        return self._init(run)

    def _note_stop(self) -> None:
        self._is_stop_wanted = True
        self._report_stop()

    def _send(self, path: Path, name: str) -> None:
        """Give the client a file that stays as it is, whatever happens to the original."""
        run = self._run or self._finishing
        target = Path(run.dir) / name
        # A checkpoint is only ever replaced; other files grow, or are written over.
        copy_whole(path, target, by_link=path.suffix == ".pt")
        run.save(str(target), base_path=run.dir, policy="now")

    def _drop(self, name: str) -> None:
        run = self._run or self._finishing
        (Path(run.dir) / name).unlink(missing_ok=True)

    def _record(self, values: Mapping[str, Any], step: int) -> None:
        # A resumed run repeats the steps after its checkpoint. The server has them already and
        # takes none again, but would say so at each one.
        if self._run is not None and step >= self._first_step:
            self._run.log({**values, _STEP: step}, step=step)

    def _announce(self) -> None:
        if self.mode == "online":
            _LOG.info("W&B: %s", self._run.url)
        elif self._is_fallback:
            _LOG.warning(
                "W&B: not logged in, so this run is recorded offline. To upload it: "
                "`wandb login`, then `jade sync %s`.",
                Path(self._run.settings.wandb_dir).parent,
            )


def _do_nothing() -> None:
    """Stand for whoever wants to know, as long as there is nobody."""


def _copies_in(folder: Path) -> Path:
    """Return where copies of what is uploaded stand, below W&B's folder of files."""
    return folder / "jade"


def _unreachable() -> tuple[type[Exception], ...]:
    """Return what wandb raises if its server cannot be reached, or does not take a run."""
    from wandb.errors import CommError

    return (CommError, TimeoutError)


def _says(error: Exception, words: Iterable[str]) -> bool:
    """Tell whether a server has answered with one of these words; wandb has one error for all."""
    text = str(error).lower()
    return any(word in text for word in words)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _to_wandb(media: "Media", path: Path) -> Any:
    import wandb

    from jade.media import to_table

    if media.kind == "histogram":
        content = json.loads(path.read_text(encoding="utf-8"))
        return wandb.Histogram(np_histogram=(content["counts"], content["edges"]))
    if media.kind == "table":
        columns, rows = to_table(media.value)
        return wandb.Table(columns=columns, data=rows, allow_mixed_types=True)
    if media.kind == "text":
        return wandb.Html(f"<pre>{html.escape(str(media.value))}</pre>")
    if media.kind == "audio":
        return wandb.Audio(str(path), caption=media.caption)
    return wandb.Image(str(path), caption=media.caption)


def _plain(value: Any) -> Any:
    """Return nested values as W&B can store them: dictionaries, lists, numbers and text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
