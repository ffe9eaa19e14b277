"""Keep gradients in checkpoints where one step adds to those of the step before."""

import math
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch

# Where nothing was to be seen after so many steps, nothing is to be saved by knowing more.
MOST_LOOKS = 5
# So many steps in a row must have replaced what was there: one may be the first of several that
# belong together.
ENOUGH = 2


class Gradients:
    """The gradients that lie between two steps; as a rule the next step throws them away.

    Then they are not worth the room in a checkpoint. Whether that is so is found out by looking at
    the first steps: gradients that are still there after the next one, or that the next one has
    used up, belong to more than one step. As long as nobody knows, they are stored. Training may
    begin to carry them later, so each checkpoint that leaves them out is followed by another look.

    Args:
        find_parameters: Returns what may have gradients, by name.
    """

    def __init__(self, find_parameters: Callable[[], Mapping[str, torch.Tensor]]) -> None:
        self._find_parameters = find_parameters
        self._are_carried: bool | None = None
        self._seen: dict[str, weakref.ref[torch.Tensor]] = {}
        self._seen_at: int | None = None
        self._num_left = MOST_LOOKS
        self._num_replaced = 0

    def next_look(self) -> float:
        """Return the iteration after which to look again."""
        if self._seen_at is None or self._num_left == 0:
            return math.inf
        return self._seen_at + 1

    def look(self, iteration: int) -> None:
        """Look at what lies there after a step, or before the first one of a process."""
        if self._num_left == 0:
            return
        found = self._find()
        if self._seen_at is not None and iteration == self._seen_at + 1:
            self._num_left -= 1
            if any(n not in found or found[n] is seen() for n, seen in self._seen.items()):
                self._are_carried, self._num_left = True, 0
            elif self._seen:
                self._num_replaced += 1
                if self._num_replaced >= ENOUGH:
                    self._are_carried, self._num_left = False, 0
        self._remember(found, iteration)

    def state_dict(self, iteration: int) -> dict[str, Any]:
        """Return the gradients, if they matter to the next step or may do so."""
        found = self._find()
        if self._are_carried is not False:
            return found
        self._remember(found, iteration)
        self._num_left = 1
        return {}

    def _remember(self, found: Mapping[str, torch.Tensor], iteration: int) -> None:
        self._seen = {name: weakref.ref(gradient) for name, gradient in found.items()}
        self._seen_at = iteration

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put gradients back where they were."""
        for name, parameter in self._find_parameters().items():
            if name in state:
                parameter.grad = state[name].to(parameter.device)

    def _find(self) -> dict[str, torch.Tensor]:
        parameters = self._find_parameters()
        return {n: p.grad for n, p in parameters.items() if p.grad is not None}
