"""All runs as one table: one row per run or test, in columns whose order never changes."""

import csv
import io
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from jade.analysis.collection import Collection, find_key
from jade.analysis.measure import Measure, Measures
from jade.analysis.run_facts import RunFacts, RunTest
from jade.errors import ConfigError
from jade.whole_file import write_whole

SEED = "seed"
# Where results go and who watches: nothing that a result could depend on.
BOOKKEEPING = {
    *("run_name", "experiments_root", "notes", "tags", "group", "job_type", "wandb", "upload"),
    *("tensorboard", "artifact", "env_file", "dry_run", "log_level", "keep_last", "backup_every"),
    *("checkpoint_every", "device", "time_limit", "resume"),
}
FIRST = ("run", "name", "status", "sweep", SEED)
TOTALS = ("run/seconds", "run/iterations", "run/epochs", "run/started", "run/host", "run/reason")
TESTED = ("test", "test_status", "test_checkpoint", "test_iteration", "test_seed")
PLACES = ("wandb_id", "path", "config", "checkpoint", "note")
MISSING = object()

Row = dict[str, Any]


class Table:
    """Runs, what differs between them, and what they have measured.

    Args:
        collection: The runs and their sweeps.
        mode: What is better, of the metrics that somebody asks for.

    Attributes:
        parameters: The dotted keys that differ between runs, and those that a sweep names, except
            for the seed; sorted.
    """

    def __init__(self, collection: Collection, mode: str | None = None) -> None:
        self.runs: Sequence[RunFacts] = collection.runs
        self.sweeps = collection.sweeps
        self.measures = Measures(self.runs, self.sweeps, mode)
        self.parameters = self._find_parameters()

    def _find_parameters(self) -> list[str]:
        # A run whose configuration is lost says nothing of what differs.
        configs = [run.config for run in self.runs if run.config]
        known: dict[str, Any] = {}
        for config in configs:
            known.update(config)
        varied = {key for key in known if key not in BOOKKEEPING and _differs(key, configs)}
        named = {find_key(key, known) for sweep in self.sweeps for key in sweep.keys}
        return sorted((varied | {key for key in named if key}) - {SEED})

    @cached_property
    def columns(self) -> list[str]:
        """The names of all columns."""
        courses = [
            f"{kind}/{name}"
            for name in self.measures.logged
            for kind in ("last", "best", "best_iteration")
        ]
        tested = {name for run in self.runs for test in run.tests for name in test.metrics}
        tests = [*TESTED, *(f"test/{name}" for name in sorted(tested))]
        return [*FIRST, *self.parameters, *TOTALS, *courses, *tests, *PLACES]

    def rows(self, *, blank: bool = False) -> Iterator[Row]:
        """Yield one row per test, or per run that has none.

        Args:
            blank: Whether what concerns the run stands in the first of its rows only.
        """
        for run in self.runs:
            about_run = self._describe(run)
            yield {**about_run, **_describe_test(run.tests[0])} if run.tests else about_run
            for test in run.tests[1:]:
                repeated = {"run": run.id} if blank else about_run
                yield {**repeated, **_describe_test(test)}

    def _describe(self, run: RunFacts) -> Row:
        row: Row = {
            "run": run.id,
            "name": run.name,
            "status": run.status,
            "sweep": run.source or None,
            SEED: run.config.get(SEED),
            "run/seconds": None if run.seconds is None else round(run.seconds, 3),
            "run/iterations": run.iterations,
            "run/epochs": run.epochs,
            "run/started": render_time(run.started),
            "run/host": run.host,
            "run/reason": run.reason,
            "wandb_id": run.wandb_id,
            "path": run.path,
            "config": run.config_path,
            "checkpoint": run.checkpoint_path,
            "note": "; ".join(run.notes) or None,
        }
        row.update({key: run.config.get(key) for key in self.parameters})
        for name, course in run.courses.items():
            best = course.best(self._modes[name])
            row[f"last/{name}"] = course.last
            if best is not None:
                row[f"best/{name}"] = best.value
                row[f"best_iteration/{name}"] = best.iteration
        return row

    @cached_property
    def _modes(self) -> Mapping[str, str]:
        return {name: self.measures.mode_of(name)[0] for name in self.measures.logged}

    def ranked(self, measure: Measure) -> list[RunFacts]:
        """Return all runs, the best first; those that have no value come last, in their order."""
        return sorted(self.runs, key=measure.rank)

    def write_csv(self, path: Path, *, blank: bool = False) -> None:
        """Write all rows, whole or not at all."""
        write_table(path, self.columns, self.rows(blank=blank))


def _describe_test(test: RunTest) -> Row:
    return {
        "test": test.name,
        "test_status": test.status,
        "test_checkpoint": test.checkpoint,
        "test_iteration": test.iteration,
        "test_seed": test.seed,
        **{f"test/{name}": value for name, value in test.metrics.items()},
    }


def _differs(key: str, configs: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a value differs; to have none, as with another class, is a difference too."""
    first = configs[0].get(key, MISSING)
    return any(
        config.get(key, MISSING) != first or type(config.get(key, MISSING)) is not type(first)
        for config in configs[1:]
    )


def render_time(moment: float | None) -> str | None:
    """Render a time in UTC, as ISO 8601 has it."""
    if moment is None:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def render_cell(value: Any) -> str:
    """Render a value so that it can be read back: numbers in full, lists and mappings as JSON."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, default=str)
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write rows as CSV, whole or not at all.

    Raises:
        ConfigError: The file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([render_cell(row.get(name)) for name in columns] for row in rows)
    write_report(path, text.getvalue())


def write_report(path: Path, text: str) -> None:
    """Write a file whole or not at all; ConfigError if it cannot be written."""
    data = text.encode(errors="replace")
    try:
        if str(path).startswith("/dev/") or (path.exists() and not path.is_file()):
            # A device or a pipe, such as /dev/stdout, which nothing may take the place of.
            with path.open("wb") as stream:
                stream.write(data)
        else:
            # Through a link, to the file that it leads to.
            write_whole(path.resolve(), data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
