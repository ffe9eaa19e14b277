"""Know how each kind of loader begins an epoch, and how it finds a place within one."""

import copy
import itertools
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._C import _remove_worker_pids
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from jade.alarm import Alarm
from jade.feed.batch_rng import BatchRng
from jade.feed.numbering import Numbering
from jade.feed.source import Source, WorkerStart, pass_on
from jade.in_memory import TensorLoader
from jade.seeding import derive, isolated_rng

# They draw from torch's generators, if they draw at all; a subclass may do anything.
TORCH_SAMPLERS = (
    SequentialSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    DistributedSampler,
)
# How long workers may take to end.
PATIENCE_S = 0.5

logger = logging.getLogger(__name__)


class Feed:
    """The batches of a loader of any kind; a place within an epoch is found by reading up to it.

    Args:
        loader: Anything that can be iterated over once per epoch.
        seed: The seed of the run.
    """

    # Whether making a batch moves the generators on that decide the order of the epoch.
    runs_ahead = False
    # Whether nothing but torch's generators decides that order.
    is_ordered_by_torch = False

    def __init__(self, loader: Any, seed: int) -> None:
        self.loader = loader
        self._seed = seed

    def start(self, epoch: int, start_batch: int = 0) -> Iterator[Any]:
        """Begin an epoch at one of its batches; the generators are as at its beginning."""
        batches = self._iterate(epoch)
        if start_batch:
            logger.info("Reading %d batches again, to find the place in the epoch.", start_batch)
        for _ in itertools.islice(batches, start_batch):
            pass
        return batches

    def _iterate(self, _epoch: int) -> Iterator[Any]:
        return iter(self.loader)

    def state_dict(self) -> dict[str, Any]:
        """Return what is known about how batches are made."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Know what ``state_dict`` said."""

    def close(self) -> None:
        """End what makes batches."""


class MemoryFeed(Feed):
    """The batches of JADE's own loader, which begins anywhere at once."""

    is_ordered_by_torch = True

    def start(self, epoch: int, start_batch: int = 0) -> Iterator[Any]:
        batches: Iterator[Any] = self.loader.iterate(start_batch)
        return batches


class WorkerFeed(Feed):
    """The batches of a ``DataLoader``; the user's object stays as it is, a copy is iterated over.

    In each epoch two things are drawn from the generators that the user knows, in this order: the
    seed of the workers, and what the sampler needs. So the number of workers decides nothing.
    """

    def __init__(self, loader: "DataLoader[Any]", seed: int) -> None:
        super().__init__(loader, seed)
        self._rng = BatchRng(loader.dataset)
        self._copy = copy.copy(loader)
        # The attributes that follow cannot be set: torch wants them to stay.
        self._attributes = vars(self._copy)
        self._attributes["_iterator"] = None
        self._attributes["worker_init_fn"] = WorkerStart(loader.worker_init_fn)
        self._keeps_workers = loader.num_workers > 0 and loader.persistent_workers
        self.runs_ahead = loader.num_workers > 0
        self._batches: Any = None

    def _iterate(self, epoch: int) -> Iterator[Any]:
        self._batches = iter(self._copy)
        if self.runs_ahead or not self._rng.is_needed:
            return iter(self._batches)
        return self._isolated(self._batches, epoch)

    def _isolated(self, batches: Iterator[Any], epoch: int) -> Iterator[Any]:
        """Make each batch of a stream with random numbers of its own, if it draws any."""
        for number in itertools.count():
            if not self._rng.is_needed:
                yield from batches
                return
            try:
                with self._rng.isolated(self._seed_of(epoch, number)):
                    batch = next(batches)
            except StopIteration:
                return
            yield batch

    def _seed_of(self, epoch: int, number: int) -> int:
        return derive(self._seed, "batch", epoch, number)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.runs_ahead else {"random": self._rng.used}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rng.used = None if self.runs_ahead else state.get("random")

    def close(self) -> None:
        """End the workers, also stuck ones, for which the end of the process would wait."""
        batches, self._batches = self._batches, None
        self._attributes["_iterator"] = None
        if getattr(batches, "_workers", None):
            _end_workers(batches)


