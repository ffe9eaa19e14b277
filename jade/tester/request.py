"""Read which tests are asked for: files, dotted keys, options, and the lists of ``multi_tests``."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.config import Configuration, Sources, load
from jade.errors import raise_all, suggest
from jade.file_tree import load_tree
from jade.origin import KeyPath, Origin
from jade.overrides import Override, join_key, leaves, split_key
from jade.settings import FIELDS, canonical
from jade.tester.options import OPTIONS, RunTestOptions, make_options
from jade.yaml_file import Document

MULTI_TESTS = "multi_tests"
# The parts of a configuration that a test has.
TESTED = ("model", "data", "eval")
FILES = ("data_conf", "eval_conf")
KNOWN = (*TESTED, "trainer", *FILES, *OPTIONS, MULTI_TESTS)
# What belongs to a training around us, and not to the tests that it may start.
STRANGE = ("WANDB_SWEEP_PARAM_PATH",)


@dataclass(frozen=True)
class Changes:
    """What a test changes in the configuration of its run.

    Attributes:
        document: Sections of files, which are put over those of the run.
        overrides: Dotted keys, which win over the files.
        replaced_data: Datasets that are described anew, and have nothing of the run's any more.
        replaces_eval: Whether the evaluations of the run are not taken.
    """

    document: Document
    overrides: tuple[Override, ...] = ()
    replaced_data: frozenset[str] = frozenset()
    replaces_eval: bool = False

    def apply(self, stored: Configuration) -> Configuration:
        """Return the configuration of the test; that of the run stays as it is."""
        values = copy.deepcopy(stored.values)
        if self.replaces_eval:
            values["eval"] = {}
        kept = {k: v for k, v in values["data"].items() if str(k) not in self.replaced_data}
        changed = Configuration(
            values={**values, "data": kept},
            environ=stored.environ,
            folder=stored.folder,
            fence=stored.fence,
        )
        changed.add(self.document)
        changed.overrides = list(self.overrides)
        return changed


@dataclass(frozen=True)
class Request:
    """One test that is asked for."""

    options: RunTestOptions
    changes: Changes


@dataclass(frozen=True, kw_only=True)
class Asked:
    """All that somebody says of the tests that they want.

    Attributes:
        options: By name; these win over files.
        files: ``config`` (a list), ``data_conf`` and ``eval_conf``, as far as they are given.
        sections: Given as mappings instead of files.
        overrides: Dotted keys.
        environ: Environment variables.
    """

    options: Mapping[str, tuple[Any, Origin]] = field(default_factory=dict)
    files: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    overrides: Sequence[Override] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


def read_requests(asked: Asked) -> list[Request]:
    """Return the tests that are asked for: one, or one for each place of ``multi_tests``.

    Raises:
        ConfigError: Lists all that is wrong with what was given.
    """
    return _Reader(asked).read()


class _Reader:
    """Collects what files say, and what is wrong with them."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._problems: list[str] = []
        self._in_files: dict[str, tuple[Any, Origin]] = {}
        self._lists: dict[str, tuple[list[Any], Origin]] = {}
        self._replaced_data: set[str] = {str(key) for key in asked.sections.get("data", {})}
        self._replaces_eval = "eval" in asked.sections

    def read(self) -> list[Request]:
        asked = self._asked
        files = [Override(k, v, Origin(f"argument --{k}")) for k, v in asked.files.items()]
        self._check_overrides()
        configuration = load(
            Sources(
                sections=asked.sections,
                arguments=[*files, *asked.overrides],
                environ={k: v for k, v in asked.environ.items() if k not in STRANGE},
                load_tree=self._load_tree,
            )
        )
        self._check_lists()
        raise_all(self._problems)
        requests = [self._make(configuration, place) for place in range(self._num_tests)]
        raise_all(self._problems)
        return requests

    @property
    def _num_tests(self) -> int:
        return min((len(values) for values, _ in self._lists.values()), default=1)

    def _load_tree(self, path: Path, asked_by: str) -> Document:
        """Load a file, and take out of it what is no part of a configuration."""
        document = load_tree(path, asked_by)
        if asked_by == "--config":
            self._take_out(document)
        elif asked_by == "--data_conf":
            self._replaced_data.update(map(str, document.values))
        elif asked_by == "--eval_conf":
            self._replaces_eval = True
        return document

    def _take_out(self, document: Document) -> None:
        for key in list(document.values):
            origin = document.origins.get((key,), Origin("--config"))
            if key not in KNOWN:
                what = "is a setting of training" if key in FIELDS else "is unknown"
                hint = suggest(str(key), KNOWN, limit=len(KNOWN))
                self._problems.append(f"{origin}: {key!r} {what}; this file is for tests.{hint}")
                continue
            if key in OPTIONS:
                self._in_files[key] = (document.values.pop(key), origin)
            elif key == MULTI_TESTS:
                self._read_lists(document.values.pop(key), document, origin)

    def _read_lists(self, given: Any, document: Document, origin: Origin) -> None:
        if not isinstance(given, Mapping) or not given:
            self._problems.append(
                f"{origin}: {MULTI_TESTS} takes lists by dotted keys, such as "
                "{max_test_episodes: [10, 20]}, not " + f"{given!r}."
            )
            return
        for path, values in leaves(given):
            where = document.origins.get((MULTI_TESTS, *path), origin)
            key = join_key(_split_all(path))
            if not isinstance(values, list) or not values:
                self._problems.append(
                    f"{where}: {MULTI_TESTS}: {key} must have a list with a value for each test, "
                    f"not {values!r}."
                )
            else:
                self._lists[key] = (values, where)

    def _check_lists(self) -> None:
        """Refuse keys that nothing fits, and lists that do not go together."""
        for key, (_, origin) in self._lists.items():
            if key in OPTIONS:
                if key in self._asked.options:
                    self._problems.append(
                        f"--{key} is given, too, but varies from test to test ({origin})."
                    )
            elif canonical(split_key(key))[0] not in TESTED:
                first = str(split_key(key)[0])
                hint = suggest(first, (*OPTIONS, *TESTED))
                self._problems.append(f"{origin}: {MULTI_TESTS}: there is no {key!r}.{hint}")
        sizes = {key: len(values) for key, (values, _) in self._lists.items()}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{key} has {size}" for key, size in sizes.items())
            (_, origin) = next(iter(self._lists.values()))
            self._problems.append(
                f"{origin}: the lists of {MULTI_TESTS} go together, and must be as long: {listed}."
            )

    def _check_overrides(self) -> None:
        for override in self._asked.overrides:
            path = canonical(override.path)
            if path[0] in TESTED:
                continue
            first = str(path[0])
            what = "is a setting of training" if first in FIELDS else "is unknown"
            hint = suggest(first, [*OPTIONS, *TESTED])
            self._problems.append(f"{override.origin}: {override.key!r} {what}.{hint}")

    def _make(self, configuration: Configuration, place: int) -> Request:
        """Make the test of one place; nothing of another one is in it."""
        varied = {key: (values[place], origin) for key, (values, origin) in self._lists.items()}
        options = {k: v for k, v in varied.items() if k in OPTIONS}
        overrides = [
            Override(key, value, origin)
            for key, (value, origin) in varied.items()
            if key not in OPTIONS
        ]
        given = [o for o in configuration.overrides if canonical(o.path)[0] in TESTED]
        document = Document(
            {k: v for k, v in configuration.values.items() if k in TESTED},
            {path: o for path, o in configuration.origins.items() if path and path[0] in TESTED},
        )
        return Request(
            make_options({**self._in_files, **self._asked.options, **options}, self._problems),
            Changes(
                document,
                (*given, *_spread(overrides)),
                frozenset(self._replaced_data),
                self._replaces_eval,
            ),
        )


def _split_all(path: KeyPath) -> KeyPath:
    """Return the path that nested keys mean, each of which may be dotted."""
    return tuple(
        part for key in path for part in (split_key(key) if isinstance(key, str) else (key,))
    )


def _spread(overrides: Sequence[Override]) -> Iterator[Override]:
    """Spell keys as configurations do."""
    for override in overrides:
        yield Override(join_key(canonical(override.path)), override.value, override.origin)


def read_given(names: Mapping[str, Any], spelled: str) -> dict[str, tuple[Any, Origin]]:
    """Return options that were given as arguments; ``spelled`` says how these are written."""
    return {
        name: (value, Origin(spelled.format(name)))
        for name, value in names.items()
        if value is not None
    }
