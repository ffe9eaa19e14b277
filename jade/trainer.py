"""Define Trainer: what a user builds in ``initialize`` and does in ``train_step``."""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import torch
from torch import nn

from jade import stateful
from jade.checkpoint import fit_to, restored, storable
from jade.components import Architectures, ClassIndex, LazyComponents
from jade.errors import CheckpointError, ComponentError, MisfitError, suggest
from jade.in_memory import TensorLoader
from jade.loss_window import LossWindow
from jade.schedule import Clock
from jade.traits import Traits

logger = logging.getLogger(__name__)

# So many paths are enough to see what a warning is about.
MAX_LISTED = 5

_COUNTED = "The loop counts: remove the line of {name} that sets self.{counter}."


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
        self._traits: Traits | None = None
        self._wake: Callable[[], None] = lambda: None
        self._own_names: frozenset[str] = frozenset()
        self._own_names = frozenset(vars(self))

    def __getattr__(self, name: str) -> Any:
        # Every step asks for networks: torch finds them, too, but in more time.
        try:
            return self.__dict__["_modules"][name]
        except KeyError:
            return super().__getattr__(name)

    # What a user writes

    def initialize(self, **params: Any) -> None:
        """Build everything; the parameters of your version come from the configuration."""
        raise NotImplementedError(f"{type(self).__name__} must define initialize(...).")

    def train_step(self, data: Any) -> None:
        """Do one step on a batch, which is on the trainer's device."""
        raise NotImplementedError(f"{type(self).__name__} must define train_step(data).")

    def on_start(self) -> None:
        """Do something once before the first step."""

    def on_resume(self) -> None:
        """Do something when a run goes on, after its state was loaded (``on_start`` was before)."""

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

    @iterations.setter
    def iterations(self, _: Any) -> NoReturn:
        raise AttributeError(_COUNTED.format(name=type(self).__name__, counter="iterations"))

    @property
    def epochs(self) -> int:
        """The number of epochs done; the loop counts."""
        return self._clock.epochs

    @epochs.setter
    def epochs(self, _: Any) -> NoReturn:
        raise AttributeError(_COUNTED.format(name=type(self).__name__, counter="epochs"))

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
        built = self._architectures.build(name, params)
        return built.to(self._device) if isinstance(built, nn.Module) else built

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
        """Refuse what could not be stored: training must not end in a missing checkpoint."""
        for name in (*self._stored, *self._excluded):
            if not hasattr(self, name):
                own = [key for key in (*vars(self), *self._modules) if key not in self._own_names]
                raise ComponentError(
                    f"{type(self).__name__} has no attribute {name!r} to store or leave out."
                    f"{suggest(name, own)}"
                )
        # From here on: what ``initialize`` has built comes from the configuration.
        loose = {n: item for n, item in self._stateful().items() if isinstance(item, nn.Module)}
        self._traits = Traits({"": self, **loose}, self._is_excluded)
        try:
            storable(self.full_state(), type(self).__name__)
        except CheckpointError as error:
            raise ComponentError(str(error)) from error
        held = {**self._stateful(), **self._modules, **self._parameters}
        for optimizer, number in stateful.count_unheld(held).items():
            logger.warning(
                "%s trains %d parameters that are not in checkpoints: make what they belong to an "
                "attribute of %s.",
                optimizer,
                number,
                type(self).__name__,
            )
        self._warn_of_hidden_state()

    def named_networks(self) -> dict[str, nn.Module]:
        """Return the modules among the attributes, also those in plain lists and mappings."""
        registered = {name: module for name, module in self._modules.items() if module is not None}
        loose = {n: value for n, value in self._with_state() if isinstance(value, nn.Module)}
        return {**registered, **loose}

    def loose_modules(self) -> list[nn.Module]:
        """Return the modules in plain lists and mappings, which torch itself overlooks."""
        return [value for _, value in self._with_state() if isinstance(value, nn.Module)]

    def held_ids(self) -> set[int]:
        """Return the ids of all with state that the trainer itself knows, parts included."""
        modules = [part for module in (self, *self.loose_modules()) for part in module.modules()]
        parameters = (parameter for module in modules for parameter in module._parameters.values())
        return {id(item) for item in (*modules, *parameters, *dict(self._with_state()).values())}

    def full_state(self) -> dict[str, Any]:
        """Return everything that training needs to go on: modules, optimizers, stored values."""
        return {
            "class": type(self).__name__,
            # A parameter that waits for its first batch has nothing to store.
            "modules": {
                key: value
                for key, value in self._module_state().items()
                if not nn.parameter.is_lazy(value)
            },
            "stateful": {n: stateful.state_of(value) for n, value in self._stateful().items()},
            "stored": {
                name: storable(getattr(self, name), f"{type(self).__name__}.{name}")
                for name in self._plain_stored()
            },
            "traits": self._traits.changed() if self._traits is not None else {},
            "losses": self._losses.state_dict(),
        }

    def load_full_state(self, state: Mapping[str, Any], *, strict: bool = True) -> list[str]:
        """Load what ``full_state`` returned.

        Returns:
            What was left out; always empty when strict.

        Raises:
            CheckpointError: Something is missing or does not fit, and ``strict`` is true.
        """
        found = self._stateful()
        modules, problems = self._fitting(state["modules"], self._module_state())
        states, more = self._fitting(state["stateful"], found)
        problems += more
        values, more = self._fitting(state["stored"], dict.fromkeys(self._plain_stored()))
        problems += more
        if problems and strict:
            raise self._misfit(state, problems)
        self.load_state_dict(modules, strict=False)
        for name, value in states.items():
            for difference in stateful.overruled(found[name], value):
                logger.warning("%s: %s; the checkpoint's is used.", name, difference)
            stateful.load_checked(name, found[name], value)
        for name, value in values.items():
            setattr(self, name, fit_to(getattr(self, name), restored(value), name))
        if self._traits is not None:
            # Older checkpoints have none.
            self._traits.load(state.get("traits", {}))
        self._losses.load_state_dict(state["losses"])
        return problems

    def trained_tensors(self) -> dict[str, torch.Tensor]:
        """Return what gradients are made for, also in plain lists and mappings, by path."""
        found: dict[str, torch.Tensor] = dict(self.named_parameters())
        for path, value in self._with_state():
            if isinstance(value, nn.Module):
                found.update(value.named_parameters(prefix=path))
            elif isinstance(value, torch.Tensor):
                found[path] = value
        return found

    def weight_versions(self) -> list[tuple[int, int]]:
        """Return what changes when somebody writes to the weights, without looking at them."""
        modules = (self, *self.loose_modules())
        tensors = [t for module in modules for t in (*module.parameters(), *module.buffers())]
        known = (t for t in tensors if not nn.parameter.is_lazy(t))
        return [(tensor.data_ptr(), tensor._version) for tensor in known]

    @contextlib.contextmanager
    def isolated_generators(self) -> Iterator[None]:
        """Leave the generators of the trainer at the end as they were at the start."""
        kept = [v for _, v in self._with_state() if isinstance(v, stateful.GENERATORS)]
        states = [stateful.state_of(generator) for generator in kept]
        try:
            yield
        finally:
            for generator, state in zip(kept, states, strict=True):
                stateful.load_state(generator, state)

    def dataset_states(self) -> dict[str, Any]:
        """Return the states of the generators that datasets have of their own."""
        read = getattr(self._datasets, "state_dict", None)
        return read() if callable(read) else {}

    def load_dataset_states(self, states: Mapping[str, Any]) -> None:
        """Load what ``dataset_states`` returned."""
        load = getattr(self._datasets, "load_state_dict", None)
        if callable(load):
            load(states)

    def load_networks(self, state: Mapping[str, Any], *, strict: bool = True) -> list[str]:
        """Load the networks out of what ``full_state`` of some trainer returned, nothing else.

        Returns:
            What was left out; always empty when strict.

        Raises:
            CheckpointError: Something is missing or does not fit, and ``strict`` is true; or
                nothing fits at all.
        """
        own = self._stateful()
        states = {path: stateful.state_of(value) for path, value in own.items()}
        found = {path: kept for path, kept in states.items() if stateful.is_weights(kept)}
        loose = {
            path: kept
            for path, kept in state["stateful"].items()
            if stateful.is_weights(kept) and (path in found or path not in own)
        }
        weights, problems = self._fitting(
            {**state["modules"], **stateful.flatten_weights(loose)},
            {**self._module_state(), **stateful.flatten_weights(found)},
        )
        if problems and (strict or not weights):
            raise self._misfit(state, problems)
        self.load_state_dict(
            {k: v for k, v in weights.items() if k in state["modules"]}, strict=False
        )
        for path in found:
            stateful.load_weights(path, own[path], weights)
        return problems

    def _misfit(self, state: Mapping[str, Any], problems: list[str]) -> MisfitError:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        origin = f"The checkpoint of {state.get('class')}"
        return MisfitError(f"{origin} does not fit {type(self).__name__}:\n{listed}")

    def _fitting(
        self, stored: Mapping[str, Any], own: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the part of what is stored that has its counterpart, and what is wrong else."""
        fitting, problems = {}, []
        for key, value in stored.items():
            misfit = stateful.misfit(own[key], value) if key in own else "is in the checkpoint only"
            if misfit is None:
                fitting[key] = value
            elif key in own or not self._is_excluded(key):
                problems.append(f"{key} {misfit}")
        missing = (key for key in own if key not in stored and not nn.parameter.is_lazy(own[key]))
        return fitting, [*problems, *(f"{key} is not in the checkpoint" for key in missing)]

    def _is_excluded(self, path: str) -> bool:
        return path.partition(".")[0].partition("[")[0] in self._excluded

    def _module_state(self) -> dict[str, Any]:
        """Return what the registered modules keep."""
        return {k: v for k, v in self.state_dict().items() if not self._is_excluded(k)}

    def _with_state(self) -> Iterator[tuple[str, Any]]:
        """Find what keeps state of its own: optimizers, schedulers, scalers, generators."""
        for name, value in vars(self).items():
            if name != "train_loader" and name not in self._own_names:
                yield from stateful.find(name, value)

    def _stateful(self) -> dict[str, Any]:
        return {path: value for path, value in self._with_state() if not self._is_excluded(path)}

    def _plain_stored(self) -> list[str]:
        with_state = {path.partition("[")[0] for path in self._stateful()}
        named = (n for n in self._stored if n not in with_state and n not in self._excluded)
        return [name for name in named if not isinstance(getattr(self, name), nn.Module)]

    def _warn_of_hidden_state(self) -> None:
        """Tell what keeps state in objects of which checkpoints know nothing."""
        held = self.held_ids()
        for name, value in vars(self).items():
            if name in self._own_names or name in (*self._excluded, "train_loader"):
                continue
            found = stateful.find_held({name: value})
            paths = [path for path, item in found if id(item) not in held]
            if paths:
                listed = ", ".join(paths[:MAX_LISTED]) + (", ..." if paths[MAX_LISTED:] else "")
                logger.warning(
                    "Not in checkpoints, and lost when the run is resumed: %s. Make them "
                    "attributes of %s, or give their class state_dict and load_state_dict, or "
                    "call exclude_attribute_from_store(%r) if they never change.",
                    listed,
                    type(self).__name__,
                    name,
                )

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
