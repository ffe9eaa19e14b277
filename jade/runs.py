"""Find the runs below a folder, and say how each of them stands, from their files alone."""

import contextlib
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jade.envvars import read_environment
from jade.errors import ConfigError, closest
from jade.lock import is_held
from jade.run_dir import FAILED, FINISHED, INTERRUPTED, PREEMPTED, RUNNING, STOPPED, RunDir
from jade.settings import FIELDS

# What a run cannot say of itself: that it was killed, or that its status cannot be read.
CRASHED, UNKNOWN = "crashed", "unknown"
STATUSES = (RUNNING, FINISHED, FAILED, CRASHED, PREEMPTED, INTERRUPTED, STOPPED, UNKNOWN)
NEWEST = "last"
LISTED = 5
# What is taken over as it is, if it is of its kind.
OTHERS = {
    **dict.fromkeys(("reason", "name", "model", "host"), str),
    **dict.fromkeys(("exit_code", "pid", "iterations", "epochs", "total_epochs", "attempts"), int),
}


@dataclass(frozen=True)
class BestValue:
    """The best value of the metric that ``best_metric`` names; ``mode`` says what is better."""

    metric: str
    value: float
    iteration: int | None
    mode: str


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """How a run stands, as its files say.

    Attributes:
        status: One of ``STATUSES``; "crashed" is a run that says it is running, but nobody runs it.
        started: When it was started, in seconds of ``time.time``.
        updated: When it last gave a sign of life.
        fraction: The share of the training amount that is done; None if that is not known.
        latest: The last value of each metric.
        attempts: How often it was started or resumed.
    """

    id: str
    path: Path
    status: str
    started: float
    updated: float
    reason: str | None = None
    exit_code: int | None = None
    name: str | None = None
    model: str | None = None
    host: str | None = None
    pid: int | None = None
    fraction: float | None = None
    iterations: int | None = None
    epochs: int | None = None
    total_epochs: int | None = None
    attempts: int | None = None
    best: BestValue | None = None
    latest: Mapping[str, float] = field(default_factory=dict)

    @property
    def age_s(self) -> float:
        """Seconds since it was started."""
        return time.time() - self.started

    @property
    def duration_s(self) -> float:
        """Seconds from its start to its end, or to now while it is running."""
        end = time.time() if self.status == RUNNING else self.updated
        return max(0.0, end - self.started)

    def to_json(self) -> dict[str, Any]:
        """Return all that is known as values for JSON."""
        values = {**asdict(self), "age_s": self.age_s, "duration_s": self.duration_s}
        return {key: _to_json(value) for key, value in values.items()}


def default_root() -> Path:
    """Return where runs are when nobody says where: ``$EXPERIMENTS_ROOT``, else "experiments"."""
    environ = read_environment(os.environ, None)
    return Path(environ.get("EXPERIMENTS_ROOT") or str(FIELDS["experiments_root"].default))


def find_runs(root: Path) -> list[RunSummary]:
    """Find all runs below a folder, or the one that it is, newest first."""
    runs = list(_walk(root, set()))
    return sorted(runs, key=lambda run: (run.started, run.id), reverse=True)


def find_run(wanted: str | Path, root: Path | None = None) -> RunSummary:
    """Find the run that a directory, an id, the beginning of one, a name, or "last" means.

    Raises:
        ConfigError: There is no such run, or there are several.
    """
    root = default_root() if root is None else root
    text = str(wanted)
    for path in (Path(wanted), root / wanted):
        found = load_run_summary(path)
        if found is not None:
            return found
    runs = find_runs(root)
    if text == NEWEST and runs:
        return runs[0]
    matches = (
        [run for run in runs if run.id == text]
        or [run for run in runs if run.id.startswith(text)]
        or [run for run in runs if run.name == text]
    )
    if len(matches) == 1:
        return matches[0]
    raise ConfigError(_ambiguous(text, matches) if matches else _missing(text, root, runs))


def find_directory(wanted: str | Path, root: Path | None = None) -> RunDir:
    """Find the directory of a run as ``find_run`` does; one that never began is refused."""
    directory = RunDir(find_run(wanted, root).path.resolve())
    if not directory.config.is_file():
        raise ConfigError(f"The run {directory.root} has no config.yml: it did not even begin.")
    return directory


def list_begun(root: Path) -> list[RunDir]:
    """List the runs below a folder that have a configuration, newest first."""
    found = [RunDir(run.path) for run in find_runs(root)]
    return [directory for directory in found if directory.config.is_file()]


