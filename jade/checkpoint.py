"""Write and read checkpoints whole or not at all, and keep the last few."""

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from jade.errors import CheckpointError
from jade.run_dir import RunDir, write_whole

FORMAT = 1
PLAIN = (type(None), bool, int, float, str, bytes, torch.Tensor, torch.dtype, torch.device)


def storable(value: Any, where: str) -> Any:
    """Return a value as a checkpoint holds it, so that reading it back runs no code.

    numpy arrays and numbers become tensors and numbers.
    """
    if isinstance(value, (torch.nn.Parameter, torch.Tensor)):
        return value.detach()
    if type(value) in PLAIN:
        return value
    if isinstance(value, Mapping):
        return {storable(k, where): storable(v, f"{where}[{k!r}]") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [storable(item, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, (bool, int, float, str)):
        # A subclass such as numpy's float64, or an enum with a value.
        return next(kind(value) for kind in (bool, int, float, str) if isinstance(value, kind))
    if type(value).__module__ == "numpy":
        return _from_numpy(value)
    raise CheckpointError(
        f"{where} is a {type(value).__name__}, which a checkpoint cannot hold. Store numbers, "
        "texts, tensors, or lists and mappings of them, or give the class state_dict and "
        "load_state_dict."
    )


def _from_numpy(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", 1) == 0 else torch.as_tensor(value.copy())


def save(content: Mapping[str, Any], path: Path) -> None:
    """Write a checkpoint aside, flush it to the disk, and rename it to its name."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **storable(content, "checkpoint")}, buffer)
    try:
        write_whole(path, buffer.getbuffer())
        _sync_folder(path.parent)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror}.") from error


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load(path: Path, device: str | torch.device = "cpu") -> dict[str, Any]:
    """Load a checkpoint; nothing in it is executed."""
    try:
        content: Any = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError as error:
        raise CheckpointError(f"There is no checkpoint {path}.") from error
    except Exception as error:
        raise CheckpointError(f"{path} is not a readable checkpoint: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise CheckpointError(
            f"{path} is not a checkpoint of this version of JADE (format {FORMAT}, got {found!r})."
        )
    return dict(content)


def prune(directory: RunDir, keep_last: int | None) -> None:
    """Remove the oldest periodic checkpoints beyond ``keep_last``."""
    if keep_last is None:
        return
    for path in directory.periodic_checkpoints()[:-keep_last]:
        path.unlink(missing_ok=True)
