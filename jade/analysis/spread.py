"""The mean of a few values with its 95 % interval, and which of several means are tied."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95
# Halving an interval that often leaves nothing of it that a float could tell.
HALVINGS = 80


@dataclass(frozen=True)
class Spread:
    """Values that were measured under the same conditions.

    Attributes:
        count: How many there are.
        std: The standard deviation of a sample; None for a single value.
        margin: Half of the 95 % interval of the mean; None for a single value, of which nobody
            knows how far off it is.
    """

    count: int
    mean: float
    lowest: float
    highest: float
    std: float | None = None
    margin: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        """Return the spread of values; None if there is none, or one that is not finite."""
        if not values or not all(map(math.isfinite, values)):
            return None
        count, mean = len(values), statistics.fmean(values)
        if count == 1:
            return cls(1, mean, mean, mean)
        # By exact fractions: equal values have a deviation of zero.
        std = statistics.stdev(values)
        margin = student_quantile(count - 1) * std / math.sqrt(count)
        return cls(count, mean, min(values), max(values), std, margin)

    @property
    def low(self) -> float:
        """The lower end of the interval, or the only value."""
        return self.mean - (self.margin or 0.0)

    @property
    def high(self) -> float:
        """The upper end of the interval, or the only value."""
        return self.mean + (self.margin or 0.0)

    def is_tied_with(self, other: "Spread") -> bool:
        """Tell whether the intervals overlap, so that neither is known to be better."""
        return self.low <= other.high and other.low <= self.high


@cache
def student_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return the t within which Student's distribution has a share of its values, on both sides."""
    if degrees < 1:
        raise ValueError(f"Student's distribution needs a degree of freedom, not {degrees}.")
    low, high = 0.0, 1.0
    while _central_share(high, degrees) < confidence:
        low, high = high, high * 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _central_share(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return high


def _central_share(t: float, degrees: int) -> float:
    """Return the probability of values between -t and t: a finite sum for whole degrees."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = degrees % 2
    term = total = (cosine if degrees > 1 else 0.0) if is_odd else 1.0
    for factor in range(2 + is_odd, degrees - 1, 2):
        term *= (factor - 1) / factor * cosine**2
        total += term
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total
