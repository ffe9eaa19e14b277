"""Losses that leave the masked elements of a batch out."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from jade.errors import ComponentError, TrainingError


class MaskedLoss(nn.Module):
    """Average an elementwise loss over the elements that count.

    ``MaskedLoss(nn.MSELoss(reduction="none"))(prediction, target, keep)``: ``keep`` is true (or
    nonzero) where an element counts and has the leading dimensions of prediction and target, as
    ``[batch, time]`` for ``[batch, time, features]``. What is masked has no influence on the
    value and an exactly zero gradient, even where it is NaN. When all is masked the loss is 0.
    """

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        reduction = getattr(loss, "reduction", "none")
        if reduction != "none":
            raise ComponentError(
                f"MaskedLoss: {type(loss).__name__} has reduction={reduction!r}; it must have"
                " reduction='none', because the mean is taken after masking."
            )
        self.loss = loss

    def forward(self, prediction: Tensor, target: Tensor, keep: Tensor) -> Tensor:
        losses = self.loss(_zero_masked(prediction, keep), _zero_masked(target, keep))
        return _mean_of_kept(losses, keep)


class MaskedCrossEntropy(nn.Module):
    """Average the cross entropy over the positions that count.

    Logits are ``[batch, classes, ...]`` as for ``torch.nn.CrossEntropyLoss``; the class indices
    ``target`` and ``keep`` (true or nonzero where a position counts) are ``[batch, ...]``. Masked
    targets may hold any number. When all is masked the loss is 0.
    """

    def forward(self, logits: Tensor, target: Tensor, keep: Tensor) -> Tensor:
        by_position = _zero_masked(logits.movedim(1, -1), keep)
        losses = functional.cross_entropy(
            by_position.movedim(-1, 1), _zero_masked(target, keep), reduction="none"
        )
        return _mean_of_kept(losses, keep)


def _zero_masked(values: Tensor, keep: Tensor) -> Tensor:
    """Replace masked values before the loss sees them: 0 times the gradient of a NaN is a NaN."""
    return values.masked_fill(~_expand(keep, values), 0)


def _mean_of_kept(losses: Tensor, keep: Tensor) -> Tensor:
    kept = _expand(keep, losses)
    # Dividing by at least one defines the mean of nothing without asking the device for a count.
    return losses.masked_fill(~kept, 0).sum() / kept.sum().clamp(min=1)


def _expand(keep: Tensor, values: Tensor) -> Tensor:
    if keep.shape != values.shape[: keep.dim()]:
        raise TrainingError(
            f"A mask of shape {list(keep.shape)} does not fit values of shape"
            f" {list(values.shape)}: it must have their leading dimensions, and the loss must"
            " return one value for each element (reduction='none')."
        )
    missing = values.dim() - keep.dim()
    return keep.bool()[(...,) + (None,) * missing].expand_as(values)
