"""Train and test from Python or a notebook, just as the command line does."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from jade.config import Sources, collect
from jade.errors import ConfigError, raise_all, suggest
from jade.finished_run import FinishedRun
from jade.left_run import continue_run
from jade.loaded_run import load_run
from jade.loggers.base import Logger
from jade.origin import Origin
from jade.overrides import Override
from jade.remote.place import bring_here
from jade.run import Circumstances, execute
from jade.run_dir import INTERRUPTED
from jade.schedule import parse_amount
from jade.settings import FIELDS
from jade.tester.request import Asked, read_given, read_requests
from jade.tester.single import FinishedTest, RunTest
from jade.tester.target import choose_name, find_target


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
    given: dict[str, Any] = {"model": model, "data": data, "eval": eval}
    raise_all(
        [
            f"train({key}=...) takes a mapping or the path of a file, not {value!r}."
            for key, value in given.items()
            if not isinstance(value, (Mapping, str, Path, NoneType))
        ]
    )
    circumstances = Circumstances(loggers=loggers, show_progress=show_progress)
    sections = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    paths = {f"{k}_conf": v for k, v in given.items() if isinstance(v, (str, Path))}
    arguments = _as_overrides("train", {**paths, "arch_impl": arch_impl, **settings}, overrides)
    sources = Sources(sections=sections, arguments=arguments, environ=dict(os.environ))
    return _run(sources, circumstances)


def resume(
    run: str | Path,
    *,
    total: str | int | None = None,
    additional: str | int | None = None,
    overrides: Mapping[str, Any] | None = None,
    loggers: Sequence[Logger] = (),
    show_progress: bool = True,
    **settings: Any,
) -> FinishedRun:
    """Continue a run that was stopped, killed or has failed, exactly where it was left.

    Args:
        run: Its directory, its id below ``experiments_root``, or a reference to a run on W&B
            (``entity/project/run_id``), which is fetched from there.
        total: How long to train in all (``"20 epochs"``), if not as long as it was told to.
        additional: How much longer to train, from where it was left.
        overrides: Dotted keys and values that differ from the configuration of the run.
        loggers: Further destinations for metrics.
        show_progress: Whether to draw the progress line.
        settings: Any setting of ``jade train --help``: ``device="cpu"``, ...

    Raises:
        ConfigError: Something does not fit; the run is as it was.
        RunInUseError: Another process is in it.
    """
    circumstances = Circumstances(
        loggers=loggers,
        show_progress=show_progress,
        additional=None if additional is None else str(additional),
    )
    if total is not None and additional is not None:
        raise ConfigError("total and additional exclude each other.")
    root = settings.get("experiments_root")
    directory, variables = bring_here(run, Path(root) if root else None)
    arguments = _as_overrides("resume", settings, overrides)
    limits = None if total is None else parse_amount(total, "total", zero=True)
    sources = Sources(
        arguments=continue_run(directory, arguments, limits), environ={**os.environ, **variables}
    )
    return _run(sources, circumstances)


def test(  # noqa: PLR0913 - each is a part of what is asked for
    run: str | Path,
    *,
    data: Mapping[str, Any] | str | Path | None = None,
    eval: Mapping[str, Any] | str | Path | None = None,  # noqa: A002 - the section's name
    config: str | Path | Sequence[str | Path] = (),
    overrides: Mapping[str, Any] | None = None,
    checkpoint: str | int | Path | None = None,
    repeat: int | None = None,
    seed: int | None = None,
    max_test_episodes: int | None = None,
    tag: str | None = None,
    device: str | None = None,
    trust_code: bool = False,
) -> FinishedTest:
    """Test a run, just as ``jade test`` does: take its evaluations of one of its checkpoints.

    Args:
        run: Its directory, its id, one of its checkpoints, or a reference to a run on W&B.
        data: Descriptions of datasets, or their file, in the place of those of the run.
        eval: Descriptions of evaluations, or their file, instead of those of the run.
        config: Files with sections and options of tests; the later one wins.
        overrides: Dotted keys and values, such as ``{"data.test.params.split": "valid"}``.
        checkpoint: ``best``, ``last``, an iteration or a file; None means best, else last.
        repeat: How often to measure, each time with another seed.
        seed: Of the first repetition; None derives one from that of the run, -1 draws one.
        max_test_episodes: How many batches each evaluation sees at most.
        tag: The end of the name of the test's directory.
        device: Where the networks go; None means ``$DEVICE``, else the best that is there.
        trust_code: As for ``jade.load_run``.

    Raises:
        ConfigError: Something does not fit; nothing was written.
        TrainingError: An evaluation has failed; ``summary.json`` of the test says so, too.
    """
    given = {"data": data, "eval": eval}
    options = {
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "repeat": repeat,
        "seed": seed,
        "max_test_episodes": max_test_episodes,
        "tag": tag,
    }
    files = {f"{k}_conf": str(v) for k, v in given.items() if isinstance(v, (str, Path))}
    configs = [config] if isinstance(config, (str, Path)) else config
    asked = Asked(
        options=read_given(options, "argument {}="),
        files={**files, "config": [str(path) for path in configs]},
        sections={key: value for key, value in given.items() if isinstance(value, Mapping)},
        overrides=[Override(k, v, Origin("overrides=")) for k, v in (overrides or {}).items()],
        environ=dict(os.environ),
    )
    requests = read_requests(asked)
    if len(requests) > 1:
        raise ConfigError("multi_tests are for jade test: call jade.test() for each of them.")
    target = find_target(run)
    loaded = load_run(target.run, trust_code=trust_code)
    finished = RunTest(loaded, target.fill_in(requests[0]), choose_name(device)).execute()
    if finished.error is not None:
        raise finished.error
    return finished


def _as_overrides(
    function: str, settings: Mapping[str, Any], overrides: Mapping[str, Any] | None
) -> list[Override]:
    unknown = [key for key in settings if key not in FIELDS]
    problems = [f"{function}() takes no {key!r}.{suggest(key, FIELDS)}" for key in unknown]
    given: Any = overrides
    if not isinstance(given, (Mapping, NoneType)):
        problems.append(f"{function}(overrides=...) takes a mapping, not {overrides!r}.")
    raise_all(problems)
    flat = [
        Override(key, _as_text(value), Origin(f"argument {key}="))
        for key, value in settings.items()
        if value is not None
    ]
    return flat + [Override(k, v, Origin("overrides=")) for k, v in (overrides or {}).items()]


def _run(sources: Sources, circumstances: Circumstances) -> FinishedRun:
    finished = execute(collect(sources), circumstances)
    if finished.status == INTERRUPTED:
        # Whoever pressed Ctrl-C does not want what comes after this call either.
        raise KeyboardInterrupt(f"{finished.reason}; its state is in {finished.directory}")
    return finished


def _as_text(value: Any) -> Any:
    """Paths become text, as configuration files hold them."""
    if isinstance(value, (list, tuple)):
        return [_as_text(item) for item in value]
    return str(value) if isinstance(value, Path) else value
