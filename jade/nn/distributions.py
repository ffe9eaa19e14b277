"""The distributions that stochastic layers need and torch does not have."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, constraints, kl_divergence, register_kl
from torch.distributions.utils import broadcast_all
from torch.types import _size


class Delta(Distribution):
    """Put all mass on the point ``loc``.

    The density at the point is ``exp(log_density)`` (1 unless told otherwise) and 0 elsewhere: any
    other value has a log-probability of minus infinity, without a gradient. As the output of a
    decoder it therefore offers ``mean`` and ``rsample``, not a reconstruction loss.
    """

    arg_constraints = {"loc": constraints.real, "log_density": constraints.real}  # noqa: RUF012
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        loc: Tensor | float,
        log_density: Tensor | float = 0.0,
        validate_args: bool | None = None,  # noqa: FBT001 (the signature of every distribution)
    ) -> None:
        self.loc, self.log_density = broadcast_all(loc, log_density)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: _size, _instance: Any = None) -> "Delta":
        # What was validated once is not validated again.
        new = Delta(
            self.loc.expand(batch_shape),
            self.log_density.expand(batch_shape),
            validate_args=False,
        )
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return torch.zeros_like(self.loc)

    def rsample(self, sample_shape: _size = ()) -> Tensor:
        # A copy, because changing a sample in place must not move the distribution.
        return self.loc.expand(self._extended_shape(sample_shape)).clone()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return torch.where(value == self.loc, self.log_density, -math.inf)

    def entropy(self) -> Tensor:
        return -self.log_density


class BernoulliStraightThrough(Bernoulli):
    """Draw zeros and ones whose gradient is that of their probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: _size = ()) -> Tensor:
        probs = self.probs.expand(self._extended_shape(sample_shape))
        # The bracket is exactly zero, so that the sample stays inside the support.
        return torch.bernoulli(probs.detach()) + (probs - probs.detach())


class ChannelsFirst(Distribution):
    """Show a distribution over ``[height, width, channels]`` as one over channels first."""

    arg_constraints = {}  # noqa: RUF012
    base: Distribution

    def __init__(self, base: Distribution) -> None:
        self.base = base
        event_shape = base.event_shape[-1:] + base.event_shape[:-1]
        # The base validates what it is built from and what it is asked about.
        super().__init__(base.batch_shape, torch.Size(event_shape), validate_args=False)

    def expand(self, batch_shape: _size, _instance: Any = None) -> "ChannelsFirst":
        return ChannelsFirst(self.base.expand(batch_shape))

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base.has_rsample

    @property
    def mean(self) -> Tensor:
        return self._channels_first(self.base.mean)

    @property
    def mode(self) -> Tensor:
        return self._channels_first(self.base.mode)

    @property
    def variance(self) -> Tensor:
        return self._channels_first(self.base.variance)

    def sample(self, sample_shape: _size = ()) -> Tensor:
        return self._channels_first(self.base.sample(sample_shape))

    def rsample(self, sample_shape: _size = ()) -> Tensor:
        return self._channels_first(self.base.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        return self.base.log_prob(value.movedim(-len(self.event_shape), -1))

    def entropy(self) -> Tensor:
        return self.base.entropy()

    def __repr__(self) -> str:
        return f"ChannelsFirst({self.base})"

    def _channels_first(self, value: Tensor) -> Tensor:
        return value.movedim(-1, -len(self.event_shape))


@register_kl(Delta, Delta)  # type: ignore[no-untyped-call,untyped-decorator]
def _kl_delta_delta(p: Delta, q: Delta) -> Tensor:
    return torch.where(p.loc == q.loc, p.log_density - q.log_density, math.inf)


@register_kl(Delta, Distribution)  # type: ignore[no-untyped-call,untyped-decorator]
def _kl_delta_any(p: Delta, q: Distribution) -> Tensor:
    """Take the expectation of ``log p - log q``, which has a single term."""
    if q.event_shape:
        raise NotImplementedError(f"The divergence of an elementwise Delta from {q}.")
    return p.log_density - q.log_prob(p.loc)


@register_kl(ChannelsFirst, ChannelsFirst)  # type: ignore[no-untyped-call,untyped-decorator]
def _kl_channels_first(p: ChannelsFirst, q: ChannelsFirst) -> Tensor:
    return kl_divergence(p.base, q.base)
