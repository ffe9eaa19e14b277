"""Layers, stochastic layers and masked losses for the networks of an architecture file."""

from torch.nn import Flatten

from jade.nn.distributions import Delta
from jade.nn.layers import OneHot, Permute, Reshape, StopGrad
from jade.nn.masked import MaskedCrossEntropy, MaskedLoss
from jade.nn.stack import make_stack
from jade.nn.stochastic import StochasticLinear, StochasticLinear2D

__all__ = [
    "Delta",
    "Flatten",
    "MaskedCrossEntropy",
    "MaskedLoss",
    "OneHot",
    "Permute",
    "Reshape",
    "StochasticLinear",
    "StochasticLinear2D",
    "StopGrad",
    "make_stack",
]
