"""Remember where in an epoch training is, so that the way there can be found again."""

from typing import Any

import torch

from jade.components import size_of
from jade.schedule import Clock
from jade.seeding import rng_state


class Position:
    """What an epoch started from, and how many of its batches are behind us."""

    def __init__(self, clock: Clock) -> None:
        self.iterations_per_epoch: int | None = None
        self._clock = clock
        self._started_at = clock.iterations
        self._rng: dict[str, Any] | None = None
        self._generators: dict[str, torch.Tensor] | None = None

    @property
    def num_batches(self) -> int:
        """The number of batches of this epoch that have been used."""
        return self._clock.iterations - self._started_at

    def start_epoch(self, loader: Any) -> None:
        """Note the state of every generator that decides the order of the batches."""
        self.iterations_per_epoch = size_of(loader)
        self._started_at = self._clock.iterations
        self._rng = rng_state()
        self._generators = _generator_states(loader)

    def end_epoch(self) -> None:
        """Be between two epochs: the next one starts from wherever the generators are then."""
        self._started_at = self._clock.iterations
        self._rng = self._generators = None

    def state_dict(self, loader: Any) -> dict[str, Any]:
        """Return what going on within this epoch needs; a loader may know better itself."""
        own_state = getattr(loader, "state_dict", None)
        return {
            "batches": self.num_batches,
            "rng_at_epoch_start": self._rng,
            "generators_at_epoch_start": self._generators,
            "generators": _generator_states(loader),
            "own": own_state() if callable(own_state) else None,
        }


def _generator_states(loader: Any) -> dict[str, torch.Tensor]:
    """Return the states of the generators that a loader and its samplers have of their own."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    owners = {
        "loader": loader,
        "sampler": getattr(loader, "sampler", None),
        "batch_sampler": batch_sampler,
        "batch_sampler.sampler": getattr(batch_sampler, "sampler", None),
    }
    found = {name: getattr(owner, "generator", None) for name, owner in owners.items()}
    return {n: g.get_state() for n, g in found.items() if isinstance(g, torch.Generator)}
