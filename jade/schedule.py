"""Parse amounts such as ``2 epochs`` or ``10 minutes``, and say when something is due."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jade.errors import ConfigError

AMOUNT = re.compile(
    r"(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>(?:[^\W\d]\w*)?)"
)

EPOCHS, ITERATIONS, SECONDS = "epochs", "iterations", "seconds"
UNITS = {
    **dict.fromkeys(["epoch", "epochs", "ep"], (EPOCHS, 1.0)),
    **dict.fromkeys(["iteration", "iterations", "it", "its", "step", "steps"], (ITERATIONS, 1.0)),
    **dict.fromkeys(["second", "seconds", "sec", "secs", "s"], (SECONDS, 1.0)),
    **dict.fromkeys(["minute", "minutes", "min", "mins"], (SECONDS, 60.0)),
    **dict.fromkeys(["hour", "hours", "h"], (SECONDS, 3600.0)),
    **dict.fromkeys(["day", "days", "d"], (SECONDS, 86400.0)),
}


@dataclass(frozen=True)
class Amount:
    """A number of epochs, iterations, seconds, or of a counter that the trainer keeps."""

    number: float
    unit: str

    def __str__(self) -> str:
        is_one = self.number == 1 and self.unit in (EPOCHS, ITERATIONS, SECONDS)
        return f"{self.number:.15g} {self.unit[:-1] if is_one else self.unit}"


def parse_amount(value: Any, key: str, *, zero: bool = False) -> Amount:
    """Parse a number (of epochs) or a text with a unit; ``key`` names it in messages."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ConfigError(_message(key, value))
    match = AMOUNT.fullmatch(str(value).strip())
    if match is None:
        raise ConfigError(_message(key, value))
    unit, factor = UNITS.get(match["unit"].lower() or EPOCHS, (match["unit"], 1.0))
    number = float(match["number"]) * factor
    if not math.isfinite(number) or (number <= 0 and not zero):
        limit = "greater than zero" if number <= 0 else "finite"
        raise ConfigError(f"{key} must be {limit}, not {value!r}.")
    return Amount(number, unit)


def parse_seconds(text: str, key: str) -> float:
    """Parse a time with its unit, in seconds; ``key`` names it in messages."""
    amount = parse_amount(text, key)
    if amount.unit != SECONDS:
        raise ConfigError(f"{key}: {text!r} is no time. Write '55 minutes', '2 hours' or '30 s'.")
    return amount.number


def _message(key: str, value: Any) -> str:
    return (
        f"{key}: {value!r} is not an amount. Write a number of epochs (2), or a text with a unit: "
        "'500 iterations', '0.5 epochs', '10 minutes', '1 hour', or a counter of the trainer."
    )


@dataclass
class Clock:
    """How far training has come; every amount is compared with it."""

    iterations: int = 0
    epochs: int = 0
    seconds: float = 0.0
    counter: Callable[[str], float] | None = None

    def read(self, unit: str) -> float:
        """Return how many of ``unit`` have passed."""
        if unit == ITERATIONS:
            return self.iterations
        if unit == EPOCHS:
            return self.epochs
        if unit == SECONDS:
            return self.seconds
        if self.counter is None:
            raise ConfigError(f"Nothing counts {unit!r} here.")
        return self.counter(unit)


def in_iterations(amount: Amount, iterations_per_epoch: int | None, key: str) -> Amount:
    """Turn a fraction of epochs into iterations; whole epochs and other units stay as they are."""
    if amount.unit != EPOCHS or amount.number == int(amount.number):
        return amount
    if iterations_per_epoch is None:
        raise ConfigError(
            f"{key}: {amount} needs a train_loader with a length; give iterations instead."
        )
    # A product that rounding left just above a whole number counts as that number.
    iterations = math.ceil(amount.number * iterations_per_epoch - 1e-9)
    return Amount(float(max(1, iterations)), ITERATIONS)


@dataclass
class Schedule:
    """Something that is due each time ``every`` has passed."""

    every: Amount
    next_at: float = 0.0

    def __post_init__(self) -> None:
        self.next_at = self.next_at or self.every.number

    def is_due(self, clock: Clock) -> bool:
        """Tell whether the time has come."""
        return clock.read(self.every.unit) >= self.next_at

    def advance(self, clock: Clock) -> None:
        """Set the next time: the first multiple of ``every`` that is still to come."""
        passed = clock.read(self.every.unit)
        # A quotient that rounding left just below a whole number counts as that number.
        self.next_at = self.every.number * (math.floor(passed / self.every.number + 1e-9) + 1)

    def state_dict(self) -> dict[str, Any]:
        """Return how often and when next."""
        return {"every": str(self.every), "next_at": self.next_at}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Be due when ``state_dict`` said, unless it is how often that has changed."""
        if state["every"] == str(self.every):
            self.next_at = state["next_at"]
