"""Turn a resolved configuration into a device, datasets, a trainer, evaluations and loggers."""

import logging
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from jade import stateful
from jade.class_index import read_anyhow
from jade.components import Architectures, Blueprint, Buildable, LazyComponents
from jade.errors import ComponentError, DeviceError, suggest
from jade.eval import Evaluation
from jade.loggers.base import Logger
from jade.loggers.csv_logger import CsvLogger
from jade.loggers.relay import Relay, RelayProcess
from jade.loggers.wandb_account import resolve_mode
from jade.loss_window import LossWindow
from jade.resolve import Resolved
from jade.seeding import derive, isolated_rng
from jade.trainer import Trainer
from jade.warm_start import load_weights

AUTO = "auto"
# How devices are called, wherever they are.
DEVICES = (AUTO, "cpu", "cuda", "cuda:1", "mps")
# The number of a device of which there is one.
ONLY = ":0"
IMPORTS_WANDB = re.compile(r"^\s*(?:import|from)\s+wandb\b", re.MULTILINE)

logger = logging.getLogger(__name__)


@dataclass
class Assembled:
    """The objects of one run."""

    trainer: Trainer
    evaluations: dict[str, Evaluation]
    datasets: LazyComponents
    device: torch.device


def choose_device(name: str) -> torch.device:
    """Return a device that exists; ``auto`` takes the best one."""
    if name == AUTO:
        for kind, is_there in (("cuda", torch.cuda.is_available), ("mps", _has_mps)):
            if is_there():
                return torch.device(kind)
        logger.info("device auto: there is no GPU, the CPU is used.")
        return torch.device("cpu")
    device = parse_device(name)
    known = available()
    if str(device).removesuffix(ONLY) not in known and str(device) not in known:
        raise DeviceError(
            f"device: {name!r} is not available here; this machine has {', '.join(known)}."
        )
    return device


def parse_device(name: str) -> torch.device:
    """Return a device that this machine need not have."""
    try:
        return torch.device(name)
    except RuntimeError as error:
        meant = "cuda" if name.lower() == "gpu" else name
        raise DeviceError(f"device: {name!r} is no device.{suggest(meant, DEVICES)}") from error


def available() -> list[str]:
    """List the names of the devices of this machine."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    cuda = ["cuda", *(f"cuda:{index}" for index in range(count))] if count else []
    return [AUTO, "cpu", *cuda, *(["mps"] if _has_mps() else [])]


def _has_mps() -> bool:
    return bool(torch.backends.mps.is_available())


class Datasets(LazyComponents):
    """The datasets of a run, each built on first access with random numbers of its own.

    So it does not matter who asks first: an evaluation, or the trainer in the middle of a step.
    """

    def __init__(self, blueprints: Mapping[str, Buildable], seed: int) -> None:
        super().__init__(blueprints, "dataset")
        self._seed = seed
        self._states: dict[str, Any] = {}

    def _build(self, name: str) -> Any:
        with isolated_rng(derive(self._seed, "dataset", name)):
            return super()._build(name)

    def __getitem__(self, name: str) -> Any:
        is_new = name not in self._built
        dataset = super().__getitem__(name)
        if is_new:
            self._set_generators(name)
        return dataset

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the generators that datasets have of their own."""
        return {
            name: {k: stateful.state_of(g) for k, g in stateful.find_generators(dataset)}
            for name, dataset in self._built.items()
        }

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        """Put the generators back, those of a dataset that is built later when it is built."""
        self._states = dict(states)
        for name in self._built:
            self._set_generators(name)

    def _set_generators(self, name: str) -> None:
        states = self._states.pop(name, {})
        for path, generator in stateful.find_generators(self._built[name]):
            if path in states:
                stateful.load_state(generator, states[path])


def assemble(
    resolved: Resolved, device: torch.device, seed: int, datasets: LazyComponents | None = None
) -> Assembled:
    """Build the trainer and its evaluations; datasets are built when they are asked for.

    Args:
        resolved: What to build.
        device: Where the networks go.
        seed: Of the run; the caller has seeded the generators with it.
        datasets: In the place of those that are described.
    """
    datasets = Datasets(resolved.data, seed) if datasets is None else datasets
    architectures = Architectures(resolved.index, resolved.architecture_file)
    trainer = build_trainer(resolved.model, datasets, architectures, device)
    if resolved.settings.load is not None:
        load_weights(trainer, resolved.settings)
    trainer._losses = LossWindow(stop_on_nan=resolved.settings.stop_on_nan)
    evaluations = {}
    for name, blueprint in resolved.evaluations.items():
        # Each evaluation draws from a generator of its own: adding one changes no other.
        with isolated_rng(derive(seed, "initialize", name)):
            evaluations[name] = build_evaluation(name, blueprint, trainer, datasets)
        if resolved.settings.dry_run:
            evaluations[name].max_batches = 1
    return Assembled(trainer, evaluations, datasets, device)


