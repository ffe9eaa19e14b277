"""Read the directories in which MI-Prometheus has left trainings and tests.

::

    <problem>/<model>/<date>_<time>[_<tag>]/
        training_configuration.yaml   training_statistics.csv     training_set_agg_statistics.csv
        models/model_best.pt          validation_statistics.csv   validation_set_agg_statistics.csv
        test_<date>_<time>[_<tag>]/   testing_configuration.yaml  testing_statistics.csv
                                      testing_set_agg_statistics.csv

No checkpoint is opened: they are pickles of an unknown author.
"""

import csv
import math
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jade.analysis.config_reader import ConfigReader
from jade.analysis.course import Course, add_course
from jade.errors import ConfigError

CONFIGURATION, TEST_CONFIGURATION = "training_configuration.yaml", "testing_configuration.yaml"
BEST_MODEL = Path("models", "model_best.pt")
# Of single batches, and of whole sets; what a test has measured on the whole set counts.
TABLES = {
    "training": "training_statistics.csv",
    "training_set": "training_set_agg_statistics.csv",
    "validation": "validation_statistics.csv",
    "validation_set": "validation_set_agg_statistics.csv",
}
TEST_TABLES = ("testing_set_agg_statistics.csv", "testing_statistics.csv")
EPISODE, EPOCH = "episode", "epoch"
SEED, SEEDS = "training.seed_torch", (".seed_torch", ".seed_numpy")
NAME = re.compile(r"(?:test_)?(\d{8}_\d{6})(?:_(.+))?")


def is_mip_run(names: Collection[str]) -> bool:
    """Tell whether a folder is the directory of a training, by the names in it."""
    return CONFIGURATION in names


def read_started(name: str) -> tuple[float | None, str | None]:
    """Return when a training or a test began, and its tag, by the name of its directory."""
    match = NAME.fullmatch(name)
    if match is None:
        return None, None
    try:
        # The name tells the time of the place where it was made; here is the best guess.
        return datetime.strptime(match[1], "%Y%m%d_%H%M%S").astimezone().timestamp(), match[2]
    except ValueError:
        return None, match[2]


def read_mip_config(path: Path, configs: ConfigReader, notes: list[str]) -> Mapping[str, Any]:
    """Read a configuration as dotted keys; what cannot be read is noted.

    Its seeds, one for each library, become one: runs that differ in nothing else are repetitions.
    """
    try:
        found = configs.read(path)
    except (OSError, ConfigError):
        notes.append(f"{path.name} cannot be read")
        return {}
    seeds = {key for key in found if key.endswith(SEEDS)}
    seed = {"seed": found[SEED]} if SEED in found else {}
    return {**seed, **{key: value for key, value in found.items() if key not in seeds}}


def read_mip_courses(folder: Path, num_points: int, notes: list[str]) -> dict[str, Course]:
    """Read what became of all metrics; their names begin with the table that they come from."""
    found: dict[str, Course] = {}
    for prefix, name in TABLES.items():
        if not (folder / name).is_file():
            notes.append(f"{name} is missing")
            continue
        for column, pairs in _read_table(folder / name, notes).items():
            add_course(found, f"{prefix}/{column}", pairs, num_points)
    return found


def read_mip_clock(folder: Path) -> tuple[int | None, int | None]:
    """Return how many episodes and epochs there were, as far as the tables tell."""
    rows = _read_rows(folder / TABLES["training"], [])
    last = rows[-1] if rows else {}
    episodes, epochs = last.get(EPISODE), last.get(EPOCH)
    return (
        None if episodes is None else int(episodes) + 1,
        None if epochs is None else int(epochs) + 1,
    )


def read_mip_test(folder: Path, notes: list[str]) -> dict[str, float]:
    """Return what a test has measured: on the whole set, or else the means over its batches."""
    for name in TEST_TABLES:
        rows = _read_rows(folder / name, notes) if (folder / name).is_file() else []
        if rows:
            columns = {key for row in rows for key in row} - {EPISODE, EPOCH}
            values = {key: [row[key] for row in rows if key in row] for key in sorted(columns)}
            return {key: sum(found) / len(found) for key, found in values.items()}
    notes.append(f"{folder.name}/{TEST_TABLES[0]} holds no results")
    return {}


def _read_table(path: Path, notes: list[str]) -> dict[str, list[tuple[int, float]]]:
    columns: dict[str, list[tuple[int, float]]] = {}
    for place, row in enumerate(_read_rows(path, notes)):
        step = int(row.get(EPISODE, place))
        for name, value in row.items():
            if name not in (EPISODE, EPOCH):
                columns.setdefault(name, []).append((step, value))
    return columns


def _read_rows(path: Path, notes: list[str]) -> list[dict[str, float]]:
    """Read the rows of a table; of a row that is cut or damaged nothing counts."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            header, *lines = list(csv.reader(file)) or [[]]
    except (OSError, csv.Error):
        notes.append(f"{path.name} cannot be read")
        return []
    names = [name.strip() for name in header]
    rows, num_damaged = [], 0
    for line in lines:
        try:
            row = {name: float(cell) for name, cell in zip(names, line, strict=True)}
        except ValueError:
            row = {}
        # Only what was measured may be no number.
        if row and all(math.isfinite(row.get(name, 0.0)) for name in (EPISODE, EPOCH)):
            rows.append(row)
        else:
            num_damaged += 1
    if num_damaged:
        shown = "1 row" if num_damaged == 1 else f"{num_damaged} rows"
        notes.append(f"{path.name}: {shown} cannot be read")
    return rows
