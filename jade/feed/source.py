"""Make the batches of a DataLoader: in this process, or in a worker of it."""

import signal
from collections.abc import Callable
from typing import Any

from torch.utils.data import get_worker_info

from jade.feed.batch_rng import BatchRng
from jade.feed.numbering import Numbered

# How long a worker outlives a TERM that was meant for the whole job.
GRACE_S = 60


class Source:
    """Stands in the place of a dataset: reads the samples of a batch and puts them together.

    A choice that carries a seed is made with random numbers of its own.
    """

    def __init__(
        self, dataset: Any, collate: Callable[[Any], Any], rng: BatchRng, *, is_batched: bool
    ) -> None:
        self.dataset = dataset
        self._collate = collate
        self._rng = rng
        self._is_batched = is_batched

    # The fetcher of torch asks for a whole batch by this name, and for a sample by the other.
    def __getitems__(self, chosen: Any) -> Any:
        return self._make(chosen) if type(chosen) is not Numbered else self._make_numbered(chosen)

    __getitem__ = __getitems__

    def _make_numbered(self, chosen: Numbered) -> Any:
        if get_worker_info() is not None:
            self._rng.seed(chosen.seed)
            return self._make(chosen.indices)
        with self._rng.isolated(chosen.seed):
            return self._make(chosen.indices)

    def _make(self, indices: Any) -> Any:
        dataset = self.dataset
        if not self._is_batched:
            return self._collate(dataset[indices])
        if getattr(dataset, "__getitems__", None):
            return self._collate(dataset.__getitems__(indices))
        return self._collate([dataset[index] for index in indices])

    def __getstate__(self) -> dict[str, Any]:
        # Generators of a process mean nothing in another one, which finds its own.
        return {**vars(self), "_rng": self._rng.salts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._rng = BatchRng(self.dataset, state["_rng"])


def pass_on(data: Any) -> Any:
    """Stand in the place of a collate function: the source has put the samples together."""
    return data


class WorkerStart:
    """What a worker does first: let signals pass that are meant for training, then the user's.

    A scheduler sends TERM to all processes of a job. Training then wants to finish its step, for
    which it needs the workers; it ends them itself.
    """

    def __init__(self, user_start: Callable[[int], None] | None) -> None:
        self._user_start = user_start

    def __call__(self, worker_id: int) -> None:
        for name in ("SIGINT", "SIGUSR1", "SIGUSR2"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _outlive)
        info = get_worker_info()
        if info is not None and isinstance(info.dataset, Source):
            # What the user's function looks for is its own dataset.
            object.__setattr__(info, "dataset", info.dataset.dataset)
        if self._user_start is not None:
            self._user_start(worker_id)


def _outlive(_number: int, _frame: object) -> None:
    """Go on for a while, then end: nobody waits for a worker that is stuck."""
    if hasattr(signal, "alarm"):
        signal.alarm(GRACE_S)
