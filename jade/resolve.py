"""Bind a configuration to the signatures of its classes: names, defaults, types, variables."""

import copy
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade import settings as run_settings
from jade.class_index import ClassIndex, default_roots
from jade.components import Blueprint, find_architecture_file
from jade.config import Configuration, freeze
from jade.descriptions import DescriptionChecker
from jade.errors import ConfigError, closest, suggest
from jade.fence import Fence
from jade.fitter import Fitter
from jade.known_keys import KnownKeys
from jade.origin import KeyPath, Origin
from jade.overrides import Override, assign, find, split_key
from jade.plain import to_plain
from jade.problems import Problems
from jade.schedule import EPOCHS, ITERATIONS, SECONDS, UNITS, parse_amount
from jade.settings import FIELDS, SECTIONS, TYPES, Settings
from jade.swept import find_lost
from jade.user_modules import imported_below

DEFAULT = Origin("default")
# The sections with descriptions by name.
FAMILIES = SECTIONS[1:]
COUNTED = (EPOCHS, ITERATIONS, SECONDS)
AMOUNTS = ("train_for", "time_limit", "checkpoint_every", "backup_every", "log_loss_every")
MakeIndex = Callable[[Sequence[Path], Path, Fence | None], ClassIndex]
CLASSES_LEFT = "\nClasses and their parameters come after that; `jade check` looks at all at once."
# What a run cannot do without.
NEEDED = {
    "model": "There is no model: give --model_conf FILE (or a section 'model' with --config).",
    "data": "There is no data: give --data_conf FILE (or a section 'data' with --config).",
}


@dataclass(frozen=True)
class Draft:
    """What is known of a configuration, whether it is all right or not.

    Attributes:
        settings: Those that do not fit have their defaults.
        names: What each section describes, also what is not known to be right.
        doubtful: The settings and sections of which not all is known: nothing follows from them.
    """

    settings: Settings
    configuration: Configuration
    index: ClassIndex | None
    model: Blueprint | None
    evaluations: Mapping[str, Blueprint]
    names: Mapping[str, Sequence[str]]
    doubtful: frozenset[str]

    @property
    def architecture_file(self) -> Path | None:
        """The file with the architectures, if one was given."""
        roots = self.index.roots if self.index else ()
        return find_architecture_file(self.settings.arch_impl, roots, self.configuration.folder)

    def where(self, *path: Any) -> str:
        """Render a key with the place where its value was written, to open a message."""
        return self.configuration.where(path)


LookFurther = Callable[[Draft], Iterable[str | ConfigError]]


@dataclass
class Resolved:
    """A configuration in which every value is known to fit."""

    values: dict[str, Any]
    expanded: dict[str, Any]
    settings: Settings
    configuration: Configuration
    index: ClassIndex
    model: Blueprint
    data: dict[str, Blueprint] = field(default_factory=dict)
    evaluations: dict[str, Blueprint] = field(default_factory=dict)
    evaluate_every: dict[str, Any] = field(default_factory=dict)
    loggers: dict[str, Blueprint] = field(default_factory=dict)

    def change(self, **settings: Any) -> None:
        """Give settings other values, also in what is written down."""
        self.values.update(settings)
        self.expanded.update(settings)
        self.settings_only(**settings)

    def settings_only(self, **settings: Any) -> None:
        """Give settings other values for now; what is written down stays."""
        self.settings = dataclasses.replace(self.settings, **settings)

    @property
    def frozen(self) -> dict[str, Any]:
        """What is written down: complete, unexpanded, enough to run again."""
        return freeze(self.values)

    @property
    def architecture_file(self) -> Path | None:
        """The file with the architectures, if one was given."""
        index = self.index
        return find_architecture_file(self.settings.arch_impl, index.roots, index.folder)

    def code_files(self) -> set[Path]:
        """Return the files of the user that the run uses, with all that they have imported."""
        used = self.index.used
        # A file may import what stands beside it, or anything else of the project.
        folders = {Path.cwd(), *self.index.roots, *(path.parent for path in used)}
        return {*used, *imported_below(folders)}

    def origin_of(self, path: KeyPath) -> Origin:
        """Tell where a value was written; nowhere means that it is a default."""
        return self.configuration.origins.get(path) or DEFAULT


def resolve(
    configuration: Configuration,
    look_further: LookFurther = lambda _: (),
    sections: Sequence[str] = SECTIONS,
    make_index: MakeIndex = ClassIndex,
) -> Resolved:
    """Check everything; all problems are in the one ConfigError that is raised.

    Args:
        configuration: What was collected from files, environment, arguments and sweep.
        look_further: Finds problems in what is known by then, to be raised with the others.
        sections: What to check, the model at least; other sections are taken for empty.
        make_index: Makes the index of classes; who resolves many configurations of the same
            folders can give a function that remembers it.
    """
    return _Resolver(configuration, sections, make_index).resolve(look_further)