def build_trainer(
    blueprint: Blueprint,
    datasets: Mapping[str, Any],
    architectures: Architectures,
    device: torch.device,
) -> Trainer:
    """Build a trainer by its own ``initialize``, and put all that it holds on the device."""
    trainer: Trainer = blueprint.target(
        datasets=datasets, architectures=architectures, device=device
    )
    trainer.initialize(**blueprint.build_params())
    trainer.to(device)
    for module in trainer.loose_modules():
        module.to(device)
    trainer.check_stored_attributes()
    if not hasattr(trainer, "train_loader"):
        raise ComponentError(
            f"{blueprint.target.__name__}.initialize must set self.train_loader, for instance "
            "self.train_loader = DataLoader(self.datasets['train'], batch_size=32, shuffle=True)."
        )
    return trainer


def build_evaluation(
    name: str, blueprint: Blueprint, trainer: Trainer, datasets: Mapping[str, Any]
) -> Evaluation:
    """Build an evaluation of a trainer by its own ``initialize``."""
    evaluation: Evaluation = blueprint.target(name, trainer, datasets)
    evaluation.initialize(**blueprint.build_params())
    return evaluation


def make_loggers(
    resolved: Resolved, relay: RelayProcess | None = None, *, has_wandb: bool = False
) -> list[Logger]:
    """Make the destinations that the settings ask for; nothing is opened yet.

    Args:
        resolved: The configuration.
        relay: The process that W&B can be in, if it has been started already.
        has_wandb: Whether somebody else than JADE has imported wandb.
    """
    settings = resolved.settings
    loggers: list[Logger] = [CsvLogger()]
    if settings.tensorboard and not settings.dry_run:
        from jade.loggers.tensorboard_logger import TensorboardLogger, require_tensorboard

        require_tensorboard()
        loggers.append(TensorboardLogger())
    if settings.wandb != "disabled" and not settings.dry_run:
        loggers.append(_make_wandb_logger(resolved, relay, has_wandb=has_wandb))
    loggers += [blueprint.build() for blueprint in resolved.loggers.values()]
    return loggers


def _make_wandb_logger(
    resolved: Resolved, relay: RelayProcess | None, *, has_wandb: bool
) -> Logger:
    """Log to W&B from another process, unless the user's code expects ``wandb.run`` in this one."""
    from jade.loggers.wandb_logger import WandbLogger

    mode, environ = resolved.settings.wandb, resolved.configuration.environ
    is_used = has_wandb or _imports_wandb(resolved)
    if resolve_mode(mode, environ) == "disabled" or is_used:
        return WandbLogger(mode, environ)
    return Relay(mode, environ, relay)


def has_foreign_wandb(relay: RelayProcess | None) -> bool:
    """Tell whether wandb was imported, and not by JADE before any code of the user."""
    return "wandb" in sys.modules and not (relay is not None and relay.has_wandb)


def _imports_wandb(resolved: Resolved) -> bool:
    return any(IMPORTS_WANDB.search(read_anyhow(path)) for path in resolved.code_files())


def count_parameters(trainer: Trainer) -> list[tuple[str, str, int, int]]:
    """Return the name, class, and numbers of trainable and fixed parameters of each network.

    A parameter that several networks share counts for the first of them.
    """
    seen: set[int] = set()
    own = dict(trainer.named_parameters(recurse=False))
    groups = [
        (name, type(module).__name__, module) for name, module in trainer.named_networks().items()
    ]
    rows = [(n, kind, *_count(module.parameters(), seen)) for n, kind, module in groups]
    return rows + [(n, "Parameter", *_count([p], seen)) for n, p in own.items()]


def _count(parameters: Iterable[torch.nn.Parameter], seen: set[int]) -> tuple[int, int]:
    trainable = total = 0
    for parameter in parameters:
        # One that waits for its first batch has no size yet.
        if id(parameter) not in seen and not torch.nn.parameter.is_lazy(parameter):
            total += parameter.numel()
            trainable += parameter.numel() if parameter.requires_grad else 0
        seen.add(id(parameter))
    return trainable, total - trainable
