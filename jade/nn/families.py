"""The families of distributions by name: how the raw outputs of a layer become their parameters."""

import abc
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor
from torch.distributions import (
    Beta,
    Distribution,
    Independent,
    Normal,
    OneHotCategoricalStraightThrough,
)
from torch.nn import functional

from jade.errors import ComponentError, suggest
from jade.nn.arguments import positive_number
from jade.nn.distributions import BernoulliStraightThrough, ChannelsFirst, Delta


@dataclass(frozen=True, kw_only=True)
class Family(abc.ABC):
    """A way to read raw outputs as a distribution; the fields are the options of the layer.

    To add one: subclass, write ``elementwise``, and enter the class into ``FAMILIES``.
    """

    validate_args: bool | None = None

    @property
    def num_parameters(self) -> int:
        """How many raw outputs each feature needs."""
        return 1

    @abc.abstractmethod
    def elementwise(self, *raw: Tensor) -> Distribution:
        """Build one distribution per element from ``num_parameters`` tensors of equal shape."""

    def factorized(self, raw: Tensor, event_dims: int) -> Distribution:
        """Build the distribution over the last ``event_dims`` dimensions, features first."""
        parameters = raw.chunk(self.num_parameters, dim=-event_dims)
        return Independent(self.elementwise(*parameters), event_dims)


@dataclass(frozen=True, kw_only=True)
class NormalFamily(Family):
    """Normal with a learned scale of at least ``min_scale``, or with the fixed ``scale``."""

    scale: float | None = None
    min_scale: float = 1e-4

    def __post_init__(self) -> None:
        positive_number(self.min_scale, "Normal: min_scale")
        if self.scale is not None:
            positive_number(self.scale, "Normal: scale")

    @property
    def num_parameters(self) -> int:
        return 2 if self.scale is None else 1

    def elementwise(self, *raw: Tensor) -> Distribution:
        if self.scale is not None:
            return Normal(raw[0], self.scale, validate_args=self.validate_args)
        scale = functional.softplus(raw[1]) + self.min_scale
        return Normal(raw[0], scale, validate_args=self.validate_args)


@dataclass(frozen=True, kw_only=True)
class BetaFamily(Family):
    """Beta with two learned concentrations of at least ``min_concentration``.

    The density of an exact 0 or 1 may be infinite: keep data strictly between them.
    """

    min_concentration: float = 1e-2

    def __post_init__(self) -> None:
        positive_number(self.min_concentration, "Beta: min_concentration")

    @property
    def num_parameters(self) -> int:
        return 2

    def elementwise(self, *raw: Tensor) -> Distribution:
        alpha, beta = (functional.softplus(part) + self.min_concentration for part in raw)
        return Beta(alpha, beta, validate_args=self.validate_args)


@dataclass(frozen=True, kw_only=True)
class DeltaFamily(Family):
    """A single point: the deterministic layer behind the interface of the others."""

    def elementwise(self, *raw: Tensor) -> Distribution:
        return Delta(raw[0], validate_args=self.validate_args)


@dataclass(frozen=True, kw_only=True)
class BernoulliFamily(Family):
    """Independent zeros and ones; ``rsample`` is straight-through.

    For grey values between 0 and 1 switch the check of the support off: ``validate_args=False``.
    """

    def elementwise(self, *raw: Tensor) -> Distribution:
        return BernoulliStraightThrough(logits=raw[0], validate_args=self.validate_args)


@dataclass(frozen=True, kw_only=True)
class CategoricalFamily(Family):
    """One-hot vectors with the features as classes; ``rsample`` is straight-through."""

    def elementwise(self, *raw: Tensor) -> Distribution:
        return OneHotCategoricalStraightThrough(logits=raw[0], validate_args=self.validate_args)

    def factorized(self, raw: Tensor, event_dims: int) -> Distribution:
        """Choose one feature, at each position if there are more dimensions than one."""
        if event_dims == 1:
            return self.elementwise(raw)
        # Torch keeps classes in the last dimension, images keep them in the first.
        positions = self.elementwise(raw.movedim(-event_dims, -1))
        return ChannelsFirst(Independent(positions, event_dims - 1))


FAMILIES: Mapping[str, type[Family]] = {
    "Bernoulli": BernoulliFamily,
    "Beta": BetaFamily,
    "Categorical": CategoricalFamily,
    "Delta": DeltaFamily,
    "Normal": NormalFamily,
}


def make_family(layer: str, distribution: str, options: Mapping[str, Any]) -> Family:
    """Find the family called ``distribution`` and set its options; ``layer`` names the asker."""
    family = FAMILIES.get(str(distribution))
    if family is None:
        raise ComponentError(
            f"{layer}: no distribution {distribution!r}."
            + suggest(str(distribution), list(FAMILIES))
        )
    known = [field.name for field in fields(family)]
    for option in options:
        if option not in known:
            raise ComponentError(
                f"{layer}: {distribution} has no option {option!r}.{suggest(option, known)}"
            )
    return family(**options)
