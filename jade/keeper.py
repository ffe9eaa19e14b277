"""Keep the checkpoints of a run: the last state, the best one, and some on the way."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jade import checkpoint
from jade.errors import CheckpointError, NonFiniteLossError
from jade.run_dir import RunDir
from jade.state_copy import StateCopy
from jade.stateful import Watched, find_spoilt, watch
from jade.trainer import Trainer
from jade.writer import Writer

logger = logging.getLogger(__name__)


class Keeper:
    """Writes checkpoints; a disk that is full is reported, and training goes on.

    On the way they are written in the background, and training waits only until its state is
    copied. What ends a run is written before it ends.

    Args:
        trainer: Whose state is kept.
        directory: Where checkpoints go.
        read_state: Returns what a checkpoint holds.
        wake: Makes the loop call ``check`` soon.
        keep_last: How many periodic checkpoints stay; None means all.
        refuses_nan: Whether a good checkpoint must not give way to one with NaN in it.
    """

    def __init__(
        self,
        trainer: Trainer,
        directory: RunDir,
        read_state: Callable[[], dict[str, Any]],
        wake: Callable[[], None],
        *,
        keep_last: int | None = None,
        refuses_nan: bool = True,
    ) -> None:
        self._trainer = trainer
        self._directory = directory
        self._read_state = read_state
        self._wake = wake
        # Is told of each checkpoint that has been written, by the thread that has written it.
        self.on_written: Callable[[Path], None] = lambda _: None
        self._keep_last = keep_last
        self._refuses_nan = refuses_nan
        self._copy = StateCopy()
        self._writer = Writer()
        self._spoilt: str | None = None
        self._distrust: str | None = None
        self._best_wanted: int | None = None
        self._best_written: int | None = None

    # On the way

    def save_last(self) -> None:
        """Write ``last.pt`` in the background."""
        directory = self._directory
        self._save_soon(directory.last_checkpoint, directory.former_checkpoint)

    def save_best(self) -> None:
        """Write ``best.pt`` in the background."""
        iteration = self._best_wanted = self._trainer.iterations

        def note() -> None:
            self._best_written = iteration

        self._save_soon(self._directory.best_checkpoint, then=note)

    def save_periodic(self) -> None:
        """Write ``checkpoint_<iteration>.pt`` in the background, and remove what is too old."""
        path = self._directory.checkpoint(self._trainer.iterations)
        self._save_soon(path, then=lambda: checkpoint.prune(self._directory, self._keep_last))

    def check(self) -> None:
        """Raise if the state that was to be written in the background has turned out spoilt."""
        if self._spoilt is not None:
            raise NonFiniteLossError(f"Training has diverged: {self._spoilt} is not finite.")

    def close(self) -> None:
        """Wait for what is being written."""
        self._writer.close()
        if self._best_written != self._best_wanted:
            logger.error(
                "The state of iteration %s, which is the best one, could not be written: "
                "%s is not it.",
                self._best_wanted,
                self._directory.best_checkpoint.name,
            )

    # At the end

    def distrust(self, reason: str) -> None:
        """Keep the checkpoints from before: the state is not that of training any more."""
        self._distrust = reason

    def save_stopped(self) -> bool:
        """Write ``last.pt`` before a run stops that goes on later; tell whether that worked."""
        if self._distrust is not None:
            logger.warning("%s: the checkpoint from before is left as it is.", self._distrust)
            return False
        self._check_finite()
        return self._save_now()

    def save_final(self) -> None:
        """Write ``last.pt`` at the end; without the result of training, a run has failed."""
        self._writer.wait()
        self._check_finite()
        self._write(self._read_state())

    def save_in_need(self) -> None:
        """Write ``last.pt`` while another error is on its way, which must not be covered."""
        try:
            self.save_stopped()
        except Exception as error:
            logger.error("The state is not stored: %s", error)

    def keep_last_good(self, error: NonFiniteLossError) -> None:
        """Write the state before a step that went wrong, unless the step has spoilt it already."""
        last = self._directory.last_checkpoint
        self._writer.wait()
        spoilt = self._find_spoilt()
        if spoilt is None and self._save_now():
            kept = f"{last.name} holds that state"
        elif last.exists() or self._directory.periodic_checkpoints():
            kept = f"{spoilt} is not finite, so the checkpoints from before were left as they are"
        else:
            kept = f"{spoilt} is not finite, and there was no checkpoint yet (see --backup_every)"
        error.args = (f"{error} It was after iteration {self._trainer.iterations}; {kept}.",)

    def _check_finite(self) -> None:
        self._spoilt = self._find_spoilt() if self._refuses_nan else None
        self.check()

    def _find_spoilt(self) -> str | None:
        return find_spoilt(self._watched())

    def _watched(self) -> list[Watched]:
        return watch([self._trainer, *self._trainer.loose_modules()])

    def _save_now(self) -> bool:
        self._writer.wait()
        try:
            self._write(self._read_state())
        except CheckpointError as error:
            if error.__cause__ is None:
                raise
            logger.error("%s The previous checkpoint stays.", error)
            return False
        return True

    def _write(self, state: dict[str, Any]) -> None:
        directory = self._directory
        _sync(directory.metrics)
        checkpoint.save(state, directory.last_checkpoint, directory.former_checkpoint)
        self.on_written(directory.last_checkpoint)

    def _save_soon(
        self, path: Path, former: Path | None = None, then: Callable[[], None] | None = None
    ) -> None:
        """Copy the state, and let it be written while training goes on."""
        if self._distrust is not None:
            return
        self._writer.wait()
        content = self._copy.take(checkpoint.storable(self._read_state(), "checkpoint"))
        watched = [
            item._replace(tensor=copied)
            for item in (self._watched() if self._refuses_nan else ())
            if (copied := self._copy.find(item.tensor)) is not None
        ]

        def write() -> None:
            spoilt = find_spoilt(watched)
            if spoilt is not None:
                self._spoilt = spoilt
                self._wake()
                return
            _sync(self._directory.metrics)
            checkpoint.write(content, path, former)
            if then is not None:
                then()
            self.on_written(path)

        self._writer.write(str(path), write)


def _sync(path: Path) -> None:
    """Flush a file to the disk: the rows of a step must not be lost when its state is kept."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
