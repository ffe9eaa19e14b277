"""Check descriptions (class and params) against the signatures of their classes."""

import inspect
from typing import Any

from jade.class_index import ClassIndex, Kin
from jade.components import DESCRIPTION_KEYS, NESTED, Blueprint, is_description
from jade.config import Configuration
from jade.conform import expected_type
from jade.errors import ComponentError, closest, suggest
from jade.fitter import Fitter
from jade.origin import KeyPath
from jade.overrides import join_key
from jade.problems import Problems
from jade.settings import FIELDS
from jade.signatures import (
    entry_name,
    hints_of,
    lacks_self,
    missing_defaults,
    named_parameters,
    signature_of,
    takes_anything,
)

# The base class that a class must have in each section.
BASES = {"model": "Trainer", "eval": "Evaluation", "loggers": "Logger"}
# A network is no dataset either.
NO_DATA = (*BASES.values(), "Module")


class DescriptionChecker:
    """Turns descriptions into blueprints, and fills the defaults of their parameters in."""

    def __init__(
        self,
        configuration: Configuration,
        index: ClassIndex | None,
        problems: Problems,
        fitter: Fitter,
    ) -> None:
        self._configuration = configuration
        self._index = index
        self._problems = problems
        self._fitter = fitter

    def check(self, path: KeyPath, description: Any) -> Blueprint | None:
        """Return what can be built from a description; None when there is a problem with it."""
        if not isinstance(description, dict):
            self._problems.add_at(
                path, f"expected a description (class: ..., params: ...), not {description!r}."
            )
            return None
        target = self._find_class(path, description)
        self._check_keys(path, description, target)
        if target is None:
            # What it is does not matter to its variables.
            self._fitter.expand(description.get("params"), (*path, "params"))
            return None
        params = self._check_params(path, description, target)
        return Blueprint(target, join_key(path), params)

    def _check_keys(self, path: KeyPath, description: dict[str, Any], target: type | None) -> None:
        known = NESTED if _is_nested(path) else DESCRIPTION_KEYS[path[0]]
        names = named_parameters(signature_of(target)) if target else {}
        for key in [key for key in description if key not in known]:
            hint = suggest(str(key), known)
            if key in names:
                hint = f" It is a parameter: put it below {join_key((*path, 'params'))}."
            elif key in FIELDS and not closest(str(key), known):
                hint = _setting_hint(key)
            self._problems.add_at((*path, key), f"unknown key.{hint}")
        strict = description.get("strict", True)
        if not isinstance(strict, bool):
            self._problems.add_at((*path, "strict"), f"expected true or false, not {strict!r}.")

    def _find_class(self, path: KeyPath, description: dict[str, Any]) -> type | None:
        name = self._fitter.expand(description.get("class"), (*path, "class"))
        if not isinstance(name, str):
            if name is None and description.get("class") is not None:
                return None
            given = f", not {name!r}" if "class" in description else ""
            self._problems.add_at(path, f"'class' must name a class{given}.")
            return None
        if self._index is None:
            return None
        try:
            target = self._index.find(name, _kin_of(path))
        except ComponentError as error:
            self._problems.add_at((*path, "class"), str(error))
            return None
        problem = _base_problem(path, target)
        if problem:
            self._problems.add_at((*path, "class"), problem)
            return None
        return target

    def _check_params(
        self, path: KeyPath, description: dict[str, Any], target: type
    ) -> dict[str, Any]:
        params = description.get("params")
        if params is None:
            params = {}
        if not isinstance(params, dict):
            glued = isinstance(params, str) and ":" in params
            hint = " A blank must follow the colon." if glued else ""
            self._problems.add_at(
                (*path, "params"), f"expected a mapping (name: value), not {params!r}.{hint}"
            )
            return {}
        signature = signature_of(target)
        if signature is not None:
            self._check_names(path, params, target, strict=description.get("strict") is not False)
            self._check_complete(path, params, target, signature)
            params = {**params, **missing_defaults(params, signature)}
        description["params"] = params
        hints = hints_of(target)
        names = named_parameters(signature)
        return {
            name: self._fit(
                value,
                expected_type(names[name], hints) if name in names else Any,
                (*path, "params", name),
            )
            for name, value in params.items()
        }

    def _check_names(
        self, path: KeyPath, params: dict[str, Any], target: type, *, strict: bool
    ) -> None:
        signature = signature_of(target)
        names = named_parameters(signature)
        if takes_anything(signature):
            return
        for key in [key for key in params if key not in names]:
            inner = (*path, "params", key)
            if not strict:
                del params[key]
                self._configuration.warnings.append(
                    f"{self._configuration.where(inner)}: dropped, "
                    f"{entry_name(target)} has no {key!r}."
                )
                continue
            meant = closest(str(key), names)
            hint = f" Did you mean {meant!r}?" if meant else ""
            if key in FIELDS and meant is None:
                hint = _setting_hint(key)
            if lacks_self(target, key):
                hint = " The first parameter of a method must be self."
            self._problems.add_at(inner, f"{entry_name(target)}{signature} takes no {key!r}.{hint}")

    def _check_complete(
        self, path: KeyPath, params: dict[str, Any], target: type, signature: inspect.Signature
    ) -> None:
        names = named_parameters(signature)
        missing = [n for n, p in names.items() if p.default is p.empty and n not in params]
        if missing:
            listed = ", ".join(repr(name) for name in missing)
            self._problems.add_at(
                (*path, "params"), f"{entry_name(target)}{signature} needs {listed}."
            )

    def _fit(self, value: Any, expected: Any, path: KeyPath) -> Any:
        if not self._holds_description(value):
            return self._fitter.fit(value, expected, path)
        if self._is_meant_as_description(value):
            return self.check(path, value)
        if isinstance(value, dict):
            return {key: self._fit(item, Any, (*path, key)) for key, item in value.items()}
        return [self._fit(item, Any, (*path, i)) for i, item in enumerate(value)]

    def _holds_description(self, value: Any) -> bool:
        if isinstance(value, dict):
            return self._is_meant_as_description(value) or any(
                self._holds_description(item) for item in value.values()
            )
        return isinstance(value, list) and any(self._holds_description(item) for item in value)

    def _is_meant_as_description(self, value: Any) -> bool:
        """Tell whether a mapping names a class, even if its other keys are not those of one."""
        if not isinstance(value, dict) or not isinstance(value.get("class"), str):
            return False
        if is_description(value) or any(closest(str(key), NESTED[1:]) for key in value):
            return True
        try:
            return self._index is not None and bool(self._index.find(value["class"]))
        except ComponentError:
            return False


