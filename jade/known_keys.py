"""Find the value that a dotted key means, also by a short form of it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jade.class_index import ClassIndex
from jade.components import DESCRIPTION_KEYS, is_description
from jade.errors import ComponentError, ConfigError, closest, suggest
from jade.origin import KeyPath
from jade.overrides import Override, exists, find, join_key
from jade.settings import FIELDS, SECTIONS
from jade.signatures import named_parameters, signature_of, takes_anything

# Keys of descriptions that nobody means by another word.
UNSAID = ("params", "strict")
# The place in a list, as Python would write it.
ITEM = re.compile(r"\[(\d+)\]")


class KnownKeys:
    """The keys that a configuration has, or could have by the signatures of its classes."""

    def __init__(self, values: Mapping[str, Any], index: ClassIndex | None) -> None:
        self._values = values
        self._index = index
        # Where any key is accepted: classes that take **params, parameters that are mappings.
        self._open: set[KeyPath] = set()
        self._paths = list(dict.fromkeys(self._collect()))

    def locate(self, override: Override) -> KeyPath:
        """Return the path of the one value that an override means, or raise a ConfigError."""
        path = override.path
        if path[0] not in SECTIONS:
            raise ConfigError(self._not_in_a_section(override, path))
        if exists(self._values, path) or path in self._paths or self._is_open(path):
            return path
        fitting = [p for p in self._paths if p[0] == path[0] and _is_short_form(path, p)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise ConfigError(
                f"{_named(override)} fits more than one parameter: {_listed(fitting)}. "
                "Write which one."
            )
        raise ConfigError(self._unknown(override, path))

    def _is_open(self, path: KeyPath) -> bool:
        for length in range(2, len(path)):
            parent = path[:length]
            if parent in self._open:
                return True
            value = find(self._values, parent) if exists(self._values, parent) else None
            is_parameter = "params" in parent[1:-1]
            if is_parameter and isinstance(value, Mapping) and not is_description(value):
                return True
        return False

    def _unknown(self, override: Override, path: KeyPath) -> str:
        parent, last = path[:-1], str(path[-1])
        nameable = [p for p in self._paths if p[0] == path[0] and p[-1] not in UNSAID]
        known = [p for p in nameable if p[: len(parent)] == parent] or nameable
        like = closest(last, [str(p[-1]) for p in known])
        meant = closest(join_key(path), [join_key(p) for p in known if p[-1] == like])
        hint = f" Did you mean {meant!r}?" if meant else ""
        if last in FIELDS and meant is None:
            hint = f" It is a setting of the run: --{last}."
        if ITEM.search(last):
            hint = " An item of a list is written " + ITEM.sub(r".\1", last) + "."
        listed = suggest("", [join_key(p) for p in known])
        return f"{_named(override)}: no {last!r} in {join_key(parent)}.{hint}{listed}"

    def _not_in_a_section(self, override: Override, path: KeyPath) -> str:
        fitting = [p for p in self._paths if _is_short_form(path, p)]
        first = str(path[0])
        is_flag = str(override.origin).startswith(f"argument --{override.key}")
        if fitting:
            choice = "" if len(fitting) == 1 else "one of "
            listed = _listed(fitting, "--" if is_flag else "")
            return f"{_named(override)} stands in no section: write {choice}{listed}."
        if len(path) > 1:
            return f"{_named(override)}: there is no section {first!r}.{suggest(first, SECTIONS)}"
        if is_flag:
            meant = closest(first.replace("-", "_"), FIELDS)
            hint = f" Did you mean --{meant}?" if meant else ""
            return (
                f"There is no flag --{first}.{hint} `jade train --help` lists them; "
                "any other value is set by its dotted key, such as --model.params.lr=0.1."
            )
        return f"{_named(override)} is no setting.{suggest(first, [*FIELDS, *SECTIONS])}"

    def _collect(self) -> Iterator[KeyPath]:
        for path, description in self._descriptions():
            yield from ((*path, key) for key in DESCRIPTION_KEYS[path[0]])
            yield from self._parameters(path, description)

    def _descriptions(self) -> Iterator[tuple[KeyPath, Any]]:
        if "model" in self._values:
            yield ("model",), self._values["model"]
        for section in SECTIONS[1:]:
            family = self._values.get(section)
            for name, description in family.items() if isinstance(family, dict) else ():
                yield (section, name), description

    def _parameters(self, path: KeyPath, description: Any) -> Iterator[KeyPath]:
        given = description.get("params") if isinstance(description, Mapping) else None
        params = given if isinstance(given, Mapping) else {}
        names: dict[Any, None] = dict.fromkeys(params)
        inner = (*path, "params")
        if isinstance(description, Mapping) and isinstance(description.get("class"), str):
            names.update(self._by_signature(inner, description["class"], params))
        for name in names:
            yield (*inner, name)
            yield from self._nested((*inner, name), params.get(name))

    def _nested(self, path: KeyPath, value: Any) -> Iterator[KeyPath]:
        if is_description(value):
            yield from self._parameters(path, value)
        elif isinstance(value, (list, dict)):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                yield from self._nested((*path, key), item)

    def _by_signature(
        self, path: KeyPath, class_name: str, params: Mapping[str, Any]
    ) -> dict[Any, None]:
        if self._index is None:
            return {}
        try:
            signature = signature_of(self._index.find(class_name))
        except ComponentError:
            # The class is looked up again later, and then reported.
            return {}
        if takes_anything(signature):
            self._open.add(path)
        parameters = named_parameters(signature)
        for name, parameter in parameters.items():
            default = parameter.default
            if name not in params and (default is None or _is_empty_dict(default)):
                self._open.add((*path, name))
        return dict.fromkeys(parameters)


def _is_empty_dict(value: Any) -> bool:
    return isinstance(value, dict) and not value


def _is_short_form(short: KeyPath, full: KeyPath) -> bool:
    """Tell whether a path ends as another and leaves out only parts of it."""
    remaining = iter(full)
    return full[-1:] == short[-1:] and all(part in remaining for part in short)


def _named(override: Override) -> str:
    origin = str(override.origin)
    if origin.endswith(override.key):
        return f"{origin[:1].upper()}{origin[1:]}"
    return f"Override {override.key!r} ({origin})"


def _listed(paths: list[KeyPath], dashes: str = "") -> str:
    return ", ".join(dashes + key for key in sorted(join_key(path) for path in paths))
