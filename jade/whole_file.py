"""Write files whole or not at all, whatever happens to the process or the machine meanwhile."""

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

# How the names of files end that are being written.
ASIDE = ".tmp"


@contextlib.contextmanager
def whole_file(
    path: Path, *, durable: bool = False, former: Path | None = None
) -> Iterator[BinaryIO]:
    """Open a file to write; a reader sees the old content or the new one, never a part.

    Args:
        path: The file.
        durable: Whether it must survive a power cut from the moment on when this returns, which
            takes milliseconds. A process that is killed needs no such care.
        former: The name under which the old content stays.
    """
    aside = _aside(path)
    try:
        with aside.open("wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if former is not None and path.is_file():
            _keep(path, former)
        aside.replace(path)
        if durable:
            _sync_folder(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}{ASIDE}")


def _keep(path: Path, former: Path) -> None:
    """Give a file a second name, under which it stays when another takes the first one."""
    aside = _aside(former)
    aside.unlink(missing_ok=True)
    if not _link(path, aside):
        # Until the new file is there, this is the only one.
        path.replace(former)
        return
    aside.replace(former)
    # Where the former file is this very one, because a process was killed right here, renaming
    # does nothing.
    aside.unlink(missing_ok=True)


def remove_asides(folder: Path) -> None:
    """Remove what processes that were killed had begun to write, below a folder."""
    for path in list(folder.rglob(f".*{ASIDE}")):
        path.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part."""
    with whole_file(path) as file:
        file.write(data)


def copy_whole(path: Path, target: Path, *, by_link: bool = False) -> None:
    """Copy a file; one that is only ever replaced may get a second name instead."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = _aside(target)
    aside.unlink(missing_ok=True)
    if not (by_link and _link(path, aside)):
        shutil.copyfile(path, aside)
    aside.replace(target)
    # Where both are the same file already, renaming does nothing.
    aside.unlink(missing_ok=True)


def _link(path: Path, name: Path) -> bool:
    try:
        os.link(path, name)
    except OSError:
        # A file system without links.
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system offers that."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
