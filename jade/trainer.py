"""Define Trainer: what a user builds in ``initialize`` and does in ``train_step``."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from jade.batch import TensorLoader
from jade.checkpoint import storable
from jade.components import Architectures, ClassIndex, LazyComponents
from jade.errors import CheckpointError, ComponentError, suggest
from jade.loss_window import LossWindow
from jade.schedule import Clock

logger = logging.getLogger(__name__)


class Trainer(nn.Module):
    """A training algorithm.

    To write one: subclass, build networks, optimizers and ``self.train_loader`` in
    ``initialize(...)``, whose parameters come from the configuration, and do one optimisation
    step in ``train_step(data)``. Everything with state is kept in checkpoints by itself.
    """

    is_set_up_by_initialize = True

    train_loader: Iterable[Any]

    def __init__(
        self,
        *,
        datasets: Mapping[str, Any] | None = None,
        architectures: Architectures | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__()
        self._datasets = datasets if datasets is not None else LazyComponents({}, "dataset")
        self._architectures = architectures or Architectures(ClassIndex([]), None)
        self._device = torch.device(device)
        self._clock = Clock(counter=self._read_counter)
        self._losses = LossWindow()
        self._stored: list[str] = []
        self._excluded: list[str] = []
        self._end_reason: str | None = None
        self._wake: Callable[[], None] = lambda: None
        self._own_names: frozenset[str] = frozenset()
        self._own_names = frozenset(vars(self))

    # What a user writes

    def initialize(self, **params: Any) -> None:
        """Build everything; the parameters of your version come from the configuration."""
        raise NotImplementedError(f"{type(self).__name__} must define initialize(...).")

    def train_step(self, data: Any) -> None:
        """Do one step on a batch, which is on the trainer's device."""
        raise NotImplementedError(f"{type(self).__name__} must define train_step(data).")

    def on_start(self) -> None:
        """Do something once before the first step."""

    def on_iteration_end(self) -> None:
        """Do something after each step."""

    def on_epoch_end(self) -> None:
        """Do something after each epoch."""

    def on_end(self) -> None:
        """Do something once after the last step, before the last evaluations."""

    # What a user calls

    @property
    def iterations(self) -> int:
        """The number of steps done; the loop counts."""
        return self._clock.iterations

    @property
    def epochs(self) -> int:
        """The number of epochs done; the loop counts."""
        return self._clock.epochs

    @property
    def datasets(self) -> Mapping[str, Any]:
        """The datasets of the configuration by name, each built on first access."""
        return self._datasets

    def get_dataset(self, name: str) -> Any:
        """Return a dataset of the configuration."""
        return self._datasets[name]

    def get_device(self) -> torch.device:
        """Return the device that batches and networks are on."""
        return self._device

    def instantiate_architecture(self, name: str, **params: Any) -> Any:
        """Build a network class of the file given by ``--arch_impl``."""
        return self._architectures.build(name, params)

    def make_loader(
        self,
        dataset: Any,
        batch_size: int,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> TensorLoader:
        """Make the fast loader for a dataset (or its name) that fits in memory."""
        source = self._datasets[dataset] if isinstance(dataset, str) else dataset
        return TensorLoader(source, batch_size, shuffle=shuffle, drop_last=drop_last)

    def add_loss_item(self, name: str, value: Any) -> None:
        """Add a number or one-element tensor to the log, as a mean over ``log_loss_every``."""
        self._losses.add(name, value)

    def add_attribute_to_store(self, name: str) -> None:
        """Keep an attribute in checkpoints that is not a module, optimizer or scheduler."""
        if name not in self._stored:
            self._stored.append(name)

    def exclude_attribute_from_store(self, name: str) -> None:
        """Leave an attribute out of checkpoints (a frozen pretrained network, for instance)."""
        if name not in self._excluded:
            self._excluded.append(name)

    def end_training(self, reason: str = "end_training was called") -> None:
        """End training after this step; the reason is recorded with the run."""
        self._end_reason = reason
        self._wake()

    # Its state

    def check_stored_attributes(self) -> None:
        """Refuse names that were given to be stored or left out, but do not exist."""
        for name in (*self._stored, *self._excluded):
            if not hasattr(self, name):
                own = [key for key in (*vars(self), *self._modules) if key not in self._own_names]
                raise ComponentError(
                    f"{type(self).__name__} has no attribute {name!r} to store or leave out."
                    f"{suggest(name, own)}"
                )

    def full_state(self) -> dict[str, Any]:
        """Return everything that training needs to go on: modules, optimizers, stored values."""
        modules = {
            key: value
            for key, value in self.state_dict().items()
            if key.partition(".")[0] not in self._excluded
        }
        return {
            "class": type(self).__name__,
            "modules": modules,
            "stateful": {name: _state_of(value) for name, value in self._stateful().items()},
            "stored": {
                name: storable(getattr(self, name), f"{type(self).__name__}.{name}")
                for name in self._plain_stored()
            },
            "losses": self._losses.state_dict(),
        }

    def load_full_state(self, state: Mapping[str, Any], *, strict: bool = True) -> list[str]:
        """Load what ``full_state`` returned.

        Returns:
            What was left out; always empty when strict.

        Raises:
            CheckpointError: Something is missing or does not fit, and ``strict`` is true.
        """
        modules, problems = self._fitting_modules(state["modules"])
        for part, own in (("stateful", self._stateful()), ("stored", self._plain_stored())):
            problems += _difference(state[part], own, part)
        if problems and strict:
            listed = "\n".join(f"  - {problem}" for problem in problems)
            origin = f"The checkpoint of {state.get('class')}"
            raise CheckpointError(f"{origin} does not fit {type(self).__name__}:\n{listed}")
        self.load_state_dict(modules, strict=False)
        for name, value in self._stateful().items():
            if name in state["stateful"]:
                _load_into(value, state["stateful"][name])
        for name in self._plain_stored():
            if name in state["stored"]:
                setattr(self, name, _like(getattr(self, name), state["stored"][name]))
        self._losses.load_state_dict(state["losses"])
        return problems

    def _fitting_modules(self, modules: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        own = self.state_dict()
        fitting, problems = {}, []
        for key, value in modules.items():
            if key not in own:
                problems.append(f"{key} is in the checkpoint only")
            elif isinstance(value, torch.Tensor) and value.shape != own[key].shape:
                shapes = f"{tuple(value.shape)} in the checkpoint, {tuple(own[key].shape)} here"
                problems.append(f"{key} has the shape {shapes}")
            else:
                fitting[key] = value
        missing = [k for k in own if k not in modules and k.partition(".")[0] not in self._excluded]
        problems += [f"{key} is not in the checkpoint" for key in missing]
        return fitting, problems

    def _stateful(self) -> dict[str, Any]:
        """Find the attributes that keep state of their own: optimizers, schedulers, scalers."""
        hidden = {"train_loader", *self._own_names, *self._excluded}
        return {
            name: value
            for name, value in vars(self).items()
            if name not in hidden and _has_state(value)
        }

    def _plain_stored(self) -> list[str]:
        stateful = self._stateful()
        named = (name for name in self._stored if name not in stateful)
        return [name for name in named if not isinstance(getattr(self, name), nn.Module)]

    def _read_counter(self, unit: str) -> float:
        value = getattr(self, unit, None)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            counters = [k for k, v in vars(self).items() if type(v) in (int, float)]
            known = ["epochs", "iterations", "seconds", "minutes", "hours", *counters]
            raise ComponentError(
                f"{unit!r} is neither a unit nor a counter of {type(self).__name__}."
                f"{suggest(unit, known)}"
            )
        return float(value)


def _has_state(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(_has_state(item) for item in value)
    if isinstance(value, dict):
        return bool(value) and all(_has_state(item) for item in value.values())
    return callable(getattr(value, "state_dict", None)) and callable(
        getattr(value, "load_state_dict", None)
    )


def _state_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_state_of(item) for item in value]
    if isinstance(value, dict):
        return {key: _state_of(item) for key, item in value.items()}
    return value.state_dict()


def _load_into(value: Any, state: Any) -> None:
    if isinstance(value, (list, tuple)):
        for item, item_state in zip(value, state, strict=True):
            _load_into(item, item_state)
    elif isinstance(value, dict):
        for key, item in value.items():
            _load_into(item, state[key])
    else:
        value.load_state_dict(state)


def _difference(stored: Iterable[str], own: Iterable[str], part: str) -> list[str]:
    stored, own = set(stored), set(own)
    return [f"{name} ({part}) is in the checkpoint only" for name in sorted(stored - own)] + [
        f"{name} ({part}) is not in the checkpoint" for name in sorted(own - stored)
    ]


def _like(current: Any, stored: Any) -> Any:
    """Return a stored tensor as a numpy array where that is what the attribute holds."""
    if isinstance(stored, torch.Tensor) and type(current).__module__ == "numpy":
        return stored.numpy()
    return stored
