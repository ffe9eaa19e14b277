"""Load a sweep file, and find all that is wrong with it."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from jade.errors import raise_all, suggest
from jade.origin import KeyPath, Origin
from jade.overrides import exists, find
from jade.resources import SECTION, find_problems
from jade.sweep.command import Command, read_command
from jade.sweep.early_stop import EarlyStop, read_early_stop
from jade.sweep.local import LocalOptions, read_local
from jade.sweep.local_points import LocalGrid, draw_point
from jade.sweep.metric import Metric, read_metric
from jade.sweep.parameters import PARAMETERS, Parameter, ParameterReader
from jade.sweep.points import Grid, Point, grid_of
from jade.yaml_file import Document, load_mapping

METHODS = ("grid", "random", "bayes")
# What another program of W&B decides.
CUSTOM = "custom"
LOCAL = "jade"
TEXTS = ("name", "description", "project", "entity")
KEYS = (
    *("program", "command", "method", "metric", "metrics", PARAMETERS, "early_terminate"),
    *("run_cap", *TEXTS, "controller", "scheduler", "job", "image_uri", "apiVersion", "kind"),
    # Ours: what W&B has no words for.
    *(LOCAL, SECTION),
)


@dataclass(frozen=True)
class Sweep:
    """A sweep file that has been checked by itself: its keys, distributions and command.

    Attributes:
        path: The file.
        values: All that it says, with the numbers that YAML 1.2 reads.
        method: How points are chosen.
        parameters: In W&B's order.
        command: What is run for each point.
        metric: What a search improves.
        early_stop: When runs that are worse than others are stopped.
        run_cap: How many runs there are at most.
        local: What only `jade sweep run` does.
        notes: What is odd in the file.
        misread: What `wandb sweep`, which reads YAML 1.1, takes for something else.
    """

    path: Path
    values: Mapping[str, Any]
    method: Literal["grid", "random", "bayes", "custom"]
    parameters: tuple[Parameter, ...]
    command: Command
    metric: Metric | None = None
    early_stop: EarlyStop | None = None
    run_cap: int | None = None
    local: LocalOptions = field(default_factory=LocalOptions)
    notes: tuple[str, ...] = ()
    misread: tuple[str, ...] = ()
    lines: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def grid(self) -> Grid | LocalGrid | None:
        """All points of a grid; None for a search that draws them."""
        if self.method != "grid":
            return None
        if self.local.shapes_points:
            return LocalGrid(self.parameters, self.local, self.local_origin)
        return grid_of(self.parameters)

    def draw(self, index: int) -> Point:
        """Draw point ``index`` of a search; the same one whenever it is asked for."""
        return draw_point(self.parameters, self.local, index, self.local_origin)

    @property
    def name(self) -> str:
        """What people call the sweep: the name that it gives itself, or that of its file."""
        return str(self.values.get("name") or self.path.stem)

    @property
    def only_local(self) -> list[str]:
        """What the section of JADE asks for, of which W&B takes no notice."""
        given = self.values.get(LOCAL)
        return [str(key) for key in given] if isinstance(given, Mapping) else []

    @property
    def resources(self) -> list[tuple[str, Any]]:
        """What the file says about the jobs of a cluster, with the place."""
        return [(f"{self.where(SECTION)}: {SECTION}", self.values.get(SECTION))]

    @property
    def local_origin(self) -> Origin:
        """Where the section of JADE is."""
        return Origin(str(self.path), self.lines.get(LOCAL))

    @property
    def num_runs(self) -> int | None:
        """How many runs there will be; None if only somebody who stops them knows."""
        grid = self.grid
        if grid is None:
            return self.run_cap
        return grid.num_points if self.run_cap is None else min(grid.num_points, self.run_cap)

    def where(self, key: str) -> str:
        """Render the place of a top-level key."""
        line = self.lines.get(key)
        return str(self.path) if line is None else f"{self.path}:{line}"


def is_sweep(values: Mapping[str, Any]) -> bool:
    """Tell whether the content of a file is a sweep."""
    return PARAMETERS in values and ("method" in values or "program" in values)


def load_sweep(path: Path) -> Sweep | None:
    """Load a sweep file; None if the file is something else.

    Raises:
        ConfigError: Lists all that is wrong with the file itself.
    """
    document = load_mapping(path)
    return _Reader(path, document).read() if is_sweep(document.values) else None


def require_sweep(path: Path, *, needs_program: bool = True) -> Sweep:
    """Load a file that must be a sweep; what it lacks is in the error.

    Args:
        path: The file.
        needs_program: Whether the program, and the variables of the command, must be here.
    """
    return _Reader(path, load_mapping(path), needs_program=needs_program).read()


class _Reader:
    """Reads a document, and collects what is wrong with it until the end."""

    def __init__(self, path: Path, document: Document, *, needs_program: bool = True) -> None:
        self._path = path
        self._needs_program = needs_program
        self._document = document
        self._values: dict[str, Any] = document.values
        self._problems: list[str] = []

    def read(self) -> Sweep:
        values = self._values
        self._check_keys()
        reader = ParameterReader(self._document.origins)
        if PARAMETERS in values:
            reader.read(values[PARAMETERS])
        elif "scheduler" not in values:
            self._complain(None, "the sweep has no parameters.")
        self._problems += reader.problems
        method = self._read_method(reader.parameters)
        run_cap = self._read_run_cap()
        metric = self._read_part("metric", read_metric)
        early_stop = self._read_part("early_terminate", read_early_stop)
        self._check_metric_is_there(method, metric, early_stop)
        local = self._read_part(LOCAL, lambda v, found: read_local(v, reader.parameters, found))
        command = self._read_command()
        where = self._document.origins.get((SECTION,))
        self._problems += find_problems(f"{where}: {SECTION}", values.get(SECTION))
        raise_all(self._problems)
        return Sweep(
            path=self._path,
            values=values,
            method=method,
            parameters=tuple(reader.parameters),
            command=command,
            metric=metric,
            early_stop=early_stop,
            run_cap=run_cap,
            local=local or LocalOptions(),
            notes=(*self._document.warnings, *reader.notes),
            misread=tuple(_misread(self._path, self._document)),
            lines={key: self._document.origins[(key,)].line for key in values},
        )

    def _complain(self, key: str | None, text: str) -> None:
        origin = self._document.origins.get((key,)) if key is not None else None
        self._problems.append(f"{origin or self._path}: {text}")

    def _check_keys(self) -> None:
        for key in self._values:
            if key not in KEYS:
                hint = suggest(str(key), KEYS, limit=len(KEYS))
                self._complain(key, f"unknown key {key!r} of a sweep.{hint}")
        for key in TEXTS:
            if not isinstance(self._values.get(key), (str, type(None))):
                self._complain(key, f"{key} must be text, not {self._values[key]!r}.")

    def _read_method(self, parameters: list[Parameter]) -> Any:
        method = self._values.get("method")
        if method is None:
            self._complain(None, f"the sweep has no method.{suggest('', METHODS)}")
        elif method not in METHODS and not (method == CUSTOM and "scheduler" in self._values):
            self._complain("method", f"unknown method {method!r}.{suggest(str(method), METHODS)}")
        if method == "grid":
            for parameter in parameters:
                if parameter.distribution.grid() is None:
                    self._problems.append(
                        f"{parameter.origin}: {parameter.key}: a grid cannot have all values of "
                        f"{parameter.kind}. Write values, or choose method: random."
                    )
        return method

    def _read_run_cap(self) -> int | None:
        run_cap = self._values.get("run_cap")
        if run_cap is None:
            return None
        if not isinstance(run_cap, int) or isinstance(run_cap, bool) or run_cap < 1:
            self._complain("run_cap", f"run_cap must be a whole number above 0, not {run_cap!r}.")
            return None
        return run_cap

    def _read_part(self, key: str, read: Any) -> Any:
        """Read a section by a function that returns what it read, or adds to the problems."""
        if self._values.get(key) is None:
            return None
        found: list[tuple[str | None, str]] = []
        part = read(self._values[key], found)
        for inner, text in found:
            path = (key,) if inner is None else (key, inner)
            origin = self._document.origins.get(path) or self._document.origins[(key,)]
            self._problems.append(f"{origin}: {text}")
        return part

    def _check_metric_is_there(
        self, method: Any, metric: Metric | None, early_stop: EarlyStop | None
    ) -> None:
        if metric is not None or "metric" in self._values or "metrics" in self._values:
            return
        example = "metric: {name: NAME, goal: minimize}"
        if method == "bayes":
            self._complain("method", f"bayes needs a metric to improve: {example}.")
        if early_stop is not None:
            self._complain("early_terminate", f"it needs a metric to compare runs by: {example}.")

    def _read_command(self) -> Command:
        found: list[str] = []
        command = read_command(self._values.get("program"), self._values.get("command"), found)
        launched = "job" in self._values or "image_uri" in self._values
        if not found and not launched and self._needs_program:
            found += command.problems(Path(), os.environ)
        for text in () if launched else found:
            key = "command" if "command" in self._values and "command" in text else "program"
            self._complain(key if key in self._values else None, text)
        return command


def _misread(path: Path, document: Document) -> Iterator[str]:
    """Find values that readers of YAML 1.1 take for something else, such as 1e-6 for text."""
    try:
        other = yaml.safe_load(path.read_text("utf-8-sig"))
    except (OSError, ValueError, yaml.YAMLError):
        return
    for place, value in _leaves(document.values, ()):
        if not exists(other, place):
            continue
        read = find(other, place)
        if type(read) is not type(value) or (read != value and value == value):
            origin = document.origins.get(place) or document.origins.get(place[:-1]) or path
            yield f"{origin}: `wandb sweep` reads {value!r} as {read!r}; write {_spelled(value)}."


def _leaves(values: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(values, (dict, list)):
        items = values.items() if isinstance(values, dict) else enumerate(values)
        for key, item in items:
            yield from _leaves(item, (*path, key))
    else:
        yield path, values


def _spelled(value: Any) -> str:
    """Spell a value so that every reader of YAML takes it for the same."""
    if isinstance(value, float):
        text = repr(value)
        if "e" in text and "." not in text:
            return text.replace("e", ".0e")
        return text
    return repr(value) if isinstance(value, str) else str(value).lower()
