"""Keep the checkpoints of a run: the last state, the best one, and some on the way."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jade import checkpoint
from jade.errors import CheckpointError, NonFiniteLossError
from jade.run_dir import RunDir
from jade.stateful import find_spoilt
from jade.trainer import Trainer

logger = logging.getLogger(__name__)


class Keeper:
    """Writes checkpoints; a disk that is full is reported, and training goes on.

    Args:
        trainer: Whose state is kept.
        directory: Where checkpoints go.
        read_state: Returns what a checkpoint holds.
        keep_last: How many periodic checkpoints stay; None means all.
        refuses_nan: Whether a good checkpoint must not give way to one with NaN in it.
    """

    def __init__(
        self,
        trainer: Trainer,
        directory: RunDir,
        read_state: Callable[[], dict[str, Any]],
        *,
        keep_last: int | None = None,
        refuses_nan: bool = True,
    ) -> None:
        self._trainer = trainer
        self._directory = directory
        self._read_state = read_state
        self._keep_last = keep_last
        self._refuses_nan = refuses_nan

    def save_last(self) -> bool:
        """Write ``last.pt``; tell whether that worked."""
        self._check_finite()
        return self._save(self._directory.last_checkpoint)

    def save_final(self) -> None:
        """Write ``last.pt`` at the end; without the result of training, a run has failed."""
        self._check_finite()
        checkpoint.save(self._read_state(), self._directory.last_checkpoint)

    def save_in_need(self) -> None:
        """Write ``last.pt`` while another error is on its way, which must not be covered."""
        try:
            self.save_last()
        except Exception as error:
            logger.error("The state is not stored: %s", error)

    def save_best(self) -> None:
        """Write ``best.pt``."""
        self._save(self._directory.best_checkpoint)

    def save_periodic(self) -> None:
        """Write ``checkpoint_<iteration>.pt``, and remove those that are too old."""
        self._check_finite()
        if self._save(self._directory.checkpoint(self._trainer.iterations)):
            checkpoint.prune(self._directory, self._keep_last)

    def keep_last_good(self, error: NonFiniteLossError) -> None:
        """Write the state before a step that went wrong, unless the step has spoilt it already."""
        last = self._directory.last_checkpoint
        spoilt = self._find_spoilt()
        if spoilt is None and self._save(last):
            kept = f"{last.name} holds that state"
        elif last.exists() or self._directory.periodic_checkpoints():
            kept = f"{spoilt} is not finite, so the checkpoints from before were left as they are"
        else:
            kept = f"{spoilt} is not finite, and there was no checkpoint yet (see --backup_every)"
        error.args = (f"{error} It was after iteration {self._trainer.iterations}; {kept}.",)

    def _check_finite(self) -> None:
        spoilt = self._find_spoilt() if self._refuses_nan else None
        if spoilt is not None:
            raise NonFiniteLossError(f"Training has diverged: {spoilt} is not finite.")

    def _find_spoilt(self) -> str | None:
        return find_spoilt([self._trainer, *self._trainer.loose_modules()])

    def _save(self, path: Path) -> bool:
        try:
            checkpoint.save(self._read_state(), path)
        except CheckpointError as error:
            if error.__cause__ is None:
                raise
            logger.error("%s The previous checkpoint stays.", error)
            return False
        return True
