"""Train from Python or a notebook, just as the command line does."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jade.config import Sources, load
from jade.errors import ConfigError, suggest
from jade.finished_run import FinishedRun
from jade.loggers.base import Logger
from jade.origin import Origin
from jade.overrides import Override
from jade.run import execute
from jade.run_dir import INTERRUPTED
from jade.settings import FIELDS


def train(  # noqa: PLR0913 - each is a part of the configuration
    model: Mapping[str, Any] | str | Path | None = None,
    data: Mapping[str, Any] | str | Path | None = None,
    eval: Mapping[str, Any] | str | Path | None = None,  # noqa: A002 - the section's name
    arch_impl: str | Path | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    loggers: Sequence[Logger] = (),
    show_progress: bool = True,
    **settings: Any,
) -> FinishedRun:
    """Train from Python or a notebook, just as ``jade train`` does.

    Args:
        model: The trainer's description (class, params), or the path of its YAML file.
        data: Descriptions of datasets by name, or the path of their file.
        eval: Descriptions of evaluations by name, or the path of their file.
        arch_impl: The Python file with the architectures.
        overrides: Dotted keys and values, such as ``{"model.params.beta": 0.1}``.
        loggers: Further destinations for metrics.
        show_progress: Whether to draw the progress line.
        settings: Any setting of ``jade train --help``: ``epochs=3``, ``seed=0``, ...

    Raises:
        ConfigError: Something does not fit; nothing was started or written.
        KeyboardInterrupt: The run was interrupted; its last checkpoint is written.
    """
    given = {"model": model, "data": data, "eval": eval}
    sections = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    paths = {f"{k}_conf": v for k, v in given.items() if isinstance(v, (str, Path))}
    unknown = [key for key in settings if key not in FIELDS]
    if unknown:
        raise ConfigError(f"train() takes no {unknown[0]!r}.{suggest(unknown[0], FIELDS)}")
    flat = {**paths, "arch_impl": arch_impl, **settings}
    arguments = [
        Override(key, _as_text(value), Origin(f"argument {key}="))
        for key, value in flat.items()
        if value is not None
    ]
    arguments += [Override(k, v, Origin("overrides=")) for k, v in (overrides or {}).items()]
    sources = Sources(sections=sections, arguments=arguments, environ=dict(os.environ))
    finished = execute(load(sources), loggers=loggers, show_progress=show_progress)
    if finished.status == INTERRUPTED:
        # Whoever pressed Ctrl-C does not want what comes after this call either.
        raise KeyboardInterrupt(f"{finished.reason}; its state is in {finished.directory}")
    return finished


def _as_text(value: Any) -> Any:
    """Paths become text, as configuration files hold them."""
    if isinstance(value, (list, tuple)):
        return [_as_text(item) for item in value]
    return str(value) if isinstance(value, Path) else value
