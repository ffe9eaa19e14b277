"""The options of a test, each of which can stand in a file or be varied by ``multi_tests``."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jade.errors import ConfigError
from jade.origin import Origin
from jade.run_dir import TAG

DRAWN = -1


@dataclass(frozen=True, kw_only=True)
class RunTestOptions:
    """What a test does, besides the evaluations that it takes.

    Attributes:
        checkpoint: ``best``, ``last``, an iteration or a file; None means best, else last.
        repeat: How often it is repeated, each time with another seed.
        seed: Of the first repetition; None derives one from that of the run, -1 draws one.
        max_test_episodes: How many batches each evaluation sees at most; None means all.
        tag: The end of the name of its directory.
    """

    checkpoint: str | None = None
    repeat: int = 1
    seed: int | None = None
    max_test_episodes: int | None = None
    tag: str | None = None


OPTIONS = tuple(field.name for field in dataclasses.fields(RunTestOptions))
# The least value of each option that is a number.
NUMBERS = {"repeat": 1, "seed": DRAWN, "max_test_episodes": 1}
LARGEST_SEED = 2**63


def make_options(given: Mapping[str, tuple[Any, Origin]], problems: list[str]) -> RunTestOptions:
    """Make options of values that somebody wrote; what is wrong is added to the problems."""
    fitted = {}
    for name, (value, origin) in given.items():
        if value is None:
            continue
        try:
            fitted[name] = _fit(name, value)
        except ConfigError as error:
            problems.append(f"{origin}: {error}")
    return RunTestOptions(**fitted)


def _fit(name: str, value: Any) -> Any:
    if name in NUMBERS:
        return _fit_number(name, value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ConfigError(f"{name} must be text, not {value!r}.")
    if name == "tag" and not TAG.fullmatch(str(value)):
        raise ConfigError(
            f"tag: {value!r} cannot be a part of the name of a directory: use letters, digits, "
            "'-', '_' and '.'."
        )
    return str(value)


def _fit_number(name: str, value: Any) -> int:
    least = NUMBERS[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be a whole number from {least} on, not {value!r}.")
    if name == "seed" and value >= LARGEST_SEED:
        raise ConfigError(f"seed must be below 2**63, not {value}.")
    return value
