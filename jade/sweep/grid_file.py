"""Read a grid of tasks: a file that lists configurations, and what is changed in them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jade.errors import ConfigError, raise_all, suggest
from jade.file_tree import DEFAULT_CONFIGS, load_tree
from jade.origin import KeyPath, Origin
from jade.overrides import join_key, leaves, split_key
from jade.resources import SECTION, find_problems
from jade.settings import ALIASES, FIELDS, SECTIONS, canonical
from jade.sweep.command import DEFAULT_COMMAND, Command
from jade.sweep.file import Sweep
from jade.sweep.local import LocalOptions
from jade.yaml_file import Document, load_mapping

TASKS, SETTINGS = "grid_tasks", "grid_settings"
OVERWRITE, GRID_OVERWRITE = "overwrite", "grid_overwrite"
KEYS = (TASKS, OVERWRITE, GRID_OVERWRITE, SETTINGS, "name", "description", SECTION)
REPETITIONS, CONCURRENT, TRAINER = "experiment_repetitions", "max_concurrent_runs", "trainer"
SETTING_KEYS = (REPETITIONS, CONCURRENT, TRAINER)
CHANGEABLE = (*SECTIONS, *ALIASES, *FIELDS)
TASK_KEYS = (DEFAULT_CONFIGS, OVERWRITE, *CHANGEABLE)
# One of these says what is trained.
CONFIGS = (DEFAULT_CONFIGS, "config", "model_conf")
TRAIN = "jade train"
# What older files call their programs; here, the settings say how long is trained.
FORMER_TRAINERS = ("mip-offline-trainer", "mip-online-trainer")
TRAIN_COMMAND = ("${env}", "${interpreter}", "-m", "jade", "train", "${args}")


def is_grid_file(values: Mapping[str, Any]) -> bool:
    """Tell whether the content of a file is a grid of tasks."""
    return TASKS in values or GRID_OVERWRITE in values or SETTINGS in values


def read_grid_file(path: Path, *, needs_program: bool = True) -> Sweep:
    """Read a grid of tasks as a sweep with one case for each task.

    Of the values for a key, that in ``overwrite`` of the task wins, then that in ``overwrite`` of
    the file, in ``grid_overwrite``, in the task itself, and in its ``default_configs``.

    Args:
        path: The file.
        needs_program: Whether the files that it names must be here.

    Raises:
        ConfigError: Lists all that is wrong with the file itself.
    """
    document = load_tree(path) if needs_program else load_mapping(path)
    return _Reader(path, document, needs_files=needs_program).read()


class _Reader:
    """Reads a document, and collects what is wrong with it until the end."""

    def __init__(self, path: Path, document: Document, *, needs_files: bool) -> None:
        self._path = path
        self._document = document
        self._values: dict[str, Any] = document.values
        self._needs_files = needs_files
        self._problems: list[str] = []
        self._notes: list[str] = list(document.warnings)

    def read(self) -> Sweep:
        self._check_keys((), self._values, KEYS, "a grid of tasks")
        settings = self._read_settings()
        for_all = {
            **self._read_changes((GRID_OVERWRITE,)),
            **self._read_changes((OVERWRITE,)),
        }
        repetitions = settings.get(REPETITIONS) or 1
        cases = [
            case
            for place in range(self._num_tasks())
            if (case := self._read_task(place, for_all, repeated=repetitions > 1)) is not None
        ]
        command = self._read_trainer(settings.get(TRAINER))
        where = f"{self._origin((SECTION,))}: {SECTION}"
        self._problems += find_problems(where, self._values.get(SECTION))
        raise_all(self._problems)
        return Sweep(
            path=self._path,
            values=self._values,
            method="grid",
            parameters=(),
            command=command,
            local=LocalOptions(
                repetitions=repetitions,
                cases=tuple(cases),
                max_concurrent_runs=settings.get(CONCURRENT),
            ),
            notes=tuple(self._notes),
            lines={str(key): self._origin((key,)).line for key in self._values},
        )

    # The parts of the file

    def _num_tasks(self) -> int:
        tasks = self._values.get(TASKS)
        if not isinstance(tasks, list) or not tasks:
            what = "is missing" if TASKS not in self._values else f"is {tasks!r}"
            self._complain((TASKS,), f"{TASKS} must be a list of tasks, but {what}.")
            return 0
        return len(tasks)

    def _read_settings(self) -> dict[str, Any]:
        given = self._values.get(SETTINGS)
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            self._complain((SETTINGS,), f"{SETTINGS} must be a mapping, not {given!r}.")
            return {}
        self._check_keys((SETTINGS,), given, SETTING_KEYS, SETTINGS)
        read = {str(key): value for key, value in given.items() if value is not None}
        for key in (REPETITIONS, CONCURRENT):
            value = read.get(key, 1)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                text = f"{key} must be a whole number above 0, not {value!r}."
                self._complain((SETTINGS, key), text)
                del read[key]
        return read

    def _read_trainer(self, trainer: Any) -> Command:
        if trainer in (None, TRAIN):
            return Command(None, TRAIN_COMMAND)
        place = (SETTINGS, TRAINER)
        if trainer in FORMER_TRAINERS:
            self._notes.append(
                f"{self._origin(place)}: {trainer} is run as `{TRAIN}`; epochs or train_for say "
                "how long."
            )
            return Command(None, TRAIN_COMMAND)
        if isinstance(trainer, str) and trainer.endswith(".py"):
            if self._needs_files and not Path(trainer).is_file():
                self._complain(place, f"there is no program {trainer} in the working directory.")
            return Command(trainer, DEFAULT_COMMAND)
        hint = suggest(str(trainer), [TRAIN, "train.py"])
        self._complain(place, f"{TRAINER} must name a program, not {trainer!r}.{hint}")
        return Command(None, TRAIN_COMMAND)

    def _read_task(
        self, place: int, for_all: Mapping[str, Any], *, repeated: bool
    ) -> dict[str, Any] | None:
        """Return the values of a task; None if there is something wrong with it."""
        at: KeyPath = (TASKS, place)
        task = self._values[TASKS][place]
        if not isinstance(task, Mapping) or not any(task.get(key) for key in CONFIGS):
            self._complain(
                at,
                f"task {place + 1} has no configuration: {DEFAULT_CONFIGS} names its files.",
            )
            return None
        num_problems = len(self._problems)
        self._check_keys(at, task, TASK_KEYS, "a task")
        own = {k: v for k, v in task.items() if k not in (DEFAULT_CONFIGS, OVERWRITE)}
        files = self._find_files(task.get(DEFAULT_CONFIGS), (*at, DEFAULT_CONFIGS))
        values = {**_flatten(own), **for_all, **self._read_changes((*at, OVERWRITE))}
        if len(self._problems) > num_problems:
            return None
        if files:
            given = values.pop("config", None) or []
            more = [given] if isinstance(given, str) else given
            values = {"config": [*files, *more], **values}
        seed = self._find_seed(files) if repeated and "seed" not in values else None
        # Repetitions have seeds that are derived from that of the task.
        return {**values, "seed": seed} if seed is not None else values

    def _read_changes(self, at: KeyPath) -> dict[str, Any]:
        """Read a section that changes values; its keys may be nested or dotted."""
        given: Any = self._values
        for part in at:
            given = given.get(part) if isinstance(given, Mapping) else given[part]
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            self._complain(at, f"{at[-1]} must be a mapping of keys and values, not {given!r}.")
            return {}
        self._check_keys(at, given, CHANGEABLE, str(at[-1]))
        return _flatten(given)

    def _find_files(self, named: Any, at: KeyPath) -> list[str]:
        """Find configuration files, beside this one or from the working directory."""
        if named is None:
            return []
        names = named.split(",") if isinstance(named, str) else named
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._complain(at, f"{DEFAULT_CONFIGS} takes a path or a list of paths, not {named!r}.")
            return []
        found = []
        for name in (each.strip() for each in names):
            candidates = [self._path.parent / name, Path(name)]
            there = [path for path in candidates if path.is_file()]
            if there:
                found.append(os.path.relpath(there[0]))
            elif self._needs_files:
                tried = " and no ".join(dict.fromkeys(map(str, candidates)))
                self._complain(at, f"{DEFAULT_CONFIGS} names {name!r}; there is no {tried}.")
            else:
                found.append(name)
        return found

    def _find_seed(self, files: list[str]) -> int | None:
        """Return the seed that configuration files give; None if each run draws its own."""
        seed = None
        for file in files if self._needs_files else ():
            seed = load_tree(Path(file)).values.get("seed", seed)
        is_number = isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0
        return seed if is_number else None

    # Messages

    def _check_keys(
        self, at: KeyPath, given: Mapping[Any, Any], known: tuple[str, ...], of: str
    ) -> None:
        for key in given:
            try:
                path = canonical(split_key(key)) if isinstance(key, str) else (key,)
            except ConfigError as error:
                self._complain((*at, key), str(error))
                continue
            if key not in known and (len(path) < 2 or path[0] not in known):
                # Mappings, and keys with dots, are of sections.
                is_nested = isinstance(given[key], Mapping) or len(path) > 1
                fitting = [k for k in known if k not in FIELDS] if is_nested else known
                hint = suggest(str(path[0]), fitting, limit=len(KEYS))
                self._complain((*at, key), f"unknown key {key!r} of {of}.{hint}")

    def _complain(self, at: KeyPath, text: str) -> None:
        self._problems.append(f"{self._origin(at)}: {text}")

    def _origin(self, at: KeyPath) -> Origin:
        for length in range(len(at), 0, -1):
            if at[:length] in self._document.origins:
                return self._document.origins[at[:length]]
        return Origin(str(self._path))


def _flatten(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values by their dotted keys, however they are nested."""
    flat: dict[str, Any] = {}
    for path, value in leaves(given):
        parts = [split_key(part) if isinstance(part, str) else (part,) for part in path]
        flat[join_key(canonical(tuple(part for each in parts for part in each)))] = value
    return flat
