"""Build the fully connected middle of a network from a list of sizes."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from torch import nn

from jade.errors import ComponentError, suggest
from jade.nn.arguments import is_positive_int

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "ELU": nn.ELU,
    "GELU": nn.GELU,
    "LeakyReLU": nn.LeakyReLU,
    "ReLU": nn.ReLU,
    "SELU": nn.SELU,
    "SiLU": nn.SiLU,
    "Sigmoid": nn.Sigmoid,
    "Softplus": nn.Softplus,
    "Tanh": nn.Tanh,
}


def make_stack(
    sizes: Sequence[int],
    *,
    activation: str | Callable[[], nn.Module] = "ReLU",
    batch_norm: bool = False,
) -> list[nn.Module]:
    """Build linear layers from each size to the next, with activations between, none at the end.

    ``make_stack([784, 1024, 256])`` is Linear(784, 1024), ReLU, Linear(1024, 256).

    Args:
        sizes: Input size, hidden sizes, output size.
        activation: A name of ``ACTIVATIONS``, or a callable that builds a new module.
        batch_norm: Whether to normalize the batch before each activation.

    Raises:
        ComponentError: If there are fewer than two sizes, one is no positive integer, or the
            activation is unknown.
    """
    layers: list[nn.Module] = []
    build = _find_activation(activation)
    for num_inputs, num_outputs in pairwise(_check_sizes(sizes)):
        if layers:
            layers += [nn.BatchNorm1d(num_inputs), build()] if batch_norm else [build()]
        layers.append(nn.Linear(num_inputs, num_outputs))
    return layers


def _find_activation(activation: str | Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    if isinstance(activation, nn.Module):
        raise ComponentError(
            f"make_stack: activation must be a name or a class, so that each layer gets its own;"
            f" got the finished module {activation}."
        )
    if not isinstance(activation, str):
        return activation
    if activation not in ACTIVATIONS:
        raise ComponentError(
            f"make_stack: no activation {activation!r}.{suggest(activation, list(ACTIVATIONS))}"
        )
    return ACTIVATIONS[activation]


def _check_sizes(sizes: Any) -> list[int]:
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        raise ComponentError(
            f"make_stack: the sizes must be a list such as [784, 1024, 256], not {sizes!r}."
            + _explain_dashes([sizes])
        )
    listed = list(sizes)
    wrong = [size for size in listed if not is_positive_int(size)]
    if wrong:
        raise ComponentError(
            f"make_stack: the sizes must be positive integers, not {wrong} in {listed}."
            + _explain_dashes(wrong)
        )
    if len(listed) < 2:
        raise ComponentError(
            f"make_stack: at least two sizes are needed, input and output; got {listed}."
        )
    return [int(size) for size in listed]


def _explain_dashes(wrong: Sequence[Any]) -> str:
    """Show the YAML that was meant when list items were written without a blank after the dash."""
    # Text that was unpacked into a list arrives letter by letter.
    text = "".join(map(str, wrong))
    if not re.fullmatch(r"(\s*-\d+)+\s*", text):
        return ""
    items = ", ".join(f"'- {number}'" for number in re.findall(r"\d+", text))
    return f" In YAML, a list item needs a blank after its dash; write {items}, one to a line."
