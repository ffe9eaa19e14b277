"""Find out from where a run goes on, and what has changed since it was left."""

import logging
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jade import checkpoint, seal
from jade.code_copy import CodeCopy
from jade.errors import CheckpointError, ConfigError
from jade.lock import is_held
from jade.origin import Origin
from jade.overrides import Override
from jade.run_dir import FINISHED, PERIODIC, STOPPED, RunDir
from jade.runs import find_runs
from jade.saved_runs import is_same as is_same
from jade.saved_runs import load_config, read_json
from jade.schedule import EPOCHS, Amount, Clock, parse_amount

DAMAGED = ".damaged"
BEFORE_THE_FIRST_STEP = -1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Left:
    """A run as it was left.

    Attributes:
        directory: Where it is.
        state: What its newest good checkpoint holds; None if it has none, so that it starts again.
        source: The file of that checkpoint.
        goes_beyond: Whether to train on although there was a reason to end.
    """

    directory: RunDir
    state: Mapping[str, Any] | None = None
    source: Path | None = None
    goes_beyond: bool = False

    @property
    def iteration(self) -> int:
        """The last step whose rows in the log are valid."""
        if self.state is None:
            return BEFORE_THE_FIRST_STEP
        iteration: int = self.state["clock"]["iterations"]
        return iteration

    def total(self, additional: str) -> Amount:
        """Return the amount of training in all, if so much is added to what is done."""
        amount = parse_amount(additional, "additional")
        if self.state is None:
            return amount
        counters, place = self.state["trainer"]["stored"], self.state["loader"]
        clock = Clock(**self.state["clock"], counter=lambda unit: float(counters.get(unit, 0)))
        done = clock.read(amount.unit)
        if amount.unit == EPOCHS and place["batches"] and place["length"]:
            done += place["batches"] / place["length"]
        return Amount(done + amount.number, amount.unit)


def load_left(directory: RunDir) -> Left:
    """Load the newest checkpoint that is not damaged.

    Raises:
        CheckpointError: There are checkpoints, but all of them are damaged.
    """
    paths = _newest_first(directory)
    damaged = []
    for path in paths:
        try:
            state = checkpoint.load(path)
        except CheckpointError as error:
            logger.warning("%s The one before it is tried.", error)
            damaged.append(path)
            continue
        for broken in damaged:
            # It must not take the place of a good one when the next is written.
            broken.replace(broken.with_name(broken.name + DAMAGED))
        return Left(directory, state, path)
    if paths:
        raise CheckpointError(
            f"All {len(paths)} checkpoints in {directory.checkpoints} are damaged: nothing is left "
            "to go on from. Start the run again with jade train."
        )
    logger.info("%s has no checkpoint yet: it starts again.", directory.root)
    return Left(directory)


def _newest_first(directory: RunDir) -> list[Path]:
    if not directory.checkpoints.is_dir():
        return []
    named = (directory.last_checkpoint, directory.former_checkpoint, directory.best_checkpoint)
    paths = [path for path in (*named, *directory.periodic_checkpoints()) if path.is_file()]
    return sorted(paths, key=_iteration_of, reverse=True)


def _iteration_of(path: Path) -> float:
    """Tell how old a checkpoint is; one that cannot say so any more comes first, to be named."""
    iteration = seal.read_iteration(path)
    if iteration is None:
        match = PERIODIC.fullmatch(path.name)
        return float(match[1]) if match else math.inf
    return iteration


def continue_run(
    directory: RunDir, changes: Sequence[Override], total: Amount | None = None
) -> list[Override]:
    """Return the overrides that make the configuration of a run go on.

    Args:
        directory: Of the run.
        changes: What is to be otherwise than it was.
        total: How long the run is in all; None leaves that as it is.
    """
    limits = {} if total is None else as_limits(total)
    return [
        Override("config", [str(directory.config)], Origin(str(directory.config))),
        *changes,
        *(Override(key, value, Origin("argument --total")) for key, value in limits.items()),
        Override("resume", str(directory.root), Origin("argument RUN")),
    ]


def as_limits(amount: Amount) -> dict[str, Any]:
    """Return the settings by which a run is so long."""
    if amount.unit == EPOCHS and amount.number == int(amount.number):
        return {"epochs": int(amount.number), "train_for": None}
    return {"epochs": None, "train_for": str(amount)}


def find_changes(directory: RunDir) -> list[str]:
    """List what is not as it was when the run was started: versions and the user's code."""
    recorded = read_json(directory.provenance)
    changes = []
    then = recorded.get("packages", {}).get("torch")
    if then is not None and then.partition("+")[0] != torch.__version__.partition("+")[0]:
        changes.append(f"torch is {torch.__version__} here and was {then}")
    then = str(recorded.get("python", "")).partition(" ")[0]
    if then and then != platform.python_version():
        changes.append(f"Python is {platform.python_version()} here and was {then}")
    code = CodeCopy(directory.code, recorded.get("code") or {})
    return [*changes, *(f"the code differs: {name}" for name in code.changes(Path.cwd()))]


def find_unfinished(root: Path, frozen: Mapping[str, Any]) -> RunDir | None:
    """Find the newest run of a configuration that is not at its end and that nobody is in."""
    for run in find_runs(root):
        directory = RunDir(run.path)
        known = None if is_held(run.path) else _load_config(directory)
        if known is None or not is_same(known, frozen):
            continue
        if run.status not in (FINISHED, STOPPED) or _asks_for_more(known, frozen):
            return directory
    return None


def _load_config(directory: RunDir) -> dict[str, Any] | None:
    try:
        return load_config(directory)
    except ConfigError:
        return None


def _asks_for_more(known: Mapping[str, Any], frozen: Mapping[str, Any]) -> bool:
    if known.get("train_for") or frozen.get("train_for"):
        return known.get("train_for") != frozen.get("train_for")
    return (frozen.get("epochs") or 0) > (known.get("epochs") or 0)
