"""Start a training from weights that another one has left behind."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jade import checkpoint
from jade.errors import CheckpointError, ConfigError, suggest
from jade.model_file import SUFFIX, ModelFile, is_model_file
from jade.remote.cached_run import CachedRun
from jade.remote.place import find_anywhere, names_remote_run
from jade.runs import find_directory
from jade.saved_runs import find_checkpoint
from jade.seeding import isolated_rng
from jade.settings import Settings
from jade.trainer import Trainer

logger = logging.getLogger(__name__)


def find_weights(given: str, root: Path) -> Path:
    """Find a file with weights.

    Args:
        given: A checkpoint, a model file, or a run (its directory or id, or a reference to one on
            W&B), which stands for its best checkpoint if it has one, else the last.
        root: Where runs are found by their ids.
    """
    path = Path(given)
    if path.is_file():
        return path
    if path.suffix in (".pt", SUFFIX):
        near = [item.name for item in path.parent.glob(f"*{path.suffix}")]
        raise ConfigError(f"There is no file {given}.{suggest(path.name, near)}")
    found = find_anywhere(given, root)
    if isinstance(found, CachedRun):
        return found.fetch_checkpoint(None)
    return find_checkpoint(found).path


def find_local_weights(given: str, root: Path) -> Path | None:
    """Find weights as ``find_weights`` does, but do not ask W&B; None if only W&B can tell."""
    if Path(given).is_file() or not names_remote_run(given):
        return find_weights(given, root)
    try:
        return find_checkpoint(find_directory(given, root)).path
    except ConfigError:
        return None


def load_weights(trainer: Trainer, settings: Settings) -> None:
    """Load the networks that the setting ``load`` names, and nothing else: no random number more.

    Raises:
        ConfigError: The file cannot be read; or not all of it fits, and ``load_strict`` is true.
    """
    path = find_weights(str(settings.load), Path(settings.experiments_root))
    try:
        state = _read(path)
        with isolated_rng():
            left_out = trainer.load_networks(state, strict=settings.load_strict)
    except CheckpointError as error:
        hint = "\n--load_strict false loads what fits." if settings.load_strict else ""
        raise ConfigError(f"load: {path}: {error}{hint}") from error
    logger.info("weights of %s loaded from %s", state.get("class"), path)
    if left_out:
        logger.warning("not loaded from %s: %s", path, "; ".join(left_out))


def _read(path: Path) -> Mapping[str, Any]:
    content = ModelFile(path).load_state() if is_model_file(path) else checkpoint.load(path)
    state: Mapping[str, Any] = content["trainer"]
    return state
