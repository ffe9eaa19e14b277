"""Collect loss items between two log entries without making the device wait."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from jade.errors import NonFiniteLossError, TrainingError

# How many device tensors are kept before they are added up, so that memory stays constant.
PENDING_LIMIT = 256


class LossWindow:
    """Running sums of named loss items; their means are taken when they are logged."""

    def __init__(self, *, stop_on_nan: bool = True) -> None:
        self._stop_on_nan = stop_on_nan
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._pending: dict[str, list[Tensor]] = {}

    def add(self, name: str, value: Any) -> None:
        """Add a number, or a tensor with one element; other devices are not waited for."""
        # Called in every step: the usual cases come first, and cost as little as can be.
        if type(value) is not float:
            if isinstance(value, Tensor):
                if not value.is_cpu:
                    self._add_pending(name, value)
                    return
                try:
                    value = value.item()
                except RuntimeError:
                    raise TrainingError(_message(name, value)) from None
            if type(value) is not float:
                value = _to_float(name, value)
        if self._stop_on_nan and not isfinite(value):
            raise NonFiniteLossError(f"The loss item {name!r} is {value}.")
        try:
            self._sums[name] += value
            self._counts[name] += 1
        except KeyError:
            self._sums[name] = value
            self._counts[name] = 1

    def _add_pending(self, name: str, value: Tensor) -> None:
        if value.numel() != 1:
            raise TrainingError(_message(name, value))
        pending = self._pending.setdefault(name, [])
        pending.append(value.detach())
        if len(pending) >= PENDING_LIMIT:
            # Apple's devices know no double precision.
            precision = torch.float32 if value.device.type == "mps" else torch.float64
            total = torch.stack([item.reshape(()).to(precision) for item in pending]).sum()
            self._counts[name] = self._counts.get(name, 0) + len(pending) - 1
            pending[:] = [total]

    def _collect_pending(self) -> None:
        # Emptied first: whoever handles the error below must be able to store this window.
        waiting, self._pending = self._pending, {}
        for name, pending in waiting.items():
            for tensor in pending:
                value = float(tensor)
                if self._stop_on_nan and not isfinite(value):
                    raise NonFiniteLossError(f"The loss item {name!r} is {value}.")
                self._sums[name] = self._sums.get(name, 0.0) + value
                self._counts[name] = self._counts.get(name, 0) + 1

    def peek(self) -> dict[str, float]:
        """Return the means so far, of what needs no waiting; safe to call from another thread."""
        counts = dict(self._counts)
        return {n: s / counts[n] for n, s in dict(self._sums).items() if counts.get(n)}

    def names(self) -> set[str]:
        """Return the names of what was added since the last ``take``."""
        return {*self._sums, *self._pending}

    def take(self) -> dict[str, float]:
        """Return the means of everything added since the last call, and start anew."""
        self._collect_pending()
        means = self.peek()
        self._sums.clear()
        self._counts.clear()
        return means

    def state_dict(self) -> dict[str, Any]:
        """Return the sums and counts of the open window."""
        self._collect_pending()
        return {"sums": dict(self._sums), "counts": dict(self._counts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the window that ``state_dict`` described."""
        self._pending.clear()
        self._sums = dict(state["sums"])
        self._counts = dict(state["counts"])


def _to_float(name: str, value: Any) -> float:
    if isinstance(value, Tensor) or hasattr(value, "item"):
        # numpy's arrays and numbers have it, too.
        size = value.numel() if isinstance(value, Tensor) else getattr(value, "size", None)
        value = value.item() if size == 1 else value
    if isinstance(value, (int, float)):
        return float(value)
    raise TrainingError(_message(name, value))


def _message(name: str, value: Any) -> str:
    start = f"add_loss_item({name!r}, ...) takes a number or a tensor with one element, not"
    if not hasattr(value, "shape"):
        return f"{start} {type(value).__name__} {value!r}."
    shape = f"a {type(value).__name__} of shape {tuple(value.shape)}"
    return f"{start} {shape}. Did you forget .mean()?"
