"""All that the files of one run tell, as far as they can be read."""

import json
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.analysis.config_reader import ConfigReader
from jade.analysis.course import Course, Courses, load_courses
from jade.analysis.mip_run import (
    BEST_MODEL,
    CONFIGURATION,
    is_mip_run,
    read_mip_clock,
    read_mip_config,
    read_mip_courses,
    read_mip_test,
    read_started,
)
from jade.errors import ConfigError
from jade.run_dir import FINISHED, STOPPED, TESTS, RunDir, RunTestDir
from jade.runs import UNKNOWN, RunSummary, load_run_summary

# The name of a test: its time, perhaps a number, perhaps a tag.
TEST_NAME = re.compile(TESTS + r"(\d{8}-\d{6})(?:-(\d+))?(?:_(.+))?")
# Runs whose values say how good their configuration is: they were not cut short by an accident.
ENDED_WELL = (FINISHED, STOPPED)


@dataclass(frozen=True, kw_only=True)
class RunTest:
    """A test of a run, as ``jade test`` leaves it behind in the run's directory.

    Attributes:
        name: That of its directory.
        tag: What somebody called this kind of test.
        seed: One for each repetition, over which ``metrics`` are the means.
    """

    name: str
    tag: str | None = None
    status: str = UNKNOWN
    checkpoint: str | None = None
    iteration: int | None = None
    seed: Any = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """A run, here or on W&B.

    Attributes:
        path: Its directory, or how it is called on W&B.
        status: One of ``jade.runs.STATUSES``.
        seconds: How long it took, or has taken so far.
        config: Its configuration by dotted keys.
        courses: What became of each metric.
        notes: What is missing or damaged.
        wandb_id: Under which it is on W&B.
        directory: None for a run that is only on W&B.
    """

    id: str
    path: str
    status: str
    source: str = ""
    name: str | None = None
    reason: str | None = None
    host: str | None = None
    started: float | None = None
    seconds: float | None = None
    iterations: int | None = None
    epochs: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    courses: Mapping[str, Course] = field(default_factory=dict)
    tests: Sequence[RunTest] = ()
    notes: Sequence[str] = ()
    wandb_id: str | None = None
    config_path: str | None = None
    checkpoint_path: str | None = None
    directory: RunDir | None = None

    @property
    def ended_well(self) -> bool:
        """Whether its last values are those of a training that ended as it should."""
        return self.status in ENDED_WELL


class RunReader:
    """Reads run directories, also those of which something is missing or damaged.

    Args:
        num_points: How many points of each curve are kept.
    """

    def __init__(self, num_points: int = 0) -> None:
        self._configs = ConfigReader()
        self._num_points = num_points

    def read(self, folder: Path, source: str = "") -> RunFacts:
        """Read a run; what cannot be read is said in its notes."""
        directory, notes = RunDir(folder), list[str]()
        try:
            names = {entry.name for entry in os.scandir(folder)}
        except OSError as error:
            names = set()
            notes.append(f"the directory cannot be read: {error.strerror}")
        if is_mip_run(names) and directory.config.name not in names:
            return self._read_mip(folder, names, source)
        summary = self._read_summary(directory, names, notes)
        config = self._read_config(directory, names, notes)
        courses = self._read_courses(directory, names, notes, summary)
        totals = _read_mapping(directory.summary, names, notes)
        tested = sorted(filter(is_test, names), key=_order_of_test)
        tests = [_read_test(RunTestDir(folder / name), notes) for name in tested]
        checkpoint = _find_checkpoint(directory)
        if checkpoint is None and summary.status in ENDED_WELL:
            notes.append("it has no checkpoint")
        return RunFacts(
            id=summary.id,
            path=str(folder),
            status=summary.status,
            source=source,
            name=summary.name or _text(config.get("run_name")),
            reason=summary.reason,
            host=summary.host,
            started=summary.started,
            seconds=_seconds(summary, totals),
            iterations=summary.iterations,
            epochs=summary.epochs,
            config=config,
            courses=_complete(courses, summary, totals),
            tests=tests,
            notes=notes,
            wandb_id=summary.id if directory.staging.name in names else None,
            config_path=str(directory.config) if directory.config.name in names else None,
            checkpoint_path=None if checkpoint is None else str(checkpoint),
            directory=directory,
        )

    def _read_mip(self, folder: Path, names: set[str], source: str) -> RunFacts:
        """Read a training of MI-Prometheus."""
        notes: list[str] = []
        has_model = (folder / BEST_MODEL).is_file()
        # How a training ended stands in its checkpoint only; whoever has no model has not got far.
        notes.append(
            "of MI-Prometheus, finished for all that is known"
            if has_model
            else f"of MI-Prometheus, without {BEST_MODEL}"
        )
        started, tag = read_started(folder.resolve().name)
        episodes, epochs = read_mip_clock(folder)
        tests = []
        for name in sorted(filter(is_test, names)):
            metrics = read_mip_test(folder / name, notes)
            tests.append(
                RunTest(
                    name=name,
                    tag=read_started(name)[1],
                    status=FINISHED if metrics else UNKNOWN,
                    checkpoint="best",
                    metrics=metrics,
                )
            )
        return RunFacts(
            id=folder.resolve().name,
            path=str(folder),
            status=FINISHED if has_model else UNKNOWN,
            source=source,
            name=tag,
            started=started,
            iterations=episodes,
            epochs=epochs,
            config=read_mip_config(folder / CONFIGURATION, self._configs, notes),
            courses=read_mip_courses(folder, self._num_points, notes),
            tests=tests,
            notes=notes,
            config_path=str(folder / CONFIGURATION),
            checkpoint_path=str(folder / BEST_MODEL) if has_model else None,
            directory=RunDir(folder),
        )

    def _read_summary(self, directory: RunDir, names: set[str], notes: list[str]) -> RunSummary:
        found = load_run_summary(directory.root) if names else None
        if found is None or found.status == UNKNOWN:
            is_there = directory.status_file.name in names
            notes.append("status.json cannot be read" if is_there else "status.json is missing")
        if found is not None:
            return found
        started = time.time()
        if names:
            started = directory.root.stat().st_mtime
        name = directory.root.resolve().name
        return RunSummary(
            id=name, path=directory.root, status=UNKNOWN, started=started, updated=started
        )

    def _read_config(
        self, directory: RunDir, names: set[str], notes: list[str]
    ) -> Mapping[str, Any]:
        if directory.config.name not in names:
            notes.append("config.yml is missing")
            return {}
        try:
            return self._configs.read(directory.config)
        except (OSError, ConfigError):
            notes.append("config.yml cannot be read")
            return {}

    def _read_courses(
        self, directory: RunDir, names: set[str], notes: list[str], summary: RunSummary
    ) -> Mapping[str, Course]:
        if directory.metrics.name not in names:
            if summary.iterations or summary.status in ENDED_WELL:
                notes.append("metrics.csv is missing")
            return {}
        try:
            found = load_courses(directory.metrics, self._num_points)
        except OSError:
            found = Courses({}, 1)
        if found.num_damaged:
            rows = "1 row" if found.num_damaged == 1 else f"{found.num_damaged} rows"
            notes.append(f"metrics.csv: {rows} cannot be read")
        return found.by_name