def refuse_command(configuration: Configuration) -> None:
    """Refuse a command that is wrong by itself, at once: classes, which import torch, can wait.

    Raises:
        ConfigError: A flag is misspelt, does not fit, or is missing. It lists all that is known.
    """
    # What it notices is noticed again when all is resolved.
    aside = copy.copy(configuration)
    aside.notices, aside.warnings = list(aside.notices), list(aside.warnings)
    _Resolver(aside, SECTIONS).refuse_command()


def resolve_one(configuration: Configuration, path: KeyPath) -> Blueprint:
    """Check one description of a configuration and nothing else of it."""
    return _Resolver(configuration, path[:1]).resolve_one(path)


class _Resolver:
    """Works on a copy of the values and collects problems until the end."""

    def __init__(
        self,
        configuration: Configuration,
        sections: Sequence[str],
        make_index: MakeIndex = ClassIndex,
    ) -> None:
        self._sections = sections
        self._make_index = make_index
        self._applied: list[tuple[KeyPath, Override]] = []
        self._conf = copy.copy(configuration)
        left_out = [name for name in SECTIONS if name not in sections]
        kept = {k: v for k, v in configuration.values.items() if k not in left_out}
        self._conf.values = copy.deepcopy(kept)
        self._conf.origins = dict(configuration.origins)
        self._values = self._conf.values
        self._expanded: dict[str, Any] = {}
        self._problems = Problems(self._conf)
        self._doubtful = set(configuration.unread)
        self._fitter = Fitter(self._conf, self._problems)

    def resolve(self, look_further: LookFurther) -> Resolved:
        # The classes are needed to understand the other overrides.
        for override in self._conf.overrides:
            if _is_early(override.path):
                self._apply(override.path, override)
        # What is written has been read; only what is not might stand in what has not.
        written = {key for key in FIELDS if (key,) in self._conf.origins}
        self._doubtful -= written
        folders = self._module_folders()
        index = None
        if folders is None:
            # No class would be found: that would only hide what is wrong.
            self._doubtful.update(SECTIONS)
        else:
            index = self._make_index(folders, self._conf.folder, self._conf.fence)
        self._apply_late_overrides(KnownKeys(self._values, index))
        settings = self._check_settings()
        self._check_sections()
        checker = DescriptionChecker(self._conf, index, self._problems, self._fitter)
        model = self._check_model(checker)
        families = {name: self._check_family(name, checker) for name in FAMILIES}
        evaluate_every = self._collect_evaluate_every()
        self._check_metric_name(settings.best_metric)
        if not self._problems:
            for text in find_lost(self._applied, self._values):
                self._problems.add(text)
        draft = Draft(
            settings=settings,
            configuration=self._conf,
            index=index,
            model=model,
            evaluations=families["eval"],
            names={name: [str(key) for key in self._values.get(name, ())] for name in FAMILIES},
            doubtful=frozenset(self._doubtful),
        )
        for problem in look_further(draft):
            self._problems.add(problem)
        self._problems.raise_all()
        if model is None or index is None or folders is None:
            raise AssertionError("a problem was not reported")
        self._keep_folders(folders)
        index.warn_of_broken()
        return Resolved(
            values=self._values,
            expanded=freeze(self._expanded),
            settings=settings,
            configuration=self._conf,
            index=index,
            model=model,
            data=families["data"],
            evaluations=families["eval"],
            evaluate_every=evaluate_every,
            loggers=families["loggers"],
        )

    def resolve_one(self, path: KeyPath) -> Blueprint:
        folders = self._module_folders()
        if folders is None:
            self._problems.raise_all()
            raise AssertionError("a problem was not reported")
        index = ClassIndex(folders, self._conf.folder, self._conf.fence)
        checker = DescriptionChecker(self._conf, index, self._problems, self._fitter)
        blueprint = checker.check(path, find(self._values, path))
        if blueprint is None or self._problems:
            self._problems.raise_all()
            raise AssertionError("a problem was not reported")
        return blueprint

    def refuse_command(self) -> None:
        for override in self._conf.overrides:
            if _is_early(override.path):
                self._apply(override.path, override)
        known = KnownKeys(self._values, None)
        for override in self._conf.overrides:
            if _is_slip(override.path):
                self._apply_late(override, known)
        self._module_folders()
        self._check_settings()
        self._check_sections()
        if self._problems.are_of_command:
            has_classes = any(self._values.get(name) for name in SECTIONS)
            self._problems.raise_all(CLASSES_LEFT if has_classes else "")

    # Overrides

    def _apply_late_overrides(self, known: KnownKeys) -> None:
        for override in self._conf.overrides:
            if not _is_early(override.path) and override.path[0] not in self._doubtful:
                self._apply_late(override, known)

    def _apply_late(self, override: Override, known: KnownKeys) -> None:
        try:
            self._apply(known.locate(override), override)
        except ConfigError as error:
            self._problems.add(str(error), of_command=override.origin.is_command)

    def _apply(self, path: KeyPath, override: Override) -> None:
        self._conf.note_replaced(path, override.value, override.origin)
        try:
            assign(self._values, path, override.value)
        except ConfigError as error:
            self._problems.add(f"{override.origin}: {error}")
            return
        self._conf.origins[path] = override.origin
        self._applied.append((path, override))

    # Settings

    def _module_folders(self) -> list[Path] | None:
        """Return where classes are looked for; None if there is no such folder."""
        given, _ = run_settings.fit("modules", self._fitter.expand(self._values.get("modules"), ()))
        folder = self._conf.folder
        missing = [name for name in given or () if not (folder / name).is_dir()]
        for name in missing:
            self._problems.add_at(("modules",), f"there is no folder {name}.")
        if missing:
            return None
        if given:
            return [folder / name for name in given]
        return default_roots([self._values.get(key) for key in ("model_conf", "arch_impl")], folder)

    def _keep_folders(self, folders: list[Path]) -> None:
        """Write down where classes were found, if it was not simply in ``modules``."""
        if not self._values["modules"] and folders not in ([], [Path.cwd() / "modules"]):
            self._values["modules"] = self._expanded["modules"] = [
                os.path.relpath(path) for path in folders
            ]

    def _check_settings(self) -> Settings:
        """Fit the settings, and put them first, each with its default where nothing was said."""
        given = dict(self._values)
        self._values.clear()
        fitted: dict[str, Any] = {}
        for key, setting in FIELDS.items():
            self._values[key] = given.pop(key, to_plain(setting.default))
            is_text = TYPES[key] in (str, str | None)
            value = self._fitter.expand(self._values[key], (key,), as_text=is_text)
            fitted[key], problem = run_settings.fit(key, value)
            self._expanded[key] = to_plain(fitted[key])
            if problem:
                self._problems.add_at((key,), problem)
                fitted[key] = setting.default
            if problem or (value is None and self._values[key] is not None):
                self._doubtful.add(key)
        self._values.update(given)
        for key in [key for key in given if key not in SECTIONS]:
            self._problems.add_at((key,), f"unknown key.{_key_hint(str(key), given[key])}")
        settings = run_settings.from_values(fitted)
        for keys, text in _setting_problems(settings):
            if self._doubtful.isdisjoint(keys):
                self._problems.add_at(keys[:1], text)
        return settings

    # Sections

    def _check_sections(self) -> None:
        for section, text in NEEDED.items():
            is_known = section in self._sections and section not in self._doubtful
            if is_known and not self._values.get(section):
                self._problems.add(text, of_command=True)
        for section in FAMILIES:
            value = self._values.get(section)
            if value is not None and not isinstance(value, dict):
                self._problems.add_at((section,), f"expected descriptions by name, not {value!r}.")
                self._doubtful.add(section)
            if not isinstance(value, dict) and (section == "eval" or value is not None):
                self._values[section] = {}

    def _check_model(self, checker: DescriptionChecker) -> Blueprint | None:
        if not self._values.get("model"):
            return None
        return self._check_one(("model",), checker)

    def _check_family(self, section: str, checker: DescriptionChecker) -> dict[str, Blueprint]:
        checked = {}
        for name in self._values.get(section, {}):
            blueprint = self._check_one((section, name), checker)
            if blueprint is not None:
                checked[str(name)] = blueprint
        return checked

    def _check_one(self, path: KeyPath, checker: DescriptionChecker) -> Blueprint | None:
        description = find(self._values, path)
        if path[0] == "eval" and isinstance(description, dict):
            self._lift_evaluate_every(path, description)
        blueprint = checker.check(path, description)
        if blueprint is not None:
            assign(self._expanded, path, self._describe(blueprint))
        return blueprint

    def _describe(self, value: Any) -> Any:
        """Describe blueprints again, with the values that they will be built with."""
        if isinstance(value, Blueprint):
            written = find(self._values, split_key(value.key))
            return {**written, "params": self._describe(value.params)}
        if isinstance(value, dict):
            return {key: self._describe(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._describe(item) for item in value]
        return to_plain(value)

    def _lift_evaluate_every(self, path: KeyPath, description: dict[str, Any]) -> None:
        """Accept ``evaluate_every`` among the params, as older files write it."""
        params = description.get("params")
        if not isinstance(params, dict) or "evaluate_every" not in params:
            return
        inner, lifted = (*path, "params", "evaluate_every"), (*path, "evaluate_every")
        if "evaluate_every" in description:
            other = self._conf.where(lifted)
            self._problems.add_at(inner, f"{other} is given, too; keep one.")
        description["evaluate_every"] = params.pop("evaluate_every")
        self._applied = [(lifted if at == inner else at, item) for at, item in self._applied]
        if inner in self._conf.origins:
            self._conf.origins[lifted] = self._conf.origins.pop(inner)

    def _collect_evaluate_every(self) -> dict[str, Any]:
        collected = {}
        for name, description in self._values["eval"].items():
            if not isinstance(description, dict):
                continue
            path = ("eval", name, "evaluate_every")
            written = description.setdefault("evaluate_every", 1)
            every = self._fitter.expand(written, path)
            is_missing = every is None and written is not None
            problem = None if is_missing else _amount_problem(every, "evaluate_every")
            if problem:
                self._problems.add_at(path, problem)
            if name in self._expanded.get("eval", {}):
                self._expanded["eval"][name]["evaluate_every"] = every
            collected[str(name)] = every
        return collected

    def _check_metric_name(self, metric: str | None) -> None:
        names = [str(name) for name in self._values["eval"]]
        if "eval" in self._doubtful:
            return
        if metric is not None and metric.partition("/")[0] not in names:
            none = "" if names else " There are no evaluations: give --eval_conf FILE."
            self._problems.add_at(
                ("best_metric",), f"no evaluation logs {metric!r}.{none}{suggest(metric, names)}"
            )


def _key_hint(key: str, value: Any) -> str:
    """Render what a top-level key was meant to be."""
    meant = closest(key, SECTIONS if isinstance(value, dict) else [*FIELDS, *SECTIONS])
    hint = f" Did you mean {meant!r}?" if meant else ""
    return (
        f"{hint} Known are the sections {', '.join(SECTIONS)} and the flags of jade train --help."
    )


def _is_early(path: KeyPath) -> bool:
    """Tell whether an override is about a setting or a class, on which others depend."""
    return path[0] in FIELDS or (path[0] in SECTIONS and path[-1] == "class")


def _is_slip(path: KeyPath) -> bool:
    """Tell whether a key is so like a setting that it can only be one that is misspelt."""
    key = str(path[0]).replace("-", "_")
    return key not in (*FIELDS, *SECTIONS) and closest(key, FIELDS, likeness=0.8) is not None


def _setting_problems(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Say what is wrong with the settings at some keys, the first of which is to be changed."""
    if settings.epochs is None and settings.train_for is None:
        text = "How long? Give --epochs N or --train_for AMOUNT (such as '0.5 hours')."
        yield ("epochs", "train_for"), text
    if settings.epochs is not None and settings.epochs < 0:
        yield ("epochs",), f"must not be negative, got {settings.epochs}."
    if settings.patience is not None and settings.best_metric is None:
        yield ("patience", "best_metric"), "it needs best_metric: which metric should improve?"
    if settings.resume is not None and settings.dry_run:
        text = "it and dry_run exclude each other: a rehearsal keeps nothing."
        yield ("resume", "dry_run"), text
    for key in ("keep_last", "patience"):
        value = getattr(settings, key)
        if value is not None and value < 1:
            yield (key,), f"must be at least 1, got {value}."
    yield from _amount_problems(settings)


def _amount_problems(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for key in AMOUNTS:
        value = getattr(settings, key)
        if value is not None:
            problem = _amount_problem(value, key, zero=key == "train_for")
            if problem:
                yield (key,), problem


def _amount_problem(value: Any, key: str, *, zero: bool = False) -> str | None:
    try:
        unit = parse_amount(value, key, zero=zero).unit
    except ConfigError as error:
        return str(error).removeprefix(key).lstrip(": ")
    if key == "time_limit" and unit != SECONDS:
        return f"{value!r} is no time. Write '55 minutes', '2 hours' or '30 s'."
    # Any other unit is a counter of the trainer; one that is nearly a known unit is a slip.
    meant = closest(unit, UNITS, likeness=0.8) if unit not in COUNTED else None
    return f"{value!r} has the unit {unit!r}. Did you mean {meant!r}?" if meant else None
