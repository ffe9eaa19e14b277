"""Read a W&B sweep file as far as checking its points needs."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade.errors import ConfigError, closest
from jade.origin import KeyPath, Origin
from jade.overrides import Override
from jade.yaml_file import load_mapping

PROGRAM = "${program}"
EXPONENTS = ("log_uniform", "q_log_uniform", "inv_log_uniform", "log_normal", "q_log_normal")


@dataclass(frozen=True)
class Parameter:
    """One swept key, and values that it can take: all of a list, or the ends of a range."""

    key: str
    values: list[Any]
    origin: Origin


@dataclass(frozen=True)
class SweepFile:
    """The command and the parameters of a sweep."""

    path: Path
    command: list[str]
    parameters: list[Parameter]
    metric: str | None
    notes: list[str]

    def points(self) -> Iterator[list[Override]]:
        """Yield a point for each value of each parameter; the others stay at their first value."""
        first = {parameter.key: parameter.values[0] for parameter in self.parameters}
        yield self._point(first)
        for parameter in self.parameters:
            for value in parameter.values[1:]:
                yield self._point({**first, parameter.key: value})

    def _point(self, values: Mapping[str, Any]) -> list[Override]:
        return [Override(p.key, values[p.key], p.origin) for p in self.parameters]

    def metric_problem(self, evaluations: Iterable[str]) -> str | None:
        """Say so if the metric looks like a misspelt name of an evaluation."""
        names = list(evaluations)
        if self.metric is None or self.metric.partition("/")[0] in names:
            return None
        meant = closest(self.metric, names)
        hint = f" Did you mean {meant!r}?" if meant else " Is it a loss item?"
        return f"{self.path}: no evaluation logs the metric {self.metric!r}.{hint}"


def is_sweep(values: Mapping[str, Any]) -> bool:
    """Tell whether the content of a file is a sweep."""
    return "parameters" in values and ("method" in values or "program" in values)


def load_sweep(path: Path) -> SweepFile | None:
    """Load a sweep file; None if the file is something else."""
    document = load_mapping(path)
    values = document.values
    if not is_sweep(values):
        return None
    notes: list[str] = []
    parameters = list(_read_parameters(values["parameters"], (), document.origins, notes))
    if not parameters:
        raise ConfigError(f"{path}: the sweep has no parameters.")
    command = [str(item) for item in values.get("command") or ()]
    if PROGRAM in command:
        command = command[command.index(PROGRAM) + 1 :]
    metric = values.get("metric")
    name = metric.get("name") if isinstance(metric, Mapping) else None
    # What the agent puts in itself (${args} and the like) comes from the parameters here.
    flags = [item for item in command if not item.startswith("${")]
    return SweepFile(path, flags, parameters, name, notes)


def _read_parameters(
    parameters: Any, path: KeyPath, origins: Mapping[KeyPath, Origin], notes: list[str]
) -> Iterator[Parameter]:
    origin = origins.get(("parameters", *path), Origin("sweep"))
    if not isinstance(parameters, Mapping):
        raise ConfigError(f"{origin}: parameters must be a mapping, not {parameters!r}.")
    for key, spec in parameters.items():
        inner = (*path, key)
        place = origins.get(("parameters", *inner), origin)
        if isinstance(spec, Mapping) and "parameters" in spec:
            yield from _read_parameters(spec["parameters"], (*inner, "parameters"), origins, notes)
            continue
        name = ".".join(str(part) for part in inner if part != "parameters")
        yield Parameter(name, _read_values(name, spec, place, notes), place)


def _read_values(name: str, spec: Any, place: Origin, notes: list[str]) -> list[Any]:
    if not isinstance(spec, Mapping):
        raise ConfigError(f"{place}: {name} needs value, values, or min and max, not {spec!r}.")
    if "value" in spec:
        return [spec["value"]]
    if "values" in spec:
        values = spec["values"]
        if not isinstance(values, list) or not values:
            raise ConfigError(f"{place}: values of {name} must be a list, not {values!r}.")
        if len(values) == 1:
            notes.append(f"{place}: {name} has one value only; `value: {values[0]}` says the same.")
        return values
    return _read_range(name, spec, place, notes)


def _read_range(name: str, spec: Mapping[str, Any], place: Origin, notes: list[str]) -> list[Any]:
    """Return the ends of a range, as the run would get them."""
    given = [key for key in ("min", "max") if key in spec]
    if len(given) == 1 or not (given or "mu" in spec or "distribution" in spec):
        raise ConfigError(f"{place}: {name} needs value, values, or both min and max.")
    ends = [spec[key] for key in given] or [spec.get("mu", 0.0)]
    if not all(isinstance(end, (int, float)) for end in ends):
        raise ConfigError(f"{place}: min and max of {name} must be numbers, not {ends}.")
    if ends[0] > ends[-1]:
        raise ConfigError(f"{place}: min of {name} is above its max.")
    distribution = str(spec.get("distribution", ""))
    if distribution not in EXPONENTS:
        return ends
    if distribution.endswith("uniform") and ends[0] > 0:
        notes.append(
            f"{place}: min and max of {distribution} are exponents, {name} is between "
            f"e^{ends[0]:g} and e^{ends[-1]:g}; log_uniform_values takes the values themselves."
        )
    return [math.exp(min(end, 700.0)) for end in ends]
