"""The points of a sweep: every one of a grid, or drawn from W&B's distributions."""

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

DRAWS = {
    "uniform": lambda rng, p: rng.uniform(p["min"], p["max"]),
    "int_uniform": lambda rng, p: rng.randint(p["min"], p["max"]),
    "log_uniform": lambda rng, p: math.exp(rng.uniform(p["min"], p["max"])),
    "log_uniform_values": lambda rng, p: math.exp(
        rng.uniform(math.log(p["min"]), math.log(p["max"]))
    ),
    "inv_log_uniform": lambda rng, p: math.exp(-rng.uniform(p["min"], p["max"])),
    "inv_log_uniform_values": lambda rng, p: (
        1 / math.exp(rng.uniform(math.log(1 / p["max"]), math.log(1 / p["min"])))
    ),
    "normal": lambda rng, p: rng.gauss(p.get("mu", 0), p.get("sigma", 1)),
    "log_normal": lambda rng, p: math.exp(rng.gauss(p.get("mu", 0), p.get("sigma", 1))),
    "beta": lambda rng, p: rng.betavariate(p.get("a", 1), p.get("b", 1)),
    "constant": lambda rng, p: p["value"],
    "categorical": lambda rng, p: rng.choice(p["values"]),
    "categorical_w_probabilities": lambda rng, p: rng.choices(p["values"], p["probabilities"])[0],
}
SIZES = {"grid", "random", "bayes"}


class SweepConfigError(ValueError):
    """The configuration of a sweep is not one."""


def distribution(parameter: dict[str, Any]) -> str:
    """Name the distribution of a parameter, as W&B infers it."""
    if "distribution" in parameter:
        named: str = parameter["distribution"]
        return named
    if "value" in parameter:
        return "constant"
    if "values" in parameter:
        return "categorical_w_probabilities" if "probabilities" in parameter else "categorical"
    if "min" in parameter and "max" in parameter:
        bounds = (parameter["min"], parameter["max"])
        return "int_uniform" if all(isinstance(bound, int) for bound in bounds) else "uniform"
    if "mu" in parameter or "sigma" in parameter:
        return "normal"
    raise SweepConfigError(f"no distribution fits {parameter}")


def check(config: Any) -> None:
    """Raise SweepConfigError for a configuration that W&B would refuse."""
    if not isinstance(config, dict) or config.get("method") not in SIZES:
        raise SweepConfigError("method must be one of grid, random, bayes")
    if not isinstance(config.get("parameters"), dict) or not config["parameters"]:
        raise SweepConfigError("parameters must be a mapping that is not empty")
    if config["method"] == "bayes" and "name" not in (config.get("metric") or {}):
        raise SweepConfigError("bayes needs a metric")
    for name, parameter in leaves(config["parameters"]):
        if not isinstance(parameter, dict):
            raise SweepConfigError(f"parameter {'.'.join(name)} must be a mapping")
        kind = distribution(parameter).removeprefix("q_")
        if kind not in DRAWS:
            raise SweepConfigError(f"parameter {'.'.join(name)}: unknown distribution {kind}")
        if config["method"] == "grid":
            choices(parameter)


def leaves(parameters: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each parameter with the names on the way to it, in sorted order."""
    for name in sorted(parameters):
        parameter = parameters[name]
        if isinstance(parameter, dict) and isinstance(parameter.get("parameters"), dict):
            for rest, leaf in leaves(parameter["parameters"]):
                yield (name, *rest), leaf
        else:
            yield (name,), parameter


def nest(values: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    """Put nested values back under their outermost name; names with dots stay as they are."""
    point: dict[str, Any] = {}
    for path, value in values.items():
        inner = point
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return point


def choices(parameter: dict[str, Any]) -> list[Any]:
    """List what a parameter of a grid can be."""
    kind = distribution(parameter)
    if kind == "constant":
        return [parameter["value"]]
    if kind == "categorical":
        return list(parameter["values"])
    if kind == "int_uniform":
        return list(range(parameter["min"], parameter["max"] + 1))
    if kind == "q_uniform":
        q = parameter.get("q", 1)
        count = math.floor((parameter["max"] - parameter["min"]) / q + 1e-9)
        return [parameter["min"] + i * q for i in range(count + 1)]
    raise SweepConfigError(f"a grid cannot have a parameter of the kind {kind}")


def grid(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every point; the last parameter changes fastest."""
    found = dict(leaves(parameters))
    for values in itertools.product(*(choices(parameter) for parameter in found.values())):
        yield nest(dict(zip(found, values, strict=True)))


def draws(parameters: dict[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """Yield random points without end, always the same ones for a seed."""
    rng = random.Random(seed)
    found = dict(leaves(parameters))
    while True:
        yield nest({path: draw(rng, parameter) for path, parameter in found.items()})


def draw(rng: random.Random, parameter: dict[str, Any]) -> Any:
    """Draw one value."""
    kind = distribution(parameter)
    if not kind.startswith("q_"):
        return DRAWS[kind](rng, parameter)
    q = parameter.get("q", 1)
    return round(DRAWS[kind.removeprefix("q_")](rng, parameter) / q) * q


def points(config: dict[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """Yield the points of a sweep in the order in which they are handed out."""
    if config["method"] == "grid":
        return grid(config["parameters"])
    return draws(config["parameters"], seed)