def _is_nested(path: KeyPath) -> bool:
    return len(path) > (1 if path[0] == "model" else 2)


def _kin_of(path: KeyPath) -> Kin:
    """Tell by the names of its base classes whether a class may stand at a path."""
    base = BASES.get(path[0])
    if _is_nested(path) or (base is None and path[0] != "data"):
        return lambda _: True
    if base is not None:
        return lambda ancestors: any(name.endswith(base) for name in ancestors)
    return lambda ancestors: not any(name.endswith(NO_DATA) for name in ancestors)


def _base_problem(path: KeyPath, target: type) -> str | None:
    """Say why a class cannot stand in its section."""
    if _is_nested(path):
        return None
    parents = [parent.__name__ for parent in target.__mro__]
    base = BASES.get(path[0])
    if base is not None and base not in parents:
        article = "an" if base[0] in "AEIOU" else "a"
        return f"{target.__name__} is not {article} {base}: it must be a subclass of jade.{base}."
    if path[0] == "data":
        for section in ("model", "eval"):
            if BASES[section] in parents and hasattr(target, "is_set_up_by_initialize"):
                base = f"a subclass of jade.{BASES[section]}"
                return f"{target.__name__} is {base}, which belongs into {section}."
    return None


def _setting_hint(key: str) -> str:
    return f" It is a setting of the run: give it with --{key}, or at the top of a --config file."