def load_run_summary(directory: Path) -> RunSummary | None:
    """Load how a run stands; None if the directory is not that of a run."""
    run = RunDir(directory)
    record = _load_record(run)
    if record is None:
        return None
    if record["status"] == RUNNING and not is_held(directory):
        # Read again: it may have come to its end since.
        record = _load_record(run) or record
        if record["status"] == RUNNING:
            record = {**record, "status": CRASHED}
    return _summarize(run, record)


def _load_record(run: RunDir) -> Mapping[str, Any] | None:
    record: Any = None
    with contextlib.suppress(OSError, ValueError):
        record = run.read_status()
    if isinstance(record, Mapping) and isinstance(record.get("status"), str):
        return record
    if run.config.is_file() and run.checkpoints.is_dir():
        # A run whose status was lost, as by a power cut.
        return {"status": UNKNOWN}
    return None


def _walk(folder: Path, seen: set[tuple[int, int]]) -> Iterator[RunSummary]:
    """Find runs, each once, also behind links that lead in a circle."""
    try:
        stat = folder.stat()
        if (stat.st_dev, stat.st_ino) in seen:
            return
        seen.add((stat.st_dev, stat.st_ino))
        found = load_run_summary(folder)
        if found is not None:
            yield found
            return
        with os.scandir(folder) as entries:
            below = [e.path for e in entries if not e.name.startswith(".") and e.is_dir()]
    except OSError:
        # Somebody else's, or gone in the meantime.
        return
    for path in below:
        yield from _walk(Path(path), seen)


def _summarize(run: RunDir, record: Mapping[str, Any]) -> RunSummary:
    """Take over what can be used; a field that is missing or odd is as good as not known."""
    status, latest = record["status"], record.get("latest")
    started = _number(record.get("started"))
    if started is None:
        started = run.root.stat().st_mtime
    updated, fraction = _number(record.get("updated")), _number(record.get("fraction"))
    others: dict[str, Any] = {
        name: record[name] for name, kind in OTHERS.items() if type(record.get(name)) is kind
    }
    return RunSummary(
        # A path such as "." has no name of its own.
        id=run.run_id or run.root.resolve().name,
        path=run.root,
        status=status if status in STATUSES else UNKNOWN,
        started=started,
        updated=started if updated is None else updated,
        fraction=1.0 if fraction is None and status == FINISHED else fraction,
        best=_best(record.get("best")),
        latest=_numbers(latest) if isinstance(latest, Mapping) else {},
        **others,
    )


def _best(record: Any) -> BestValue | None:
    if not isinstance(record, Mapping) or "metric" not in record:
        return None
    value, iteration = _number(record.get("value")), record.get("iteration")
    if value is None:
        return None
    mode = "max" if record.get("mode") == "max" else "min"
    return BestValue(
        str(record["metric"]), value, iteration if isinstance(iteration, int) else None, mode
    )


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {k: number for k, v in values.items() if (number := _number(v)) is not None}


def _number(value: Any) -> float | None:
    """Read a number; those that JSON does not have stand there as text, such as "nan"."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _to_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, Path) else value


def _ambiguous(text: str, runs: Sequence[RunSummary]) -> str:
    is_same_id = len({run.id for run in runs}) == 1
    what = "is the id of" if is_same_id else "begins the ids of"
    listed = ", ".join(str(run.path) if is_same_id else run.id for run in runs[:LISTED])
    rest = f" and {len(runs) - LISTED} more" if runs[LISTED:] else ""
    cure = "Give the directory" if is_same_id else "Give more of it"
    return f"{text!r} {what} {len(runs)} runs: {listed}{rest}. {cure}."


def _missing(text: str, root: Path, runs: Sequence[RunSummary]) -> str:
    if Path(text).is_dir():
        return f"{text} is not the directory of a run. `jade runs {text}` lists those below it."
    if not root.is_dir():
        return f"There is no run {text!r}, and no folder {root} with runs in it."
    if not runs:
        return f"There is no run {text!r}: below {root} there is none at all."
    # Ids that were drawn begin with the time, so all of a day are alike: the end tells them apart.
    ending = [run.id for run in runs if run.id.endswith(text)]
    meant = ending[0] if len(ending) == 1 else closest(text, [r.id for r in runs], likeness=0.8)
    hint = f" Did you mean {meant!r}?" if meant else ""
    newest = ", ".join(run.id for run in runs[:LISTED])
    return f"There is no run {text!r} below {root}.{hint} The newest: {newest}."
