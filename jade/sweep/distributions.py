"""The distributions that swept values are drawn from, as W&B defines them."""

import abc
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

# e^700 is nearly the largest number there is.
LARGEST_EXPONENT = 700.0
# The ends of a normal distribution are nowhere.
SMALLEST_SHARE = 1e-9


class Distribution(abc.ABC):
    """Values that a parameter can take, and how often."""

    @abc.abstractmethod
    def sample(self, rng: random.Random) -> Any:
        """Draw a value."""

    @abc.abstractmethod
    def telling_values(self) -> list[Any]:
        """Return values whose check tells most: all of a list, the ends of a range."""

    @abc.abstractmethod
    def quantile(self, share: float) -> Any:
        """Return the value below which this share of all values is, from 0 to 1."""

    def grid(self) -> Sequence[Any] | None:
        """Return the values in a grid, in order; None if a grid cannot have them all."""
        return None


@dataclass(frozen=True)
class Constant(Distribution):
    """Always the same value."""

    value: Any

    def sample(self, rng: random.Random) -> Any:
        return self.value

    def telling_values(self) -> list[Any]:
        return [self.value]

    def quantile(self, share: float) -> Any:
        return self.value

    def grid(self) -> Sequence[Any]:
        return [self.value]


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of some values, all of them as often or with probabilities."""

    values: tuple[Any, ...]
    probabilities: tuple[float, ...] | None = None

    def sample(self, rng: random.Random) -> Any:
        if self.probabilities is None:
            return self.values[rng.randrange(len(self.values))]
        return rng.choices(self.values, self.probabilities)[0]

    def telling_values(self) -> list[Any]:
        weights = self.probabilities or (1.0,) * len(self.values)
        return [v for v, weight in zip(self.values, weights, strict=True) if weight > 0]

    def quantile(self, share: float) -> Any:
        weights = self.probabilities or (1.0 / len(self.values),) * len(self.values)
        rest = share * sum(weights)
        possible = [pair for pair in zip(self.values, weights, strict=True) if pair[1] > 0]
        for value, weight in possible:
            rest -= weight
            if rest < 0:
                return value
        return possible[-1][0]

    def grid(self) -> Sequence[Any] | None:
        """Return each value once: W&B does not run a point twice."""
        if self.probabilities is not None:
            return None
        different: dict[str, Any] = {}
        for value in self.values:
            different.setdefault(_identity(value), value)
        return list(different.values())


@dataclass(frozen=True)
class IntUniform(Distribution):
    """A whole number from ``low`` to ``high``, both included."""

    low: int
    high: int

    def sample(self, rng: random.Random) -> int:
        return rng.randint(self.low, self.high)

    def telling_values(self) -> list[int]:
        return list(dict.fromkeys((self.low, self.high)))

    def quantile(self, share: float) -> int:
        return min(self.low + int(share * (self.high - self.low + 1)), self.high)

    def grid(self) -> Sequence[int]:
        return range(self.low, self.high + 1)


@dataclass(frozen=True)
class Quantized(Distribution):
    """A number, rounded to a multiple of ``q`` if there is one."""

    def _rounded(self, value: float, q: float | None) -> float:
        if q is None:
            return value
        number = round(value / q) * q
        # On its way through W&B's server a whole number loses its point.
        return int(number) if float(q).is_integer() else number


@dataclass(frozen=True)
class Uniform(Quantized):
    """A number from ``low`` to ``high``."""

    low: float
    high: float
    q: float | None = None

    def sample(self, rng: random.Random) -> float:
        return self._rounded(rng.uniform(self.low, self.high), self.q)

    def telling_values(self) -> list[float]:
        return list(dict.fromkeys(self._rounded(end, self.q) for end in (self.low, self.high)))

    def quantile(self, share: float) -> float:
        return self._rounded(self.low + share * (self.high - self.low), self.q)

    def grid(self) -> Sequence[float] | None:
        return None if self.q is None else Steps(self.low, self.high, self.q)


@dataclass(frozen=True)
class LogUniform(Quantized):
    """A number from ``low`` to ``high`` whose logarithm is uniform.

    So is the logarithm of its inverse: this is also what W&B calls ``inv_log_uniform``.
    """

    low: float
    high: float
    q: float | None = None

    def sample(self, rng: random.Random) -> float:
        return self._from_exponent(rng.uniform(math.log(self.low), math.log(self.high)))

    def quantile(self, share: float) -> float:
        low, high = math.log(self.low), math.log(self.high)
        return self._from_exponent(low + share * (high - low))

    def _from_exponent(self, exponent: float) -> float:
        # Rounding must not lead out of the range.
        value = min(max(math.exp(exponent), self.low), self.high)
        return self._rounded(value, self.q)

    def telling_values(self) -> list[float]:
        return list(dict.fromkeys(self._rounded(end, self.q) for end in (self.low, self.high)))


@dataclass(frozen=True)
class Normal(Quantized):
    """A number with the mean ``mu`` and the standard deviation ``sigma``."""

    mu: float = 0.0
    sigma: float = 1.0
    q: float | None = None

    def sample(self, rng: random.Random) -> float:
        return self._rounded(rng.gauss(self.mu, self.sigma), self.q)

    def quantile(self, share: float) -> float:
        return self._rounded(_normal_quantile(share, self.mu, self.sigma), self.q)

    def telling_values(self) -> list[float]:
        return [self._rounded(self.mu, self.q)]


@dataclass(frozen=True)
class LogNormal(Quantized):
    """A number whose logarithm is normal, with the mean ``mu`` and the deviation ``sigma``."""

    mu: float = 0.0
    sigma: float = 1.0
    q: float | None = None

    def sample(self, rng: random.Random) -> float:
        return self._rounded(power_of_e(rng.gauss(self.mu, self.sigma)), self.q)

    def quantile(self, share: float) -> float:
        return self._rounded(power_of_e(_normal_quantile(share, self.mu, self.sigma)), self.q)

    def telling_values(self) -> list[float]:
        return [self._rounded(power_of_e(self.mu), self.q)]


@dataclass(frozen=True)
class Beta(Quantized):
    """A number from 0 to 1."""

    a: float = 1.0
    b: float = 1.0
    q: float | None = None

    def sample(self, rng: random.Random) -> float:
        return self._rounded(rng.betavariate(self.a, self.b), self.q)

    def quantile(self, share: float) -> float:
        return self._rounded(_beta_quantile(share, self.a, self.b), self.q)

    def telling_values(self) -> list[float]:
        return [self._rounded(self.a / (self.a + self.b), self.q)]


class Steps(Sequence[float]):
    """The numbers from ``low`` on in steps of ``q``, below ``high``; none is kept."""

    def __init__(self, low: float, high: float, q: float) -> None:
        self._low = low
        self._q = q
        self._count = max(math.ceil((high - low) / q), 0)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        places = range(self._count)[index]
        if isinstance(places, range):
            return [self._low + place * self._q for place in places]
        return self._low + places * self._q


def power_of_e(exponent: float) -> float:
    """Return e to a power, or nearly the largest number there is."""
    return math.exp(min(exponent, LARGEST_EXPONENT))


def _normal_quantile(share: float, mu: float, sigma: float) -> float:
    if sigma == 0:
        return mu
    inside = min(max(share, SMALLEST_SHARE), 1 - SMALLEST_SHARE)
    return statistics.NormalDist(mu, sigma).inv_cdf(inside)


def _beta_quantile(share: float, a: float, b: float) -> float:
    """Find by halving where the share of smaller values is the one that is wanted."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _beta_share(middle, a, b) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_share(x: float, a: float, b: float) -> float:
    """Return which share of a beta distribution is below ``x``: the incomplete beta function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        # The continued fraction is quick on the other side only.
        return 1 - _beta_share(1 - x, b, a)
    front = a * math.log(x) + b * math.log1p(-x) - math.log(a)
    front += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    fraction = 1.0
    for term in range(200, 0, -1):
        half = term // 2
        if term % 2:
            factor = -(a + half) * (a + b + half) / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            factor = half * (b - half) / ((a + 2 * half - 1) * (a + 2 * half))
        fraction = 1 + factor * x / fraction
    return math.exp(front) / fraction


def _identity(value: Any) -> str:
    """Render a value so that equal ones look equal: to W&B, 1.0 is 1, but true is not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return repr(value)
