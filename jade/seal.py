"""Seal a file: its end says how far training was, and whether it is as it was written."""

import hashlib
import io
import struct
from pathlib import Path
from typing import BinaryIO

from jade.errors import CheckpointError

# What stands behind the archive that torch writes: this mark, the iteration, then the checksum.
MARK = b"JADE\x00seal"
_ITERATION = struct.Struct("<q")
SEAL_BYTES = len(MARK) + _ITERATION.size + hashlib.sha256().digest_size
READ_BYTES = 1 << 20


class SealedFile:
    """A file to write to, which knows the checksum of what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write data."""
        self._hash.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        """Hand what was written to the system."""
        self._file.flush()

    def seal(self, iteration: int) -> None:
        """Write the seal; nothing may follow it."""
        self.write(MARK + _ITERATION.pack(iteration))
        self._file.write(self._hash.digest())


def read_iteration(path: Path) -> int | None:
    """Read from the seal how far training was; None for a file without one."""
    try:
        with path.open("rb") as file:
            seal = _read_seal(file)
    except OSError:
        return None
    return None if seal is None else _unpack(seal)


def check(file: BinaryIO, path: Path) -> int:
    """Compare a file with its seal, go back to its beginning, and return the iteration.

    Raises:
        CheckpointError: The file is not what was written.
    """
    seal = _read_seal(file)
    size = file.seek(0, io.SEEK_END)
    if seal is None:
        raise CheckpointError(
            f"{path} is damaged: it does not end as a checkpoint of JADE does ({size:,} bytes)."
        )
    digest = hashlib.sha256()
    left = size - digest.digest_size
    file.seek(0)
    while left > 0:
        block = file.read(min(left, READ_BYTES))
        if not block:
            break
        digest.update(block)
        left -= len(block)
    if digest.digest() != seal[-digest.digest_size :]:
        raise CheckpointError(f"{path} is damaged: its content does not match its checksum.")
    file.seek(0)
    return _unpack(seal)


def _read_seal(file: BinaryIO) -> bytes | None:
    size = file.seek(0, io.SEEK_END)
    file.seek(max(size - SEAL_BYTES, 0))
    seal = file.read()
    return seal if len(seal) == SEAL_BYTES and seal.startswith(MARK) else None


def _unpack(seal: bytes) -> int:
    iteration: int = _ITERATION.unpack_from(seal, len(MARK))[0]
    return iteration
