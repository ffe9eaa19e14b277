"""Define Evaluation and DatasetEvaluation: measurements of a trainer, taken on a schedule."""

import logging
import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader

from jade import stateful
from jade.batch import count, move, take
from jade.checkpoint import fit_to, restored, storable
from jade.errors import CheckpointError, ComponentError, ConfigError, TrainingError, suggest
from jade.in_memory import TensorLoader
from jade.media import KINDS, Media
from jade.trainer import Trainer

logger = logging.getLogger(__name__)

SCALAR_KINDS = ("scalar", "scalars")


class Evaluation:
    """A measurement of a trainer.

    To write one: subclass, take parameters in ``initialize(...)``, and return what was measured
    from ``evaluate()``: a number, a mapping of numbers, a figure, text, ``jade.Media``, None, or
    ``{"type": "scalar", "value": ...}``. Gradients are off, modules are in eval mode, and random
    generators are put back afterwards. Networks that it trains itself are kept in checkpoints.
    """

    is_set_up_by_initialize = True

    def __init__(self, name: str, trainer: Trainer, datasets: Mapping[str, Any]) -> None:
        self.name = name
        self.trainer = trainer
        self.datasets = datasets
        # A rehearsal measures this many batches only; None means all.
        self.max_batches: int | None = None
        # Told of each batch: how many samples it has, and the mean of each metric over them.
        self.on_batch: Callable[[int, dict[str, float]], None] | None = None
        self._stored: list[str] = []

    def initialize(self, **params: Any) -> None:
        """Take the parameters; those of your version come from the configuration."""
        if params:
            raise NotImplementedError(f"{type(self).__name__} must define initialize(...).")

    def evaluate(self) -> Any:
        """Measure, and return the result."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate().")

    def get_dataset(self, name: str) -> Any:
        """Return a dataset of the configuration."""
        return self.datasets[name]

    def add_attribute_to_store(self, name: str) -> None:
        """Keep an attribute in checkpoints that changes from one evaluation to the next."""
        if name not in self._stored:
            self._stored.append(name)

    def check_stored_attributes(self) -> None:
        """Refuse what could not be stored: training must not end in a missing checkpoint."""
        for name in self._stored:
            if not hasattr(self, name):
                raise ComponentError(
                    f"eval.{self.name}: {type(self).__name__} has no attribute {name!r} to store."
                    f"{suggest(name, list(vars(self)))}"
                )
        try:
            state = self.full_state()
            storable(state["own"], f"{self.name}.state_dict()")
            storable(state["stateful"], self.name)
        except CheckpointError as error:
            raise ComponentError(f"eval.{self.name}: {error}") from error

    def full_state(self) -> dict[str, Any]:
        """Return what the next evaluation depends on: what it trains, draws from and keeps."""
        own = getattr(self, "state_dict", None)
        return {
            "generators": {n: stateful.state_of(item) for n, item in self._generators().items()},
            "stateful": {n: stateful.state_of(item) for n, item in self._trained().items()},
            "stored": {n: storable(getattr(self, n), f"{self.name}.{n}") for n in self._stored},
            "own": own() if callable(own) else None,
        }

    def load_full_state(self, state: Mapping[str, Any]) -> None:
        """Load what ``full_state`` returned.

        Raises:
            CheckpointError: A network or optimizer differs from the one that was stored.
        """
        # Older checkpoints have nothing of the kind.
        self._load_trained(state.get("stateful", {}))
        for name, generator in self._generators().items():
            if name in state["generators"]:
                stateful.load_state(generator, state["generators"][name])
        for name in self._stored:
            if name in state["stored"]:
                value = restored(state["stored"][name])
                setattr(self, name, fit_to(getattr(self, name), value, f"{self.name}.{name}"))
        if state["own"] is not None:
            self.load_state_dict(state["own"])  # type: ignore[attr-defined]

    def _generators(self) -> dict[str, Any]:
        """Find the random generators among the attributes."""
        return dict(stateful.find_generators(self._own_attributes()))

    def _own_attributes(self) -> dict[str, Any]:
        others = (id(self.trainer), id(self.datasets))
        return {name: value for name, value in vars(self).items() if id(value) not in others}

    def _trained(self) -> dict[str, Any]:
        """Find the networks that change in evaluations, and what changes with them."""
        found = self._with_state()
        # Without an optimizer, a network is a fixed measure, which may be large.
        is_trained = any(isinstance(item, torch.optim.Optimizer) for item in found.values())
        return found if is_trained else {}

    def _with_state(self) -> dict[str, Any]:
        """Find networks, optimizers and the like among the attributes, but not the trainer's."""
        found = {
            path: item
            for name, value in self._own_attributes().items()
            for path, item in stateful.find(name, value)
            if not isinstance(item, stateful.GENERATORS) and not stateful.is_data(item)
        }
        held = self.trainer.held_ids() if found else set()
        return {path: item for path, item in found.items() if id(item) not in held}

    def _load_trained(self, states: Mapping[str, Any]) -> None:
        own = self._with_state()
        fitting = {path: state for path, state in states.items() if path in own}
        misfits = {path: stateful.misfit(own[path], state) for path, state in fitting.items()}
        problems = [f"{path} {misfit}" for path, misfit in misfits.items() if misfit is not None]
        gone = [f"{path} is in the checkpoint only" for path in states if path not in own]
        new = [f"{path} is not in the checkpoint" for path in self._trained() if path not in states]
        if problems or (gone and new):
            listed = "\n".join(f"  - {problem}" for problem in (*problems, *gone, *new))
            raise CheckpointError(
                f"The checkpoint does not fit the evaluation {self.name!r}:\n{listed}"
            )
        # Perhaps each evaluation makes its own, which is then as good.
        for problem in gone:
            logger.warning(
                "%s: %s, and starts anew; make it in initialize to go on.", self.name, problem
            )
        for path, state in fitting.items():
            stateful.load_checked(f"{self.name}.{path}", own[path], state)

    def require_trainer_method(self, name: str) -> Callable[..., Any]:
        """Return a method of the trainer, or say who needs which method of whom."""
        method = getattr(self.trainer, name, None)
        if not callable(method):
            classes = [k for k in type(self.trainer).__mro__ if issubclass(k, Trainer)]
            own = [key for k in classes for key in vars(k) if not key.startswith("_")]
            raise ComponentError(
                f"The evaluation {self.name!r} ({type(self).__name__}) needs a method {name!r}, "
                f"which {type(self.trainer).__name__} does not have.{suggest(name, own)}"
            )
        return method  # type: ignore[no-any-return]


