"""Copy nested state into tensors that are kept from one copy to the next."""

import collections
from typing import Any

import torch

# What tells two tensors from each other that share no memory.
_Key = tuple[Any, ...]
_Path = tuple[Any, ...]


class StateCopy:
    """Copies on the CPU that training cannot change any more; one at a time.

    Memory that has been used before is copied to several times as fast as new memory.
    """

    def __init__(self) -> None:
        self._kept: dict[_Path, torch.Tensor] = {}
        self._copied: dict[_Key, torch.Tensor] = {}
        self._used: dict[_Path, torch.Tensor] = {}
        self._devices: set[torch.device] = set()

    def take(self, state: Any) -> Any:
        """Copy a state; the copy that was taken before is overwritten."""
        self._copied.clear()
        self._devices.clear()
        copied = self._copy(state, ())
        for device in self._devices:
            torch.cuda.synchronize(device)
        self._kept, self._used = self._used, {}
        return copied

    def find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the copy of a tensor that was in the latest state, or None."""
        return self._copied.get(_key(tensor))

    def _copy(self, value: Any, path: _Path) -> Any:
        if isinstance(value, torch.Tensor):
            return self._copy_tensor(value, path)
        if isinstance(value, dict):
            items = {key: self._copy(item, (*path, type(key), key)) for key, item in value.items()}
            return collections.Counter(items) if type(value) is collections.Counter else items
        if isinstance(value, (list, tuple)):
            listed = [self._copy(item, (*path, index)) for index, item in enumerate(value)]
            return listed if isinstance(value, list) else tuple(listed)
        return set(value) if isinstance(value, set) else value

    def _copy_tensor(self, tensor: torch.Tensor, path: _Path) -> torch.Tensor:
        if tensor.layout is not torch.strided or type(tensor) is not torch.Tensor:
            return tensor.detach().clone().cpu()
        key = _key(tensor)
        # Tied weights stay tied.
        if tensor.numel() and key in self._copied:
            return self._copied[key]
        kept = self._kept.get(path)
        if kept is None or kept.shape != tensor.shape or kept.dtype != tensor.dtype:
            kept = torch.empty_like(
                tensor, device="cpu", pin_memory=tensor.is_cuda, requires_grad=False
            )
        # Only there the copy is waited for, in ``take``.
        kept.copy_(tensor.detach(), non_blocking=tensor.is_cuda)
        if tensor.is_cuda:
            self._devices.add(tensor.device)
        self._used[path] = self._copied[key] = kept
        return kept


def _key(tensor: torch.Tensor) -> _Key:
    return (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