def is_test(name: str) -> bool:
    """Tell whether a folder in the directory of a run has the name of a test."""
    return name.startswith(TESTS)


def _order_of_test(name: str) -> tuple[str, int, str]:
    match = TEST_NAME.fullmatch(name)
    return (match[1], int(match[2] or 1), name) if match else ("", 0, name)


def _read_test(test: RunTestDir, notes: list[str]) -> RunTest:
    name = test.root.name
    is_there = {test.summary.name} if test.summary.is_file() else set[str]()
    found = _read_mapping(test.summary, is_there, notes, where=f"{name}/")
    metrics, iteration = found.get("metrics"), found.get("iteration")
    match = TEST_NAME.fullmatch(name)
    return RunTest(
        name=name,
        tag=match[3] if match else None,
        status=_text(found.get("status")) or UNKNOWN,
        checkpoint=_text(found.get("checkpoint")),
        iteration=iteration if isinstance(iteration, int) else None,
        seed=found.get("seed"),
        metrics=numbers(metrics) if isinstance(metrics, Mapping) else {},
    )


def _read_mapping(
    path: Path, names: set[str], notes: list[str], where: str = ""
) -> Mapping[str, Any]:
    if path.name not in names:
        if where:
            notes.append(f"{where}{path.name} is missing")
        return {}
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        found = None
    if isinstance(found, Mapping):
        return found
    notes.append(f"{where}{path.name} cannot be read")
    return {}


def _seconds(summary: RunSummary, totals: Mapping[str, Any]) -> float | None:
    """Return how long training took; the record does not say how long a run lay still."""
    measured = number(totals.get("run/seconds"))
    if measured is not None and summary.status in ENDED_WELL:
        return measured
    return summary.duration_s if summary.status != UNKNOWN else None


def _complete(
    courses: Mapping[str, Course], summary: RunSummary, totals: Mapping[str, Any]
) -> Mapping[str, Course]:
    """Add what only the status of a run tells of its metrics, if its table is lost."""
    if courses or not summary.latest:
        return courses
    return courses_of(summary.latest, totals)


def courses_of(latest: Mapping[str, float], totals: Mapping[str, Any]) -> dict[str, Course]:
    """Return what is known of metrics without their table: last values, and perhaps extremes."""
    from jade.analysis.course import Extreme

    def extreme(which: str, name: str) -> Extreme | None:
        value = number(totals.get(f"{which}/{name}"))
        return None if value is None else Extreme(value)

    return {
        name: Course(value, extreme("min", name), extreme("max", name))
        for name, value in latest.items()
    }


def _find_checkpoint(directory: RunDir) -> Path | None:
    """Return the best checkpoint, or else the last."""
    for path in (directory.best_checkpoint, directory.last_checkpoint):
        if path.is_file():
            return path
    return None


def numbers(values: Mapping[Any, Any]) -> dict[str, float]:
    """Return those of some values that are numbers, also if they are written as text."""
    return {
        str(key): found for key, value in values.items() if (found := number(value)) is not None
    }


def number(value: Any) -> float | None:
    """Return a value as a number; those that JSON does not have stand there as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if isinstance(value, (int, float)) or not math.isfinite(found) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
