"""Read the parameters of a sweep, dotted or nested, each with the place where it was written."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jade.errors import suggest
from jade.origin import KeyPath, Origin
from jade.sweep.distributions import Distribution
from jade.sweep.kinds import Reading

PARAMETERS = "parameters"
# What W&B accepts as a name.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Parameter:
    """One swept key, and the values that it can take.

    Attributes:
        key: Dotted, also if it was written nested.
        kind: W&B's name of the distribution.
        distribution: What values are drawn from.
        origin: Where it was written.
    """

    key: str
    kind: str
    distribution: Distribution
    origin: Origin


class ParameterReader:
    """Collects the parameters of a file, and what is wrong or odd in them."""

    def __init__(self, origins: Mapping[KeyPath, Origin]) -> None:
        self._origins = origins
        self.parameters: list[Parameter] = []
        self.problems: list[str] = []
        self.notes: list[str] = []

    def read(self, parameters: Any) -> None:
        """Read the section; W&B goes through it in sorted order, and so do we."""
        self._read_level(parameters, (PARAMETERS,), ())
        for problem in _collisions(self.parameters):
            self.problems.append(problem)

    def _read_level(self, parameters: Any, path: KeyPath, names: tuple[str, ...]) -> None:
        origin = self._origin(path)
        if not isinstance(parameters, Mapping):
            self.problems.append(f"{origin}: parameters must be a mapping, not {parameters!r}.")
            return
        if not parameters:
            self.problems.append(f"{origin}: the sweep has no parameters.")
        for key in sorted(parameters, key=str):
            spec = parameters[key]
            inner, place = (*path, key), (*names, str(key))
            if not NAME.fullmatch(str(key)):
                self.notes.append(
                    f"{self._origin(inner)}: W&B may refuse the name {key!r}: it takes letters, "
                    "digits, '_', '.' and '-'."
                )
            if isinstance(spec, Mapping) and PARAMETERS in spec:
                self._read_nested(spec, inner, place)
            else:
                self._read_one(spec, inner, ".".join(place))

    def _read_nested(self, spec: Mapping[Any, Any], path: KeyPath, names: tuple[str, ...]) -> None:
        for key in spec:
            if key != PARAMETERS:
                hint = suggest(str(key), [PARAMETERS])
                self.problems.append(
                    f"{self._origin((*path, key))}: {'.'.join(names)} has nested parameters and "
                    f"{key!r}; keep one of them.{hint if 'Did you mean' in hint else ''}"
                )
        self._read_level(spec[PARAMETERS], (*path, PARAMETERS), names)

    def _read_one(self, spec: Any, path: KeyPath, name: str) -> None:
        reading = Reading(spec)
        for key, text in reading.problems:
            where = self._origin(path if key is None else (*path, key))
            self.problems.append(f"{where}: {name}: {text}")
        for text in reading.notes:
            self.notes.append(f"{self._origin(path)}: {name}: {text}")
        if reading.distribution is not None and reading.kind is not None:
            self.parameters.append(
                Parameter(name, reading.kind, reading.distribution, self._origin(path))
            )

    def _origin(self, path: KeyPath) -> Origin:
        for length in range(len(path), 0, -1):
            if path[:length] in self._origins:
                return self._origins[path[:length]]
        return Origin("sweep")


def _collisions(parameters: list[Parameter]) -> Iterator[str]:
    """Find keys that are swept twice, as a nested and as a dotted one."""
    seen: dict[str, Parameter] = {}
    for parameter in parameters:
        other = seen.setdefault(parameter.key, parameter)
        if other is not parameter:
            yield f"{parameter.origin}: {parameter.key} is swept already ({other.origin})."