class DatasetEvaluation(Evaluation):
    """The mean over a dataset, each sample counting once however the batches fall.

    To write one: subclass, and return from ``evaluate_batch(data)`` one value or a mapping of
    names to values. A value has one entry per sample, or is the mean over the batch.
    """

    def initialize(  # type: ignore[override]
        self,
        evaluate_on: str,
        n_samples: int | None = None,
        batch_size: int = 256,
        resample: bool = False,  # noqa: FBT001, FBT002 - a parameter in configuration files
    ) -> None:
        """Choose the dataset, how many of its samples, and whether to draw them anew each time."""
        if n_samples is not None and n_samples < 1:
            raise ComponentError(f"{self.name}: n_samples must be at least 1, got {n_samples}.")
        dataset = self.datasets[evaluate_on]
        if resample and not hasattr(dataset, "__len__"):
            raise ComponentError(
                f"{self.name}: resample needs {type(dataset).__name__} to define __len__."
            )
        self.n_samples = n_samples
        # Both give the same batches; for a dataset that can hand itself over as a whole, one of
        # them gets along without reading sample by sample.
        make_loader = TensorLoader if hasattr(dataset, "as_tensors") else DataLoader
        self.data_loader: Iterable[Any] = make_loader(dataset, batch_size, shuffle=resample)

    def evaluate_batch(self, data: Any) -> Any:
        """Measure one batch, which is on the trainer's device."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate_batch(data).")

    def evaluate(self) -> Any:
        """Average ``evaluate_batch`` over the dataset."""
        totals: dict[str, list[float]] = {}
        counts: dict[str, int] = {}
        for batch in self._batches():
            size = count(batch)
            result = self.evaluate_batch(batch)
            named = result if isinstance(result, Mapping) else {"": result}
            summands = {key: self._summands(key, value, size) for key, value in named.items()}
            for key, values in summands.items():
                totals.setdefault(key, []).extend(values)
                counts[key] = counts.get(key, 0) + size
            if self.on_batch is not None:
                self.on_batch(size, {self._label(k): _sum(v) / size for k, v in summands.items()})
        if not counts:
            raise TrainingError(f"The evaluation {self.name!r} got no data: is its dataset empty?")
        means = {key: _sum(values) / counts[key] for key, values in totals.items()}
        return means[""] if means.keys() == {""} else {"type": "scalars", "value": means}

    def _batches(self) -> Iterator[Any]:
        """Yield batches on the trainer's device, the last one cut so that n_samples come out."""
        left = math.inf if self.n_samples is None else self.n_samples
        for index, data in enumerate(self.data_loader, start=1):
            batch = move(data, self.trainer.get_device())
            size = count(batch)
            yield batch if size <= left else take(batch, int(left))
            left -= size
            if left <= 0 or index == self.max_batches:
                return

    def _summands(self, key: str, value: Any, size: int) -> list[float]:
        """Return what a batch adds to the total: a number for each sample, or one for all."""
        if hasattr(value, "ndim") and value.ndim > 0:
            values = torch.as_tensor(value)
            if len(values) != size:
                raise TrainingError(
                    f"The evaluation {self._label(key)} returned {len(values)} values on a batch "
                    f"of {size} samples; return one per sample, or the mean."
                )
            # On the CPU, because not every device knows double precision.
            per_sample = values.detach().cpu().double().reshape(size, -1).mean(dim=1)
            return [float(number) for number in per_sample.tolist()]
        return [_to_number(self._label(key), value) * size]

    def _label(self, key: str) -> str:
        return f"{self.name}/{key}" if key else self.name


