"""Read the description of one swept value: which distribution it means, and what is wrong."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jade.errors import suggest
from jade.sweep.distributions import (
    Beta,
    Categorical,
    Constant,
    Distribution,
    IntUniform,
    LogNormal,
    LogUniform,
    Normal,
    Uniform,
    power_of_e,
)

NUMBERS = ("min", "max", "mu", "sigma", "q", "a", "b")
# Probabilities are written with few digits.
TOLERANCE = 1e-3
# The key that it is about (None for the whole), and what is wrong.
Problem = tuple[str | None, str]
NOTHING = "needs value, values, or min and max"


@dataclass(frozen=True)
class Kind:
    """What a distribution takes, with the defaults of W&B, and how it is made."""

    make: Callable[..., Distribution]
    needed: tuple[str, ...] = ()
    defaults: tuple[tuple[str, float], ...] = ()
    # Whether min and max are logarithms, or must have one.
    takes_exponents: bool = False
    takes_positive: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        return ("distribution", *self.needed, *(name for name, _ in self.defaults))


RANGE, STEP = ("min", "max"), ("q", 1)
GAUSS, SHAPE = (("mu", 0.0), ("sigma", 1.0)), (("a", 1.0), ("b", 1.0))


def _from_exponents(low: float, high: float, q: float | None = None) -> LogUniform:
    return LogUniform(power_of_e(low), power_of_e(high), q)


def _from_inverse(low: float, high: float) -> LogUniform:
    return LogUniform(power_of_e(-high), power_of_e(-low))


KINDS: Mapping[str, Kind] = {
    "constant": Kind(Constant, ("value",)),
    "categorical": Kind(lambda values: Categorical(tuple(values)), ("values",)),
    "categorical_w_probabilities": Kind(
        lambda values, odds: Categorical(tuple(values), tuple(odds)), ("values", "probabilities")
    ),
    "int_uniform": Kind(lambda low, high: IntUniform(int(low), int(high)), RANGE),
    "uniform": Kind(Uniform, RANGE),
    "q_uniform": Kind(Uniform, RANGE, (STEP,)),
    "log_uniform": Kind(_from_exponents, RANGE, takes_exponents=True),
    "log_uniform_values": Kind(LogUniform, RANGE, takes_positive=True),
    "q_log_uniform": Kind(_from_exponents, RANGE, (STEP,), takes_exponents=True),
    "q_log_uniform_values": Kind(LogUniform, RANGE, (STEP,), takes_positive=True),
    "inv_log_uniform": Kind(_from_inverse, RANGE, takes_exponents=True),
    "inv_log_uniform_values": Kind(LogUniform, RANGE, takes_positive=True),
    "normal": Kind(Normal, (), GAUSS),
    "q_normal": Kind(Normal, (), (*GAUSS, STEP)),
    "log_normal": Kind(LogNormal, (), GAUSS),
    "q_log_normal": Kind(LogNormal, (), (*GAUSS, STEP)),
    "beta": Kind(Beta, (), SHAPE),
    "q_beta": Kind(Beta, (), (*SHAPE, STEP)),
}
ALL_KEYS = tuple(dict.fromkeys(key for kind in KINDS.values() for key in kind.keys))


class Reading:
    """One description, read: its kind and distribution, or what is wrong with it.

    Attributes:
        kind: The name of the distribution, None if it is not clear.
        distribution: None if there is a problem.
        problems: What cannot stay, each with the key that it is about (None: the whole).
        notes: What is odd.
    """

    def __init__(self, spec: Any) -> None:
        self.kind: str | None = None
        self.distribution: Distribution | None = None
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        if not isinstance(spec, Mapping):
            self.problems.append((None, f"{NOTHING}, not {spec!r}."))
            return
        self._spec = spec
        self._check_names()
        kind = None if self.problems else self._find_kind()
        self.kind = kind
        if kind is not None and not self.problems:
            self._read(KINDS[kind])

    def _check_names(self) -> None:
        for key in self._spec:
            if key not in ALL_KEYS:
                hint = suggest(str(key), [*ALL_KEYS, "parameters"], limit=20)
                self.problems.append((key, f"unknown key {key!r}.{hint}"))

    def _find_kind(self) -> str | None:
        spec = self._spec
        if "distribution" not in spec:
            return self._guess_kind()
        name = spec["distribution"]
        if name == "categorical" and "probabilities" in spec:
            name = "categorical_w_probabilities"
        if name not in KINDS:
            hint = suggest(str(name), KINDS, limit=len(KINDS))
            self.problems.append(("distribution", f"unknown distribution {name!r}.{hint}"))
            return None
        return str(name)

    def _guess_kind(self) -> str | None:
        """Tell which distribution W&B takes where none is named."""
        spec = self._spec
        given = [key for key in ("value", "values", "min", "max") if key in spec]
        if given == ["value"]:
            return "constant"
        if given == ["values"]:
            return "categorical_w_probabilities" if "probabilities" in spec else "categorical"
        if given == ["min", "max"]:
            return self._guess_range(spec["min"], spec["max"])
        if given in (["min"], ["max"]):
            self.problems.append((None, "needs value, values, or both min and max."))
        elif given:
            self.problems.append((None, f"has {' and '.join(given)}; keep one of them."))
        else:
            named = [key for key in spec if key in NUMBERS]
            hint = " A distribution must be named, such as distribution: normal." if named else ""
            self.problems.append((None, f"{NOTHING}.{hint}"))
        return None

    def _guess_range(self, low: Any, high: Any) -> str:
        if "q" in self._spec:
            self.problems.append(("q", "q needs a distribution, such as q_uniform."))
        whole = [isinstance(end, int) for end in (low, high)]
        if all(_is_number(end) for end in (low, high)) and any(whole) and not all(whole):
            # W&B's client refuses this.
            self.problems.append(
                (
                    None,
                    f"min {low} and max {high} are a whole and a broken number: write both with a "
                    "point for uniform, both without for int_uniform, or name the distribution.",
                )
            )
        return "int_uniform" if all(whole) else "uniform"

    def _read(self, kind: Kind) -> None:
        self.problems += self._key_problems(kind)
        if not self.problems:
            self.problems += self._list_problems() if "values" in kind.needed else ()
            self.problems += self._number_problems(kind)
        if self.problems:
            return
        spec, defaults = self._spec, dict(kind.defaults)
        self.distribution = kind.make(
            *(spec[key] for key in kind.needed), **{k: spec.get(k, v) for k, v in defaults.items()}
        )
        self._note(kind)

    def _key_problems(self, kind: Kind) -> Iterator[Problem]:
        missing = [key for key in kind.needed if key not in self._spec]
        if missing:
            yield None, f"the distribution {self.kind} needs {' and '.join(missing)}."
        for key in self._spec:
            if key not in kind.keys:
                known = ", ".join(kind.keys[1:])
                yield key, f"the distribution {self.kind} takes no {key}, but {known}."

    def _list_problems(self) -> Iterator[Problem]:
        values = self._spec["values"]
        if not isinstance(values, list) or not values:
            yield "values", f"values must be a list, not {values!r}."
            return
        odds = self._spec.get("probabilities")
        if odds is None:
            return
        if not isinstance(odds, list) or not all(_is_number(item) and item >= 0 for item in odds):
            yield "probabilities", f"probabilities must be a list of numbers, not {odds!r}."
        elif len(odds) != len(values):
            yield "probabilities", f"{len(odds)} probabilities for {len(values)} values."
        elif abs(sum(odds) - 1) > TOLERANCE:
            yield "probabilities", f"the probabilities sum to {sum(odds):g}, not to 1."

    def _number_problems(self, kind: Kind) -> Iterator[Problem]:
        given = {key: self._spec[key] for key in kind.keys if key in NUMBERS and key in self._spec}
        wrong = {key: value for key, value in given.items() if not _is_number(value)}
        if wrong:
            words = "min and max must be numbers" if wrong.keys() <= set(RANGE) else "not a number"
            shown = ", ".join(f"{key}: {value!r}" for key, value in wrong.items())
            yield next(iter(wrong)), f"{words}, got {shown}."
            return
        for key in ("q", "a", "b"):
            if key in given and given[key] <= 0:
                yield key, f"{key} must be above 0, got {given[key]}."
        if given.get("sigma", 1) < 0:
            yield "sigma", f"sigma must not be negative, got {given['sigma']}."
        yield from self._range_problems(kind, given)

    def _range_problems(self, kind: Kind, given: Mapping[str, float]) -> Iterator[Problem]:
        if "min" not in given or "max" not in given:
            return
        low, high = given["min"], given["max"]
        if low > high:
            yield "min", f"min {low} is above its max {high}."
        if self.kind == "int_uniform" and not all(float(end).is_integer() for end in (low, high)):
            yield "min", f"int_uniform takes whole numbers, not {low} and {high}."
        if kind.takes_positive and low <= 0:
            other = str(self.kind).removesuffix("_values")
            hint = f" {other} takes exponents instead." if low < 0 else ""
            yield "min", f"{self.kind} takes values above 0, min is {low}.{hint}"
        if kind.takes_exponents and max(abs(low), abs(high)) > math.log(1e300):
            yield (
                "max",
                f"min and max of {self.kind} are exponents of e, and e^{high:g} is no number; "
                f"{self.kind}_values takes the values themselves.",
            )

    def _note(self, kind: Kind) -> None:
        spec = self._spec
        values = spec.get("values")
        if isinstance(values, list) and len(values) == 1:
            self.notes.append(f"has one value only; `value: {values[0]}` says the same.")
        if isinstance(values, list) and self.kind == "categorical":
            grid = Categorical(tuple(values)).grid() or []
            if len(grid) < len(values):
                self.notes.append(f"lists a value twice; there are {len(grid)} different ones.")
        if kind.takes_exponents and _looks_like_values(spec["min"], spec["max"]):
            sign = "-" if str(self.kind).startswith("inv") else ""
            ends = " and ".join(f"e^{sign}{spec[key]:g}" for key in RANGE)
            self.notes.append(
                f"min and max of {self.kind} are exponents, the values are between {ends}; "
                f"{self.kind}_values takes the values themselves."
            )


def _looks_like_values(low: float, high: float) -> bool:
    """Tell whether exponents were probably meant as what they are the exponents of."""
    return low > 0 or (low == 0 and high < 1)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