def _end_workers(batches: Any) -> None:
    """Let workers end by themselves, but not for long: torch waits five seconds for each."""
    if batches._worker_pids_set:
        # While torch watches over them, the death of one is an error of this process.
        _remove_worker_pids(id(batches))
        batches._worker_pids_set = False
    alarm = Alarm(lambda: _kill(batches._workers))
    alarm.set(time.monotonic() + PATIENCE_S)
    try:
        batches._shutdown_workers()
    finally:
        alarm.cancel()
        _kill(batches._workers)


def _kill(workers: Iterable[Any]) -> None:
    for worker in workers:
        if worker.is_alive():
            worker.kill()


class NumberedFeed(WorkerFeed):
    """The batches of a ``DataLoader`` of a dataset with indices: the sampler is advanced."""

    def __init__(self, loader: "DataLoader[Any]", seed: int) -> None:
        super().__init__(loader, seed)
        self._plain = copy.copy(loader)
        is_batched = loader.batch_sampler is not None
        sampler_name = "batch_sampler" if is_batched else "sampler"
        self.is_ordered_by_torch = _is_by_torch(self._attributes[sampler_name])
        self._numbering = Numbering(self._attributes[sampler_name])
        self._attributes[sampler_name] = self._numbering
        self._attributes["dataset"] = Source(
            loader.dataset, loader.collate_fn, self._rng, is_batched=is_batched
        )
        self._attributes["collate_fn"] = pass_on

    def start(self, epoch: int, start_batch: int = 0) -> Iterator[Any]:
        is_plain = self.is_ordered_by_torch and not self._rng.is_needed
        if is_plain and not self.runs_ahead and not start_batch:
            # Nothing is left to do for us: what stands in between would only cost time.
            self._batches = iter(self._plain)
            return iter(self._batches)
        if self._keeps_workers:
            self._start_kept_workers()
        self._numbering.start = start_batch
        if not self.is_ordered_by_torch:
            self._numbering.own_seed = derive(self._seed, "sampler", epoch)
        self._numbering.seed_of = lambda number: self._seed_of(epoch, number)
        self._batches = iter(self._copy)
        if start_batch:
            # Now, while the generators are as at the beginning of the epoch.
            self._numbering.skip()
        if self.runs_ahead:
            return iter(self._batches)
        return self._unnumbered_soon(self._batches)

    def _unnumbered_soon(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Number batches only as long as their random numbers may matter: it costs time."""
        if not self._rng.is_needed:
            self._numbering.seed_of = None
            return batches
        if self._rng.used is not None:
            return batches
        return self._watch_first(batches)

    def _watch_first(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if not self._rng.is_needed:
                self._numbering.seed_of = None
            yield batch
            break
        yield from batches

    def _start_kept_workers(self) -> None:
        """Draw here what a loader draws only when it starts its workers: the same in each epoch."""
        if self._copy._iterator is None:
            self._numbering.is_silent = True
            generator = self.loader.generator
            state = generator.get_state() if generator is not None else None
            with isolated_rng():
                iter(self._copy)
            if state is not None:
                generator.set_state(state)
            self._numbering.is_silent = False
        torch.empty((), dtype=torch.int64).random_(generator=self.loader.generator)


def _is_by_torch(sampler: Any) -> bool:
    inner = sampler.sampler if type(sampler) is BatchSampler else sampler
    return type(inner) in TORCH_SAMPLERS


class StatefulFeed(Feed):
    """The batches of a loader that knows its place itself."""

    def start(self, epoch: int, start_batch: int = 0) -> Iterator[Any]:
        return iter(self.loader)

    def state_dict(self) -> dict[str, Any]:
        return {"own": self.loader.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if "own" in state:
            self.loader.load_state_dict(state["own"])


def make_feed(loader: Any, seed: int) -> Feed:
    """Choose how to feed from a loader."""
    if isinstance(loader, TensorLoader):
        return MemoryFeed(loader, seed)
    if callable(getattr(loader, "state_dict", None)) and callable(
        getattr(loader, "load_state_dict", None)
    ):
        return StatefulFeed(loader, seed)
    # A subclass that iterates in its own way knows why.
    if isinstance(loader, DataLoader) and type(loader).__iter__ is DataLoader.__iter__:
        is_stream = isinstance(loader.dataset, IterableDataset)
        return WorkerFeed(loader, seed) if is_stream else NumberedFeed(loader, seed)
    return Feed(loader, seed)
