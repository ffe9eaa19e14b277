"""Build the datasets and the trainer of a stored configuration again, also without its data."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jade import torch_startup
from jade.assemble import Datasets, assemble
from jade.components import LazyComponents
from jade.config import Configuration
from jade.envvars import exported, read_environment
from jade.errors import ConfigError
from jade.fence import Fence
from jade.missing_dataset import MissingDataset
from jade.resolve import Resolved, resolve, resolve_one
from jade.seeding import isolated_rng
from jade.trainer import Trainer
from jade.user_modules import ModuleSet

# The settings that decide what is built; others may not even make sense on this machine.
DECISIVE = ("modules", "arch_impl", "stop_on_nan", "seed")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rebuilt:
    """A trainer, and datasets that say what is wrong when they cannot be built here."""

    trainer: Trainer
    datasets: LazyComponents


class Rebuilder:
    """Builds what a configuration describes, with the code of a folder.

    Args:
        config: As a run has stored it; ``modules`` and ``arch_impl`` are relative to the folder.
        folder: Of the project, or of a copy of its code.
        modules: Keeps the classes of a copy apart from others; None for the current project.
        sizes: How many samples each dataset had, for what stands in for one that is not here.
        fence: Keeps out what the configuration must not name, if it is not trusted.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        folder: Path,
        modules: ModuleSet | None = None,
        sizes: Mapping[str, int | None] | None = None,
        fence: Fence | None = None,
    ) -> None:
        values = {key: config[key] for key in DECISIVE if config.get(key) is not None}
        # Nothing is going to be trained, but a configuration has to say how long.
        sections = {name: config.get(name) or {} for name in ("data", "eval")}
        values |= {"epochs": 0, "model": config["model"], **sections}
        env_file = config.get("env_file")
        environ = read_environment(os.environ, env_file if _is_usable(env_file, fence) else None)
        self._configuration = Configuration(
            values=values, environ=environ, folder=folder, fence=fence
        )
        self._modules = modules
        self._sizes = dict(sizes or {})
        self._seed = int(config.get("seed") or 0)

    def datasets(self) -> LazyComponents:
        """Return the datasets, each built on first access with the variables of this machine."""
        names = self._configuration.values["data"]
        return Datasets({name: _Late(name, self.build_dataset) for name in names}, self._seed)

    def build_dataset(self, name: str) -> Any:
        """Build a dataset; what is wrong with another one does not matter."""
        with self.surroundings():
            return resolve_one(self._configuration, ("data", name)).build()

    def build_trainer(self, device: torch.device, datasets: LazyComponents) -> Trainer:
        """Build the trainer by its own ``initialize``; random numbers outside stay as they are."""
        torch_startup.defer_dynamo()
        available = _Available(datasets, self._sizes)
        with self.surroundings(), isolated_rng(self._seed):
            resolved = resolve(self._configuration, sections=("model",))
            return assemble(resolved, device, self._seed, available).trainer

    def resolve(self, change: Callable[[Configuration], Configuration]) -> Resolved:
        """Check the whole configuration, with what somebody changes in it."""
        with self.surroundings():
            return resolve(change(self._configuration), sections=("model", "data", "eval"))

    def build(self, resolved: Resolved, device: torch.device) -> "Rebuilt":
        """Build the trainer and the datasets of what ``resolve`` has returned."""
        torch_startup.defer_dynamo()
        datasets = Datasets(resolved.data, self._seed)
        available = _Available(datasets, self._sizes)
        with self.surroundings(), isolated_rng(self._seed):
            only = dataclasses.replace(resolved, evaluations={})
            return Rebuilt(assemble(only, device, self._seed, available).trainer, datasets)

    @contextlib.contextmanager
    def surroundings(self) -> Iterator[None]:
        """Have the variables and classes of the configuration in place."""
        in_use = self._modules.in_use() if self._modules else contextlib.nullcontext()
        with exported(self._configuration.environ), in_use, self._advised():
            yield

    @contextlib.contextmanager
    def _advised(self) -> Iterator[None]:
        fence = self._configuration.fence
        try:
            yield
        except ConfigError as error:
            if fence is None or not fence.advice:
                raise
            raise type(error)(f"{error}\n{fence.advice}") from error


def _is_usable(env_file: Any, fence: Fence | None) -> bool:
    """Tell whether variables come from a file: those for Python decide what workers execute."""
    if not isinstance(env_file, str) or not Path(env_file).is_file():
        return False
    return fence is None or fence.allows_file(Path(env_file))


def adopt_stored(trainer: Trainer, state: Mapping[str, Any]) -> None:
    """Let a trainer keep what its training has kept, such as the counters that settings name."""
    for name in state["stored"]:
        if hasattr(trainer, name):
            trainer.add_attribute_to_store(name)


def ready(trainer: Trainer, clock: Mapping[str, Any]) -> Trainer:
    """Return a trainer with its counters set and its networks in eval mode."""
    trainer._clock.iterations, trainer._clock.epochs = clock["iterations"], clock["epochs"]
    trainer._clock.seconds = clock["seconds"]
    trainer.eval()
    for module in trainer.loose_modules():
        module.eval()
    return trainer


@dataclass(frozen=True)
class _Late:
    """A dataset whose description is checked when it is built: it may not fit this machine."""

    name: str
    build_named: Callable[[str], Any]

    def build(self) -> Any:
        return self.build_named(self.name)


class _Available(LazyComponents):
    """Datasets, with something to stand in for those that cannot be built here."""

    def __init__(self, datasets: LazyComponents, sizes: Mapping[str, int | None]) -> None:
        super().__init__({name: _Late(name, datasets.__getitem__) for name in datasets}, "dataset")
        self._sizes = sizes

    def _build(self, name: str) -> Any:
        try:
            return super()._build(name)
        except Exception as error:
            logger.info("The dataset %r is not here: %s: %s", name, type(error).__name__, error)
            return MissingDataset(name, self._sizes.get(name), error)

    def _announce(self, name: str) -> None:
        """Say nothing: whoever has built it has said so."""
