"""Record a run on Weights & Biases: online, offline for a later `wandb sync`, or not at all."""

import html
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.loggers import wandb_account as account
from jade.loggers.base import Logger, RunInfo

if TYPE_CHECKING:
    from jade.media import Media

_LOG = logging.getLogger(__name__)
_STEP = "iteration"
# Each holds unless its variable (WANDB_INIT_TIMEOUT, ...) is set. The timeouts keep a server that
# does not answer from holding up the start and the end of a run.
_SETTINGS = {
    "init_timeout": 60.0,
    "finish_timeout": 300.0,
    "quiet": True,
    "finish_timeout_raises": True,
    "reinit": "finish_previous",
}


class WandbLogger(Logger):
    """A W&B run with the id of the JADE run, and its iterations as the axis of every metric.

    The mode is resolved here, so that one that cannot be had is an error before anything starts.
    """

    def __init__(self, mode: str = "auto", environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self.mode = account.resolve_mode(mode, self._environ)
        requested = account.requested_mode(mode, self._environ)
        self._is_fallback = self.mode not in (requested, "online")
        self._run: Any = None
        self._first_step = 0

    def start(self, run: RunInfo) -> None:
        if self.mode == "disabled":
            if self._is_fallback:
                _LOG.warning("W&B is off, the package wandb is not installed: %s.", account.INSTALL)
            return
        import wandb

        for hint in account.misspelled(self._environ, account.known_variables()):
            _LOG.warning(hint)
        run.directory.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(**_choose_settings(self.mode, self._environ))
        arguments = {"mode": self.mode, **_init_arguments(run, self._environ)}
        if self.mode == "online" and not self._environ.get("WANDB_RESUME"):
            # Offline, W&B ignores it with a warning.
            arguments["resume"] = "allow"
        self._run = wandb.init(settings=settings, **arguments)
        self._run.define_metric(_STEP, hidden=True)
        self._run.define_metric("*", step_metric=_STEP)
        self._first_step = getattr(self._run, "starting_step", 0)
        self._announce()

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._record(metrics, step)

    def log_media(self, name: str, media: "Media", path: Path, step: int) -> None:
        if self._run is not None:
            self._record({name: _to_wandb(media, path)}, step)

    def summarize(self, values: Mapping[str, Any]) -> None:
        if self._run is not None:
            self._run.summary.update(_plain(values))

    def mark_preempting(self) -> None:
        if self._run is not None:
            self._run.mark_preempting()

    def finish(self, exit_code: int) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=exit_code)

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
                "`wandb login`, then `wandb sync %s`.",
                self._run.settings.sync_dir,
            )


def _choose_settings(mode: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return our settings, as far as this wandb knows them and the user has not set them."""
    import wandb

    # Offline, W&B has nothing to say that is not said here in one line.
    wanted = {**_SETTINGS, "silent": mode == "offline"}
    return {
        name: value
        for name, value in wanted.items()
        if name in wandb.Settings.model_fields and f"WANDB_{name.upper()}" not in environ
    }


def _init_arguments(run: RunInfo, environ: Mapping[str, str]) -> dict[str, Any]:
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
    # In a sweep, W&B has decided on these, and warns of any that it is given.
    if not environ.get("WANDB_SWEEP_ID"):
        arguments["id"] = run.run_id
        arguments["project"] = environ.get("WANDB_PROJECT") or None
        arguments["entity"] = environ.get("WANDB_ENTITY") or environ.get("WANDB_USER") or None
    return arguments


def _to_wandb(media: "Media", path: Path) -> Any:
    import wandb

    from jade.media import to_histogram, to_table

    if media.kind == "histogram":
        return wandb.Histogram(np_histogram=to_histogram(media.value))
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
