"""Define `Logger`, a destination for metrics and media, and `LoggerGroup`, several at once."""

import abc
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.errors import ConfigError

if TYPE_CHECKING:
    from jade.media import Media

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunInfo:
    """What a destination is told about the run that it records."""

    run_id: str
    directory: Path
    config: Mapping[str, Any]
    name: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()
    notes: str | None = None
    job_type: str | None = None
    # The last step of a run that is continued whose log is valid; None for a new run.
    resumed_at: int | None = None


class Logger(abc.ABC):
    """A destination for the metrics and media of one run.

    To add one: subclass, write ``start``, ``log`` and ``finish``, and run ``LoggerContract`` of the
    tests on it. Calls come in this order: ``start`` once, any number of the others with steps that
    never decrease, ``finish`` once or more. Raise freely: `LoggerGroup` keeps training alive.
    """

    @abc.abstractmethod
    def start(self, run: RunInfo) -> None:
        """Open the destination for ``run``; its directory exists."""

    @abc.abstractmethod
    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record ``metrics`` at ``step``; a second call with the same step adds to the first."""

    # The hooks below may be left as they are, so they are not abstract.
    def log_media(self, name: str, media: "Media", path: Path, step: int) -> None:  # noqa: B027
        """Record ``media``, which already stands in the file ``path``."""

    def summarize(self, values: Mapping[str, Any]) -> None:  # noqa: B027
        """Record what is to be said of the run as a whole, such as its best metric."""

    def mark_preempting(self) -> None:  # noqa: B027
        """Announce that the run is about to be stopped from outside and continued later."""

    def show_text(self, text: str) -> None:  # noqa: B027
        """Show a text where the destination shows what the run prints, if it does."""

    @property
    def keeps_files(self) -> bool:
        """Whether it does anything with files that are uploaded."""
        return False

    def upload(self, path: Path, name: str) -> None:  # noqa: B027
        """Keep a copy of a file of the run, in the place of an earlier one of that name.

        May be called by any thread, and often; a destination takes as many as it can.
        """

    def upload_model(self, path: Path, name: str) -> None:  # noqa: B027
        """Keep the trained model, which stands in a file for ``jade.load_model``."""

    def on_stop_wish(self, callback: Callable[[], None]) -> None:  # noqa: B027
        """Call back, from any thread, when whoever watches the destination wants the run to end."""

    def is_stop_wanted(self) -> bool:
        """Tell whether whoever watches the destination wants the run to end."""
        return False

    @abc.abstractmethod
    def finish(self, exit_code: int) -> None:
        """Close the destination; 0 means that the run finished. A second call does nothing."""


class LoggerGroup(Logger):
    """Several destinations, none of which can stop training.

    What a destination raises is reported once, with its name. One that cannot start is left out;
    one that fails later (disk full, network lost) is tried again on each call, and ``finish`` says
    how many calls were lost. Only a `ConfigError` at the start is raised: nothing has begun yet.
    """

    def __init__(self, loggers: Iterable[Logger]) -> None:
        self._loggers = list(loggers)
        # By identity: a custom logger need be neither hashable nor comparable.
        self._num_failures: dict[int, int] = {}
        self._last_step: int | None = None

    def start(self, run: RunInfo) -> None:
        started = []
        for logger in self._loggers:
            try:
                logger.start(run)
            except ConfigError:
                raise
            except Exception as error:
                _LOG.warning("%s is left out, it cannot start: %s", _name(logger), _text(error))
            else:
                started.append(logger)
        self._loggers = started

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._advance(step)
        for logger in self._loggers:
            self._attempt(logger, logger.log, metrics, step)

    def log_media(self, name: str, media: "Media", path: Path, step: int) -> None:
        self._advance(step)
        for logger in self._loggers:
            self._attempt(logger, logger.log_media, name, media, path, step)

    def summarize(self, values: Mapping[str, Any]) -> None:
        for logger in self._loggers:
            self._attempt(logger, logger.summarize, values)

    def mark_preempting(self) -> None:
        for logger in self._loggers:
            self._attempt(logger, logger.mark_preempting)

    def show_text(self, text: str) -> None:
        for logger in self._loggers:
            self._attempt(logger, logger.show_text, text)

    @property
    def keeps_files(self) -> bool:
        return any(logger.keeps_files for logger in self._loggers)

    def upload(self, path: Path, name: str) -> None:
        for logger in self._loggers:
            self._attempt(logger, logger.upload, path, name)

    def upload_model(self, path: Path, name: str) -> None:
        for logger in self._loggers:
            self._attempt(logger, logger.upload_model, path, name)

    def on_stop_wish(self, callback: Callable[[], None]) -> None:
        for logger in self._loggers:
            logger.on_stop_wish(callback)

    def is_stop_wanted(self) -> bool:
        answers: list[bool] = []
        for logger in self._loggers:
            self._attempt(logger, lambda one=logger: answers.append(one.is_stop_wanted()))
        return any(answers)

    def finish(self, exit_code: int) -> None:
        loggers, self._loggers = self._loggers, []
        for logger in loggers:
            self._attempt(logger, logger.finish, exit_code)
            count = self._num_failures.get(id(logger), 0)
            if count:
                _LOG.warning("%s: %d calls failed in this run.", _name(logger), count)

    def _advance(self, step: int) -> None:
        if self._last_step is not None and step < self._last_step:
            raise ValueError(f"Steps never decrease: got {step} after {self._last_step}.")
        self._last_step = step

    def _attempt(self, logger: Logger, call: Callable[..., None], *args: Any) -> None:
        try:
            call(*args)
        except Exception as error:
            count = self._num_failures.get(id(logger), 0)
            self._num_failures[id(logger)] = count + 1
            if count == 0:
                what = f"{_name(logger)}.{getattr(call, '__name__', 'call')}"
                _LOG.warning("%s failed, training goes on (said once): %s", what, _text(error))


def _name(logger: Logger) -> str:
    return type(logger).__name__


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
