"""Prepare what forked processes inherit, so that none of them has to do or to copy it again."""

import contextlib
import ctypes
import importlib
import io
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

MADV_COLLAPSE = 25
HUGE_PAGE_BYTES = 2**21


class Finalizers:
    """What libraries want to have done when the process that has imported them ends.

    It is left to that process. Forked ones have temporary folders of their own: some libraries make
    one when they are imported, and the first process to end would remove it from under all others.
    """

    def __init__(self) -> None:
        self._all: list[Any] = []
        self._folders: list[Any] = []

    def set_aside(self) -> None:
        """Let forked processes find nothing to do at their end; again after more imports."""
        registered: Any = getattr(weakref.finalize, "_registry", {})
        for finalizer in list(registered):
            if finalizer.atexit:
                finalizer.atexit = False
                self._all.append(finalizer)
                found = finalizer.peek()
                if found is not None and isinstance(found[0], tempfile.TemporaryDirectory):
                    self._folders.append(finalizer)

    def take_back(self) -> None:
        """Let them run when this process ends."""
        for finalizer in self._all:
            finalizer.atexit = True

    def renew(self) -> None:
        """In a forked process, let objects that stand for a folder stand for one of its own."""
        for finalizer in self._folders:
            found = finalizer.detach()
            if found is not None:
                _renew(found[0])


def _renew(folder: Any) -> None:
    path = tempfile.mkdtemp(prefix="jade-", dir=Path(folder.name).parent)
    folder.name = path
    folder._finalizer = weakref.finalize(folder, shutil.rmtree, path, ignore_errors=True)


def warm_torch_up() -> None:
    """Let torch do what it does once in a process, when it first computes.

    Not where there may be a GPU: whoever has used one cannot fork.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or torch.accelerator.current_accelerator() is not None:
        return
    optim: Any = importlib.import_module("torch.optim")
    data: Any = importlib.import_module("torch.utils.data")
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
        optimizer = optim.Adam(network.parameters())
        dataset = data.TensorDataset(torch.rand(2, 2), torch.zeros(2, dtype=torch.int64))
        for inputs, labels in data.DataLoader(dataset, 2, shuffle=True):
            torch.nn.functional.cross_entropy(network(inputs), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        file = io.BytesIO()
        torch.save([network.state_dict(), optimizer.state_dict()], file)
        file.seek(0)
        torch.load(file)
    finally:
        torch.set_num_threads(num_threads)


def use_huge_pages() -> None:
    """Put our memory into huge pages: a fork has to note each page, of which there are fewer then.

    What a forked process writes to is copied in small pages as ever. Systems that know nothing of
    this, or have no room, leave everything as it was.
    """
    if not sys.platform.startswith("linux"):
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            place, mode, *rest = line.split()
            name = rest[3] if len(rest) > 3 else "[heap]"
            if name == "[heap]" and mode.startswith("rw"):
                begin, end = (int(number, 16) for number in place.split("-"))
                begin = -(-begin // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
                if end - begin >= HUGE_PAGE_BYTES:
                    advise(begin, (end - begin) // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_COLLAPSE)
