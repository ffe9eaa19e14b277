"""Bind a configuration to the signatures of its classes: names, defaults, types, variables."""

import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade import settings as run_settings
from jade.components import (
    Blueprint,
    ClassIndex,
    entry_name,
    hints_of,
    is_description,
    signature_of,
)
from jade.config import Configuration, freeze
from jade.conform import Mismatch, conform, expected_type
from jade.envvars import Expanded, expand_text, has_variables
from jade.errors import ComponentError, ConfigError, VariableError, raise_all, suggest
from jade.overrides import Override, assign, find, join_key
from jade.schedule import parse_amount
from jade.settings import ALIASES, FIELDS, SECTIONS, Settings
from jade.yaml_file import KeyPath, Origin

DEFAULT = Origin("default")
DESCRIPTION_KEYS = {
    "model": ("class", "params", "strict"),
    "data": ("class", "params", "strict"),
    "loggers": ("class", "params", "strict"),
    "eval": ("class", "params", "strict", "evaluate_every"),
}
AMOUNTS = ("train_for", "checkpoint_every", "backup_every", "log_loss_every")


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

    @property
    def frozen(self) -> dict[str, Any]:
        """What is written down: complete, unexpanded, enough to run again."""
        return freeze(self.values)

    def origin_of(self, path: KeyPath) -> Origin:
        return self.configuration.origins.get(path) or DEFAULT


def resolve(configuration: Configuration) -> Resolved:
    """Check everything; all problems are in the one ConfigError that is raised."""
    return _Resolver(configuration).resolve()


