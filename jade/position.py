"""Remember where in an epoch training is, and go on from there."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from jade import stateful
from jade.components import size_of
from jade.errors import MisfitError
from jade.feed import Feed, make_feed
from jade.schedule import Clock
from jade.seeding import base_rng_state, rng_state, set_rng_state
from jade.traits import atoms

# Attributes by which samplers know which epoch it is (torch's DistributedSampler does).
EPOCH = "epoch"

logger = logging.getLogger(__name__)


class Position:
    """What an epoch started from, and how many of its batches are behind us.

    Args:
        clock: Counts the steps.
        loader: Gives the batches; it may be another one in a later epoch.
        seed: The seed of the run.
    """

    def __init__(self, clock: Clock, loader: Any, seed: int) -> None:
        self.iterations_per_epoch: int | None = None
        self._clock = clock
        self._seed = seed
        self._started_at = clock.iterations
        self._beginning: dict[str, Any] | None = None
        self._resumed: Mapping[str, Any] | None = None
        # At once: what decides the random numbers of batches must not depend on what comes first.
        self._feed = make_feed(loader, seed)
        self._built = _plain_attributes(loader)

    @property
    def num_batches(self) -> int:
        """The number of batches of this epoch that have been used."""
        return self._clock.iterations - self._started_at

    @property
    def last_iteration(self) -> int:
        """The number of the last step of this epoch; of the first, if nobody knows its length."""
        return self._started_at + (self.iterations_per_epoch or 0)

    def start_epoch(self, loader: Any) -> Iterator[Any]:
        """Return the batches of the next epoch, or of the rest of one that was left."""
        self.iterations_per_epoch = size_of(loader)
        feed = self._feed_of(loader)
        resumed, self._resumed = self._resumed, None
        if resumed is not None and resumed["batches"]:
            return self._continue(feed, resumed)
        self._started_at = self._clock.iterations
        rng = base_rng_state() if feed.is_ordered_by_torch else rng_state()
        self._beginning = {"rng": rng, "samplers": self._sampler_states(loader)}
        return feed.start(self._clock.epochs)

    def end_epoch(self) -> None:
        """Be between two epochs: the next one starts from wherever the generators are then."""
        self._started_at = self._clock.iterations
        self._beginning = None

    def close(self) -> None:
        """End what makes batches."""
        self._feed.close()

    def state_dict(self, loader: Any) -> dict[str, Any]:
        """Return what going on within this epoch needs; a loader may know better itself."""
        return {
            "batches": self.num_batches,
            "length": size_of(loader),
            "ran_ahead": self._feed_of(loader).runs_ahead,
            "beginning": self._beginning,
            "samplers": self._sampler_states(loader),
            "feed": self._feed_of(loader).state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], loader: Any) -> None:
        """Go on from where ``state_dict`` was taken; the clock has been set already."""
        length = size_of(loader)
        if state["batches"] and length != state["length"]:
            raise MisfitError(
                f"The epoch cannot be continued: the train_loader had {state['length']} batches "
                f"per epoch and has {length} now. Is it the same data, in batches of the same size?"
            )
        if length != state["length"]:
            logger.warning(
                "The train_loader had %s batches per epoch and has %s now: training goes on with "
                "other batches.",
                state["length"],
                length,
            )
        self._started_at = self._clock.iterations - state["batches"]
        self._beginning = state["beginning"]
        self._resumed = state
        self._feed_of(loader).load_state_dict(state["feed"])
        self._load_sampler_states(loader, state["samplers"])

    def _feed_of(self, loader: Any) -> Feed:
        if self._feed.loader is not loader:
            self._feed.close()
            self._feed = make_feed(loader, self._seed)
            self._built = _plain_attributes(loader)
        return self._feed

    def _continue(self, feed: Feed, resumed: Mapping[str, Any]) -> Iterator[Any]:
        """Draw again what the epoch drew at its beginning, then be where training was left."""
        beginning = resumed["beginning"]
        now = rng_state()
        set_rng_state(beginning["rng"])
        self._load_sampler_states(feed.loader, beginning["samplers"])
        batches = feed.start(self._clock.epochs, resumed["batches"])
        set_rng_state(now)
        if not feed.runs_ahead and not resumed["ran_ahead"]:
            # With workers, more is drawn than is used, and not as much more now as then.
            self._load_sampler_states(feed.loader, resumed["samplers"], with_own=False)
        return batches

    def _sampler_states(self, loader: Any) -> dict[str, dict[str, Any]]:
        """Return what a loader and its samplers keep: generators, the epoch, counters, a state."""
        owners = _owners(loader)
        # As a rule one sampler is found in two places.
        distinct = {id(owner): (name, owner) for name, owner in owners.items()}
        states = {
            key: self._sampler_state(name, owner, loader) for key, (name, owner) in distinct.items()
        }
        return {name: states[id(owner)] for name, owner in owners.items()}

    def _sampler_state(self, name: str, owner: Any, loader: Any) -> dict[str, Any]:
        built = self._built.get(name, {})
        return {
            "generators": {k: stateful.state_of(g) for k, g in _generators(owner, loader)},
            EPOCH: owner.epoch if type(getattr(owner, EPOCH, None)) is int else None,
            # What has not changed since comes from the configuration, which may change.
            "attributes": {k: v for k, v in atoms(owner).items() if v != built.get(k, v)},
            "own": owner.state_dict() if _knows_its_state(owner, loader) else None,
        }

    def _load_sampler_states(
        self, loader: Any, states: Mapping[str, Mapping[str, Any]], *, with_own: bool = True
    ) -> None:
        for name, owner in _owners(loader).items():
            state = states.get(name)
            if state is None:
                continue
            for key, generator in _generators(owner, loader):
                if key in state["generators"]:
                    stateful.load_state(generator, state["generators"][key])
            # Older checkpoints have none.
            kept = {**self._built.get(name, {}), **state.get("attributes", {})}
            getattr(owner, "__dict__", {}).update(kept)
            if state[EPOCH] is not None:
                setattr(owner, EPOCH, state[EPOCH])
            if with_own and state["own"] is not None and _knows_its_state(owner, loader):
                owner.load_state_dict(state["own"])


def _plain_attributes(loader: Any) -> dict[str, dict[str, Any]]:
    """Return the counters and the like that samplers have; those of a loader are its own affair."""
    owners = _owners(loader).items()
    return {name: atoms(owner) for name, owner in owners if owner is not loader}


def _owners(loader: Any) -> dict[str, Any]:
    batch_sampler = getattr(loader, "batch_sampler", None)
    found = {
        "loader": loader,
        "sampler": getattr(loader, "sampler", None),
        "batch_sampler": batch_sampler,
        "batch_sampler.sampler": getattr(batch_sampler, "sampler", None),
    }
    return {name: owner for name, owner in found.items() if owner is not None}


def _generators(owner: Any, loader: Any) -> Iterator[tuple[str, Any]]:
    """Find the generators that decide the order; those of the dataset do not."""
    if owner is loader:
        generator = getattr(loader, "generator", None)
        if isinstance(generator, torch.Generator):
            yield "generator", generator
        return
    found = list(stateful.find_generators(owner))
    if not found:
        return
    of_data = {id(g) for _, g in stateful.find_generators(getattr(loader, "dataset", None))}
    yield from ((key, generator) for key, generator in found if id(generator) not in of_data)


def _knows_its_state(owner: Any, loader: Any) -> bool:
    return owner is not loader and stateful.has_state(owner)
