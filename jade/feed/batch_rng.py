"""Give each batch random numbers of its own, whichever process makes it, and in whatever order."""

import contextlib
import hashlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from jade import stateful
from jade.seeding import derive


class Stream:
    """One generator that the making of a batch may draw from.

    Args:
        name: What it is called in a checkpoint.
        generator: A generator of torch, of NumPy or of Python.
        salt: Tells it from others; a generator that a dataset seeded itself keeps its own.
    """

    def __init__(self, name: str, generator: Any, salt: str = "") -> None:
        self.name = name
        self._generator = generator
        self._salt = salt

    @property
    def is_own(self) -> bool:
        """Whether it belongs to a dataset."""
        return bool(self._salt)

    def save(self) -> Any:
        """Return the state of the generator."""
        return stateful.state_of(self._generator)

    def restore(self, state: Any) -> None:
        """Put a state back that ``save`` returned."""
        stateful.load_state(self._generator, state)

    def seed(self, seed: int) -> None:
        """Seed the generator for a batch."""
        seed = derive(seed, self._salt) if self._salt else seed
        generator = self._generator
        if isinstance(generator, torch.Generator):
            generator.manual_seed(seed)
        elif isinstance(generator, random.Random):
            generator.seed(seed)
        elif isinstance(generator, np.random.RandomState):
            generator.seed(seed % 2**32)
        else:
            fresh = type(generator.bit_generator)(seed)
            generator.bit_generator.state = fresh.state


def global_streams() -> list[Stream]:
    """Return the generators that every process has."""
    return [
        Stream("torch", torch.default_generator),
        # What the functions of these modules draw from.
        Stream("random", random._inst),
        Stream("numpy", np.random.mtrand._rand),
    ]


class OwnRng:
    """Lets a sampler go on with random numbers of its own once it has begun.

    One that draws now and then could not be put back where it was: what it draws would depend on
    how much training has drawn in between, and on how far workers are ahead. What it draws for its
    first choice, as a rule the order of an epoch, it draws like any sampler.

    Args:
        seed: Of what it draws later.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        # Of those that it draws from; None before the first choice.
        self._streams: list[Stream] | None = None
        self._own: list[Any] = []
        self._before: list[Any] = []

    def __enter__(self) -> None:
        streams = global_streams() if self._streams is None else self._streams
        self._before = [stream.save() for stream in streams]
        for stream, state in zip(streams, self._own, strict=self._streams is not None):
            stream.restore(state)

    def __exit__(self, *_: object) -> None:
        if self._streams is None:
            self._begin()
            return
        self._own = [stream.save() for stream in self._streams]
        for stream, state in zip(self._streams, self._before, strict=True):
            stream.restore(state)

    def _begin(self) -> None:
        """Find out what was drawn from, and where it goes on from apart from training."""
        after = [(stream, stream.save()) for stream in global_streams()]
        moved = zip(after, self._before, strict=True)
        drawn = [item for item, before in moved if not _is_same(item[1], before)]
        self._streams = [stream for stream, _ in drawn]
        for stream, state in drawn:
            stream.seed(self._seed)
            self._own.append(stream.save())
            stream.restore(state)


class BatchRng:
    """The generators that a dataset may draw from: the global ones, and those it has itself.

    Args:
        dataset: Where to look for generators.
        salts: What tells the dataset's own generators apart, by path; made from their states if
            it is not given, so that a dataset that was seeded otherwise gives other batches.

    Attributes:
        used: The names of the streams that are known to be drawn from; None if nobody knows yet.
    """

    def __init__(self, dataset: Any, salts: dict[str, str] | None = None) -> None:
        self.used: list[str] | None = None
        own = dict(stateful.find_generators(dataset))
        self.salts = salts or {
            path: f"{path} {_digest(stateful.state_of(generator))}"
            for path, generator in own.items()
        }
        self._streams = [
            *global_streams(),
            *(Stream(path, own[path], self.salts[path]) for path in own),
        ]

    @property
    def is_needed(self) -> bool:
        """Whether batches draw random numbers, as far as is known."""
        return self.used is None or bool(self.used)

    def seed(self, seed: int) -> None:
        """Seed all generators, in a process that makes nothing but batches."""
        for stream in self._streams:
            stream.seed(seed)

    @contextlib.contextmanager
    def isolated(self, seed: int) -> Iterator[None]:
        """Make a batch with random numbers of its own; training does not notice.

        The first time this finds out which generators are drawn from. The others are left alone
        after that: saving and restoring them takes longer than many a batch.
        """
        streams = [s for s in self._streams if self.used is None or s.name in self.used]
        before = [stream.save() for stream in streams]
        for stream in streams:
            stream.seed(seed)
        seeded = [stream.save() for stream in streams] if self.used is None else []
        try:
            yield
            if self.used is None:
                moved = [not _is_same(s.save(), at) for s, at in zip(streams, seeded, strict=True)]
                # A dataset with a generator of its own will use it sooner or later, and one that
                # draws from one library may well draw from another for a few samples only.
                draws = any(moved)
                self.used = [stream.name for stream in streams if draws or stream.is_own]
        finally:
            for stream, state in zip(streams, before, strict=True):
                stream.restore(state)


def _is_same(one: Any, other: Any) -> bool:
    return _digest(one) == _digest(other)


def _digest(state: Any) -> str:
    """Return a short text that tells states of generators from each other."""
    digest = hashlib.blake2b(digest_size=8)
    _update(digest, state)
    return digest.hexdigest()


def _update(digest: "hashlib.blake2b", value: Any) -> None:
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        digest.update(value.tobytes())
    elif isinstance(value, dict):
        for key in sorted(value):
            digest.update(key.encode())
            _update(digest, value[key])
    elif isinstance(value, (tuple, list)) and any(isinstance(v, np.ndarray) for v in value):
        for item in value:
            _update(digest, item)
    else:
        digest.update(repr(value).encode())