class _Resolver:
    """Works on a copy of the values and collects problems until the end."""

    def __init__(self, configuration: Configuration) -> None:
        self._conf = configuration
        self._values: dict[str, Any] = copy.deepcopy(configuration.values)
        self._expanded: dict[str, Any] = {}
        self._problems: list[str] = []
        self._missing: dict[str, list[str]] = {}
        self._index = ClassIndex([])

    def resolve(self) -> Resolved:
        late = self._apply_exact_overrides()
        self._fill_settings()
        self._index = ClassIndex(self._module_folders())
        self._apply_short_overrides(late)
        settings = self._check_settings()
        model, data, evaluations = self._check_sections()
        loggers = self._check_family("loggers", "Logger")
        evaluate_every = self._collect_evaluate_every()
        self._check_metric_names()
        self._raise_problems()
        if settings is None or model is None:
            raise AssertionError("a problem was not reported")
        self._index.warn_of_broken()
        return Resolved(
            values=self._values,
            expanded=freeze(self._expanded),
            settings=settings,
            configuration=self._conf,
            index=self._index,
            model=model,
            data=data,
            evaluations=evaluations,
            evaluate_every=evaluate_every,
            loggers=loggers,
        )

    def _raise_problems(self) -> None:
        if self._missing:
            listed = "; ".join(f"{name} (for {', '.join(w)})" for name, w in self._missing.items())
            plural = "s are" if len(self._missing) > 1 else " is"
            text = f"Environment variable{plural} not set: {listed}. Export them or write .env."
            if not self._problems:
                raise VariableError(text)
            self._problems.append(text)
        raise_all(self._problems)

    # Overrides

    def _apply_exact_overrides(self) -> list[Override]:
        """Apply the overrides of settings and of existing keys; return the others."""
        late = []
        for override in self._conf.overrides:
            path = _canonical(override.path)
            if path[0] in FIELDS or self._exists(path) or path[-1] == "class":
                self._apply(path, override)
            else:
                late.append(override)
        return late

    def _exists(self, path: KeyPath) -> bool:
        try:
            find(self._values, path)
        except KeyError:
            return False
        return True

    def _apply(self, path: KeyPath, override: Override) -> None:
        old = find(self._values, path) if self._exists(path) else None
        old_origin = self._conf.origins.get(path)
        try:
            assign(self._values, path, override.value)
        except ConfigError as error:
            self._problems.append(f"{override.origin}: {error}")
            return
        self._conf.origins[path] = override.origin
        if old_origin is not None and old != override.value:
            self._conf.notices.append(
                f"{join_key(path)} = {override.value!r} ({override.origin}) "
                f"replaces {old!r} ({old_origin})"
            )

    def _apply_short_overrides(self, overrides: Iterable[Override]) -> None:
        for override in overrides:
            path = _canonical(override.path)
            if path[0] not in SECTIONS:
                self._problems.append(self._unknown_key(override, path))
                continue
            known = set(self._known_paths())
            candidates = [path] if path in known or self._inside(path) else _fitting(path, known)
            if len(candidates) == 1:
                self._apply(candidates[0], override)
            elif candidates:
                listed = ", ".join(join_key(candidate) for candidate in sorted(candidates))
                self._problems.append(
                    f"Override {override.key!r} ({override.origin}) fits more than one parameter: "
                    f"{listed}. Write which one."
                )
            else:
                near = suggest(override.key, (join_key(item) for item in known))
                self._problems.append(
                    f"Override {override.key!r} ({override.origin}): no {path[-1]!r} in "
                    f"{join_key(path[:-1])}.{near}"
                )

    def _inside(self, path: KeyPath) -> bool:
        """Tell whether a path leads below a parameter that is an ordinary mapping."""
        for length in range(3, len(path)):
            parent = path[:length]
            if self._exists(parent) and "params" in parent[1:-1]:
                value = find(self._values, parent)
                if isinstance(value, Mapping) and not is_description(value):
                    return bool(path[length - 1] != "params")
        return False

    def _unknown_key(self, override: Override, path: KeyPath) -> str:
        fitting = [item for item in self._known_paths() if _is_subsequence(path, item)]
        if fitting and len(path) > 1:
            listed = ", ".join(join_key(item) for item in sorted(fitting))
            return f"Override {override.key!r} ({override.origin}): write {listed}."
        known = [*FIELDS, *SECTIONS]
        return (
            f"{override.key!r} ({override.origin}) is neither a setting nor in a section."
            f"{suggest(str(path[0]), known)}"
        )

    def _known_paths(self) -> Iterator[KeyPath]:
        for path, description in self._descriptions():
            yield from ((*path, key) for key in DESCRIPTION_KEYS.get(path[0], ()))
            yield from self._parameter_paths(path, description)

    def _parameter_paths(self, path: KeyPath, description: Any) -> Iterator[KeyPath]:
        if not isinstance(description, Mapping):
            return
        params = description.get("params") or {}
        names = dict.fromkeys(params) if isinstance(params, Mapping) else {}
        try:
            signature = signature_of(self._index.find(str(description.get("class"))))
        except ComponentError:
            signature = None
        names.update(dict.fromkeys(_named_parameters(signature)))
        for name in names:
            yield (*path, "params", name)
            value = params.get(name) if isinstance(params, Mapping) else None
            if is_description(value):
                yield from self._parameter_paths((*path, "params", name), value)

    def _descriptions(self) -> Iterator[tuple[KeyPath, Any]]:
        if "model" in self._values:
            yield ("model",), self._values["model"]
        for section in ("data", "eval", "loggers"):
            for name, description in (self._values.get(section) or {}).items():
                yield (section, name), description

    # Settings

    def _fill_settings(self) -> None:
        """Put settings first in the values, each with its default where nothing was said."""
        given = self._values
        self._values = {
            **{key: given.get(key, _plain(field.default)) for key, field in FIELDS.items()},
            **{key: value for key, value in given.items() if key not in FIELDS},
        }

    def _module_folders(self) -> list[Path]:
        given, problem = run_settings.fit("modules", self._values["modules"])
        if problem is None and given:
            missing = [name for name in given if not Path(name).is_dir()]
            self._problems += [
                f"{self._where(('modules',))}: there is no folder {n}" for n in missing
            ]
            return [Path(name) for name in given if name not in missing]
        return _default_modules([self._values.get(key) for key in ("model_conf", "arch_impl")])

    def _check_settings(self) -> Settings | None:
        fitted: dict[str, Any] = {}
        for key in [key for key in self._values if key not in SECTIONS]:
            if key not in FIELDS:
                self._problems.append(
                    f"{self._where((key,))}: unknown key.{suggest(str(key), [*FIELDS, *SECTIONS])}"
                )
                continue
            value = self._expand(self._values[key], (key,))
            value = value.value if isinstance(value, Expanded) else value
            fitted[key], problem = run_settings.fit(key, value)
            self._expanded[key] = _plain(fitted[key])
            if problem:
                self._problems.append(f"{self._where((key,))}: {problem}")
        if self._problems:
            return None
        settings = run_settings.from_values(fitted)
        self._problems += list(_setting_problems(settings))
        return settings

    # Sections

    def _check_sections(
        self,
    ) -> tuple[Blueprint | None, dict[str, Blueprint], dict[str, Blueprint]]:
        model = None
        if self._values.get("model"):
            model = self._check_description(("model",), self._values["model"], "Trainer")
        else:
            self._problems.append(
                "There is no model: give --model_conf FILE (or a section 'model' with --config)."
            )
        if not self._values.get("data"):
            self._problems.append(
                "There is no data: give --data_conf FILE (or a section 'data' with --config)."
            )
        self._values.setdefault("eval", {})
        return model, self._check_family("data", None), self._check_family("eval", "Evaluation")

    def _check_family(self, section: str, base: str | None) -> dict[str, Blueprint]:
        checked = {}
        descriptions = self._values.get(section) or {}
        if not isinstance(descriptions, dict):
            self._problems.append(f"{self._where((section,))}: expected a mapping of descriptions.")
            return {}
        for name, description in descriptions.items():
            blueprint = self._check_description((section, name), description, base)
            if blueprint is not None:
                checked[str(name)] = blueprint
        return checked

    def _check_description(
        self, path: KeyPath, description: Any, base: str | None
    ) -> Blueprint | None:
        if not isinstance(description, dict):
            self._problems.append(
                f"{self._where(path)}: expected a description (class: ..., params: ...), "
                f"not {description!r}."
            )
            return None
        known = DESCRIPTION_KEYS.get(path[0] if len(path) < 3 else "", DESCRIPTION_KEYS["data"])
        for key in [key for key in description if key not in known]:
            hint = self._misplaced(str(key), path) or suggest(str(key), known)
            self._problems.append(f"{self._where((*path, key))}: unknown key.{hint}")
        if path[0] == "eval" and len(path) == 2:
            self._lift_evaluate_every(path, description)
        target = self._find_class(path, description, base)
        if target is None:
            return None
        params = self._check_params(path, description, target)
        return Blueprint(target, join_key(path), params)

    def _misplaced(self, key: str, path: KeyPath) -> str | None:
        """Explain a key that stands in the wrong place."""
        if key in FIELDS:
            return f" It is a setting of the run: write it at the top level, or --{key}."
        return f" Is it a parameter? Then it stands below {join_key((*path, 'params'))}."

    def _lift_evaluate_every(self, path: KeyPath, description: dict[str, Any]) -> None:
        """Accept ``evaluate_every`` among the params, as older files write it."""
        params = description.get("params")
        if not isinstance(params, dict) or "evaluate_every" not in params:
            return
        if "evaluate_every" in description:
            both = f"{join_key(path)}.evaluate_every and {join_key(path)}.params.evaluate_every"
            self._problems.append(f"{self._where(path)}: {both} are both given; keep one.")
        description["evaluate_every"] = params.pop("evaluate_every")
        inner, lifted = (*path, "params", "evaluate_every"), (*path, "evaluate_every")
        if inner in self._conf.origins:
            self._conf.origins[lifted] = self._conf.origins.pop(inner)

    def _find_class(
        self, path: KeyPath, description: dict[str, Any], base: str | None
    ) -> type | None:
        name = description.get("class")
        if not isinstance(name, str):
            given = f", not {name!r}" if "class" in description else ""
            self._problems.append(f"{self._where(path)}: 'class' must name a class{given}.")
            return None
        try:
            target = self._index.find(name)
        except ComponentError as error:
            self._problems.append(f"{self._where((*path, 'class'))}: {error}")
            return None
        if base is not None and base not in (parent.__name__ for parent in target.__mro__):
            self._problems.append(
                f"{self._where((*path, 'class'))}: {name} is not a {base}: "
                f"it must be a subclass of jade.{base}."
            )
            return None
        return target

    def _check_params(
        self, path: KeyPath, description: dict[str, Any], target: type
    ) -> dict[str, Any]:
        params = description.get("params")
        if params is None:
            params = {}
        if not isinstance(params, dict):
            self._problems.append(
                f"{self._where((*path, 'params'))}: expected a mapping, not {params!r}."
            )
            return {}
        signature = signature_of(target)
        strict = description.get("strict", True)
        if signature is not None:
            self._check_names(path, params, target, signature, strict=strict is not False)
            params = {**params, **_missing_defaults(params, signature)}
        description["params"] = params
        return self._fit_params(path, params, target, signature)

    def _check_names(
        self,
        path: KeyPath,
        params: dict[str, Any],
        target: type,
        signature: inspect.Signature,
        *,
        strict: bool,
    ) -> None:
        names = _named_parameters(signature)
        open_ended = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
        for key in [key for key in params if key not in names and not open_ended]:
            where = self._where((*path, "params", key))
            if not strict:
                del params[key]
                self._conf.warnings.append(
                    f"{where}: dropped, {entry_name(target)} has no {key!r}."
                )
                continue
            setting = self._misplaced(str(key), path) if key in FIELDS else None
            self._problems.append(
                f"{where}: {entry_name(target)} takes no {key!r}."
                f"{setting or suggest(str(key), names)}"
            )
        for name, parameter in names.items():
            if parameter.default is parameter.empty and name not in params:
                self._problems.append(
                    f"{self._where((*path, 'params'))}: {entry_name(target)}{signature} "
                    f"needs {name!r}."
                )

    def _fit_params(
        self,
        path: KeyPath,
        params: dict[str, Any],
        target: type,
        signature: inspect.Signature | None,
    ) -> dict[str, Any]:
        hints = hints_of(target) if signature else {}
        fitted: dict[str, Any] = {}
        for name, value in params.items():
            inner = (*path, "params", name)
            parameter = (_named_parameters(signature)).get(name)
            expected = expected_type(parameter, hints) if parameter else Any
            fitted[name] = self._fit_value(value, expected, inner)
        self._note_expanded(path, target, fitted)
        return fitted

    def _note_expanded(self, path: KeyPath, target: type, fitted: dict[str, Any]) -> None:
        if len(path) <= 2:
            plain = {name: _plain(value) for name, value in fitted.items()}
            description = find(self._values, path)
            assign(self._expanded, path, {**description, "params": plain})

    def _fit_value(self, value: Any, expected: Any, path: KeyPath) -> Any:
        if _holds_description(value):
            return self._fit_nested(value, path)
        expanded = self._expand(value, path)
        if expanded is None and value is not None:
            return None
        try:
            if not isinstance(expanded, Expanded):
                return conform(_unwrap(expanded), expected)
            try:
                return conform(expanded.value, expected)
            except Mismatch:
                return conform(expanded.text, expected)
        except Mismatch as mismatch:
            shown = expanded.text if isinstance(expanded, Expanded) else value
            self._problems.append(f"{self._where(path)}: expected {mismatch}, not {shown!r}.")
            return None

    def _fit_nested(self, value: Any, path: KeyPath) -> Any:
        """Check the descriptions within a value, and expand the rest of it."""
        if is_description(value):
            return self._check_description(path, value, None)
        if isinstance(value, dict):
            return {key: self._fit_value(item, Any, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._fit_value(item, Any, (*path, i)) for i, item in enumerate(value)]
        return value

    def _expand(self, value: Any, path: KeyPath) -> Any:
        """Expand variables; those that are missing are noted, and None is returned."""
        if isinstance(value, dict):
            return {key: self._expand(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._expand(item, (*path, i)) for i, item in enumerate(value)]
        if not has_variables(value):
            return value
        try:
            expanded, missing = expand_text(value, self._conf.environ)
        except ConfigError as error:
            self._problems.append(f"{self._where(path)}: {error}")
            return None
        for name in missing:
            self._missing.setdefault(name, []).append(self._where(path))
        return None if missing else expanded

    def _collect_evaluate_every(self) -> dict[str, Any]:
        collected = {}
        for name, description in (self._values.get("eval") or {}).items():
            if not isinstance(description, dict):
                continue
            every = description.setdefault("evaluate_every", 1)
            path = ("eval", name, "evaluate_every")
            every = _unwrap(self._expand(every, path))
            try:
                parse_amount(every, self._where(path))
            except ConfigError as error:
                self._problems.append(str(error))
            collected[str(name)] = every
        return collected

    def _check_metric_names(self) -> None:
        metric = self._values.get("best_metric")
        names = [str(name) for name in self._values.get("eval") or {}]
        if isinstance(metric, str) and metric.partition("/")[0] not in names:
            self._problems.append(
                f"{self._where(('best_metric',))}: no evaluation logs {metric!r}."
                f"{suggest(metric, names)}"
            )

    def _where(self, path: KeyPath) -> str:
        return self._conf.where(path)


def _canonical(path: KeyPath) -> KeyPath:
    """Spell the first part of a path as the configuration does."""
    first = str(path[0])
    underscored = first.replace("-", "_")
    first = underscored if underscored in FIELDS else first
    return (ALIASES.get(first, first), *path[1:])


def _named_parameters(signature: inspect.Signature | None) -> dict[str, inspect.Parameter]:
    if signature is None:
        return {}
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {name: p for name, p in signature.parameters.items() if p.kind not in variadic}


def _missing_defaults(params: Mapping[str, Any], signature: inspect.Signature) -> dict[str, Any]:
    """Return the defaults that are not given, as far as YAML can express them."""
    return {
        name: _plain(parameter.default)
        for name, parameter in _named_parameters(signature).items()
        if name not in params and _is_plain(parameter.default)
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(k, (str, int)) and _is_plain(v) for k, v in value.items())
    return value is None or type(value) in (bool, int, float, str)


def _plain(value: Any) -> Any:
    """Return a value as YAML can write it."""
    if isinstance(value, Blueprint):
        return {"class": value.target.__name__, "params": _plain(dict(value.params))}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value if _is_plain(value) else str(value)


def _unwrap(value: Any) -> Any:
    """Take the values out of what was expanded inside a list or mapping."""
    if isinstance(value, Expanded):
        return value.value
    if isinstance(value, dict):
        return {key: _unwrap(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unwrap(item) for item in value]
    return value


def _holds_description(value: Any) -> bool:
    if isinstance(value, dict):
        return is_description(value) or any(_holds_description(v) for v in value.values())
    return isinstance(value, list) and any(_holds_description(item) for item in value)


def _is_subsequence(short: KeyPath, full: KeyPath) -> bool:
    remaining = iter(full)
    return full[-1:] == short[-1:] and all(part in remaining for part in short)


def _fitting(short: KeyPath, known: Iterable[KeyPath]) -> list[KeyPath]:
    return [path for path in known if path[0] == short[0] and _is_subsequence(short, path)]


def _setting_problems(settings: Settings) -> Iterator[str]:
    if settings.epochs is None and settings.train_for is None:
        yield "How long? Give --epochs N or --train_for AMOUNT (such as '1000 iterations')."
    if settings.epochs is not None and settings.epochs < 0:
        yield f"epochs must not be negative, got {settings.epochs}."
    if settings.patience is not None and settings.best_metric is None:
        yield "patience needs best_metric: which metric should improve?"
    if settings.keep_last is not None and settings.keep_last < 1:
        yield f"keep_last must be at least 1, got {settings.keep_last}."
    for key in AMOUNTS:
        value = getattr(settings, key)
        try:
            if value is not None:
                parse_amount(value, key, zero=key == "train_for")
        except ConfigError as error:
            yield str(error)


def _default_modules(files: Iterable[Any]) -> list[Path]:
    """Find ``modules`` beside the working directory, else above the given files."""
    starts = [Path.cwd()]
    for name in files:
        starts += Path(name).resolve().parents if isinstance(name, str) else []
    for start in starts:
        if (start / "modules").is_dir():
            return [start / "modules"]
    return []