def _sum(values: list[float]) -> float:
    """Add up without rounding in between: the order of the samples does not matter."""
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


@dataclass(frozen=True)
class Outcome:
    """What an evaluation returned, sorted into numbers and things to look at."""

    metrics: dict[str, float] = field(default_factory=dict)
    media: dict[str, Media] = field(default_factory=dict)


def read_outcome(name: str, result: Any) -> Outcome:
    """Sort what ``evaluate()`` returned; ``name`` is the evaluation's name in the log.

    Several numbers are logged as ``name/key``; the first of them also as ``name``, so that a
    sweep's metric keeps its name when a second number is added.
    """
    if result is None:
        return Outcome()
    if isinstance(result, Media):
        return Outcome(media={name: result})
    if isinstance(result, Mapping):
        return _read_mapping(name, result)
    if isinstance(result, str):
        return Outcome(media={name: Media("text", result)})
    if hasattr(result, "savefig"):
        return Outcome(media={name: Media("figure", result)})
    return Outcome(metrics={name: _to_number(name, result)})


def _read_mapping(name: str, result: Mapping[str, Any]) -> Outcome:
    if not isinstance(result.get("type"), str):
        return _read_scalars(name, result)
    kind, value = result["type"], result.get("value")
    known = {"type", "value", "iteration", "caption", "sample_rate"}
    unknown = [key for key in result if key not in known]
    if unknown or "value" not in result:
        wrong = f"has an unknown key {unknown[0]!r}" if unknown else "has no 'value'"
        raise TrainingError(f"What the evaluation {name!r} returned {wrong}: {sorted(result)}.")
    if kind == "scalar":
        return Outcome(metrics={name: _to_number(name, value)})
    if kind == "scalars":
        if not isinstance(value, Mapping):
            raise TrainingError(
                f"The evaluation {name!r} returned 'scalars' with a {type(value).__name__} as "
                "value; return a mapping of names to numbers."
            )
        return _read_scalars(name, value)
    if kind not in KINDS:
        raise TrainingError(
            f"The evaluation {name!r} returned the type {kind!r}."
            f"{suggest(kind, (*SCALAR_KINDS, *KINDS))}"
        )
    try:
        media = Media(kind, value, result.get("caption"), result.get("sample_rate"))
    except ConfigError as error:
        raise TrainingError(f"What the evaluation {name!r} returned: {error}") from error
    return Outcome(media={name: media})


def _read_scalars(name: str, values: Mapping[str, Any]) -> Outcome:
    metrics: dict[str, float] = {}
    media: dict[str, Media] = {}
    for key, value in values.items():
        part = read_outcome(f"{name}/{key}", value)
        metrics.update(part.metrics)
        media.update(part.media)
    if metrics:
        metrics = {name: next(iter(metrics.values())), **metrics}
    return Outcome(metrics, media)


def _to_number(name: str, value: Any) -> float:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if hasattr(value, "item") and getattr(value, "size", 0) == 1:
        value = value.item()
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
    raise TrainingError(
        f"The evaluation {name!r} returned a {type(value).__name__}{shape}; return a number, a "
        "mapping of numbers, a figure, text, jade.Media, None, or {'type': ..., 'value': ...}."
    )
