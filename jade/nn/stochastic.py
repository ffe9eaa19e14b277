"""Layers that end a network in a distribution instead of a tensor."""

from typing import Any

from torch import Tensor, nn
from torch.distributions import Distribution

from jade.nn.arguments import positive_int
from jade.nn.families import make_family


class StochasticLinear(nn.Module):
    """Map ``[..., in_features]`` to a factorized distribution over ``out_features`` values.

    Samples have the shape ``[..., out_features]``, and their log-probability has one number for
    each sample: the features are the event. All distributions offer ``rsample``::

        StochasticLinear(256, 64)                                     Normal, learned scale
        StochasticLinear(256, 64, "Normal", scale=0.1)                Normal, fixed scale
        StochasticLinear(256, 64, "Beta")                             in (0, 1)
        StochasticLinear(256, 64, "Bernoulli")                        zeros and ones
        StochasticLinear(256, 10, "Categorical")                      one one-hot vector of 10
        StochasticLinear(256, 64, "Delta")                            no randomness

    Discrete samples are exact in the forward pass and pass the gradient of their probabilities
    in the backward pass (straight-through), which is biased but needs no temperature.

    Args:
        in_features: Size of the last dimension of the input.
        out_features: Number of random features, or of classes for Categorical.
        distribution: Bernoulli, Beta, Categorical, Delta or Normal.
        options: ``validate_args`` for all; ``scale`` and ``min_scale`` for Normal;
            ``min_concentration`` for Beta.

    Raises:
        ComponentError: If the distribution or an option is unknown, or a value out of range.
    """

    def __init__(
        self, in_features: int, out_features: int, distribution: str = "Normal", **options: Any
    ) -> None:
        super().__init__()
        self.in_features = positive_int(in_features, "StochasticLinear: in_features")
        self.out_features = positive_int(out_features, "StochasticLinear: out_features")
        self.family = make_family("StochasticLinear", distribution, options)
        self.projection = nn.Linear(in_features, out_features * self.family.num_parameters)

    def forward(self, x: Tensor) -> Distribution:
        return self.family.factorized(self.projection(x), event_dims=1)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.family}"


class StochasticLinear2D(nn.Module):
    """Map ``[batch, in_channels, height, width]`` to a distribution over images.

    The counterpart of ``StochasticLinear`` by a convolution, 1x1 unless told otherwise. Samples
    have the shape ``[batch, out_channels, height, width]`` and their log-probability ``[batch]``.
    Categorical chooses one channel at each position; its samples are one-hot along the channels.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of a sample, or classes for Categorical.
        distribution: As for ``StochasticLinear``.
        kernel_size: As for ``torch.nn.Conv2d``, and so are ``stride`` and ``padding``.
        stride: Steps of the convolution.
        padding: Border of zeros, or ``"same"``.
        options: As for ``StochasticLinear``.

    Raises:
        ComponentError: If the distribution or an option is unknown, or a value out of range.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        distribution: str = "Normal",
        kernel_size: int | tuple[int, int] = 1,
        *,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | str = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        self.in_channels = positive_int(in_channels, "StochasticLinear2D: in_channels")
        self.out_channels = positive_int(out_channels, "StochasticLinear2D: out_channels")
        self.family = make_family("StochasticLinear2D", distribution, options)
        num_outputs = out_channels * self.family.num_parameters
        self.projection = nn.Conv2d(in_channels, num_outputs, kernel_size, stride, padding)

    def forward(self, x: Tensor) -> Distribution:
        return self.family.factorized(self.projection(x), event_dims=3)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, {self.family}"
