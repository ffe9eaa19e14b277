"""Layers without parameters that reshape, encode or detach a batch."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from jade.errors import ComponentError
from jade.nn.arguments import is_int, is_positive_int, positive_int


class Reshape(nn.Module):
    """Give each sample the shape ``shape``; the batch dimension stays.

    ``Reshape(1, 28, 28)`` turns ``[batch, 784]`` into ``[batch, 1, 28, 28]``. One size may be -1.
    """

    def __init__(self, *shape: int) -> None:
        super().__init__()
        unknown = sum(1 for size in shape if size == -1)
        if (
            not shape
            or unknown > 1
            or not all(size == -1 or is_positive_int(size) for size in shape)
        ):
            raise ComponentError(
                f"Reshape{shape}: give the sizes of one sample, without the batch dimension, as"
                " positive integers of which one may be -1: Reshape(1, 28, 28)."
            )
        self.shape = tuple(int(size) for size in shape)

    def forward(self, x: Tensor) -> Tensor:
        # The sample is unflattened on its own, so that -1 is known even for an empty batch.
        return torch.unflatten(x.unsqueeze(-1).flatten(1), 1, self.shape)

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape))


class Permute(nn.Module):
    """Reorder the dimensions of each sample; they count from 0, and the batch is none of them.

    ``Permute(2, 0, 1)`` turns ``[batch, height, width, channels]`` into
    ``[batch, channels, height, width]``, and ``Permute(1, 2, 0)`` turns it back.
    """

    def __init__(self, *dims: int) -> None:
        super().__init__()
        if not dims or not all(map(is_int, dims)) or sorted(dims) != list(range(len(dims))):
            raise ComponentError(
                f"Permute{dims}: name each dimension of a sample once; they count from 0 without"
                " the batch dimension: Permute(2, 0, 1)."
            )
        self.dims = tuple(int(dim) for dim in dims)

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, *(dim + 1 for dim in self.dims))

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.dims))


class OneHot(nn.Module):
    """Encode integer labels ``[...]`` as vectors ``[..., num_classes]`` of the default dtype."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = positive_int(num_classes, "OneHot: num_classes")

    def forward(self, labels: Tensor) -> Tensor:
        # Fractional labels are left as they are: torch refuses them, a conversion would cut them.
        index = labels if labels.is_floating_point() else labels.long()
        return functional.one_hot(index, self.num_classes).to(torch.get_default_dtype())

    def extra_repr(self) -> str:
        return str(self.num_classes)


class StopGrad(nn.Module):
    """Pass the values on and the gradients not."""

    def forward(self, x: Tensor) -> Tensor:
        return x.detach()
