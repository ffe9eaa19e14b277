"""Read when a sweep stops runs that are worse than others."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jade.errors import suggest
from jade.sweep.metric import Found

KEYS = ("type", "min_iter", "max_iter", "s", "eta", "strict")
WHOLE = ("min_iter", "max_iter", "s")


@dataclass(frozen=True)
class EarlyStop:
    """Hyperband: at each bracket, only the best part of the runs goes on.

    Attributes:
        min_iter: The first bracket; the others follow as its multiples by ``eta``.
        max_iter: The last bracket; ``s`` others come before it.
        s: How many brackets there are before ``max_iter``.
        eta: One run in so many goes on.
        strict: Whether runs are compared with those of the same bracket only.
    """

    min_iter: int | None = None
    max_iter: int | None = None
    s: int | None = None
    eta: float = 3.0
    strict: bool = False

    def brackets(self) -> list[int]:
        """Return the iterations at which runs are compared; W&B counts what was logged."""
        if self.min_iter is not None:
            return [int(self.min_iter * self.eta**power) for power in range(8)]
        if self.max_iter is None or self.s is None:
            return []
        found = (int(self.max_iter / self.eta**power) for power in range(1, self.s + 1))
        return sorted(bracket for bracket in found if bracket >= 1)


def read_early_stop(given: Any, found: Found) -> EarlyStop | None:
    """Read the key ``early_terminate``; what is wrong is added to what was found."""
    if not isinstance(given, Mapping):
        found.append((None, "early_terminate must be a mapping: {type: hyperband, min_iter: 3}."))
        return None
    found += _problems(given)
    if found:
        return None
    return EarlyStop(**{key: value for key, value in given.items() if key != "type"})


def _problems(given: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    for key in given:
        if key not in KEYS:
            yield key, f"unknown key {key!r} of early_terminate.{suggest(str(key), KEYS)}"
    kind = given.get("type")
    if kind != "hyperband":
        hint = suggest(str(kind), ["hyperband"])
        yield ("type" if "type" in given else None), f"early_terminate has no type {kind!r}.{hint}"
    if "min_iter" not in given and not ("max_iter" in given and "s" in given):
        yield None, "early_terminate needs min_iter, or max_iter and s."
    yield from _number_problems(given)


def _number_problems(given: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    for key in WHOLE:
        value = given.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            yield key, f"{key} must be a whole number above 0, not {value!r}."
    eta = given.get("eta", 3)
    if isinstance(eta, bool) or not isinstance(eta, (int, float)) or eta <= 1:
        yield "eta", f"eta must be a number above 1, not {eta!r}."
    if not isinstance(given.get("strict", False), bool):
        yield "strict", f"strict must be true or false, not {given['strict']!r}."
