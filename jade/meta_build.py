"""Build the trainer of a configuration on torch's meta device: shapes without numbers or data."""

import contextlib
import io
import logging
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributions import Distribution
from torch.utils.data import default_collate

from jade import assemble, torch_startup
from jade.batch import map_items
from jade.blank_dataset import BlankDataset
from jade.components import Architectures, Blueprint, LazyComponents
from jade.errors import ConfigError, JadeError, MissingDataError
from jade.eval import DatasetEvaluation, Evaluation, read_outcome
from jade.hints import explain
from jade.loss_window import LossWindow
from jade.resolve import Resolved
from jade.seeding import isolated_rng
from jade.timetable import make_timetable
from jade.trainer import Trainer
from jade.user_modules import is_own_file, shown

META, CPU = torch.device("meta"), torch.device("cpu")
# What an error says that only arises because there are no numbers, or no such device, here.
WITHOUT_NUMBERS = re.compile(r"\bmeta\b|\.item\(\)|data.dependent", re.IGNORECASE)
WITHOUT_DEVICE = re.compile(r"\bCUDA\b|NVIDIA|\bMPS\b|\bXPU\b|not compiled with", re.IGNORECASE)
# What a trainer may find on another machine.
ELSEWHERE = (MissingDataError, OSError, ImportError)
NUMERIC = (RuntimeError, TypeError, ValueError)
NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class Failure:
    """Why something cannot be built or run."""

    text: str
    # Equal for failures that differ in numbers only.
    sort: str


@dataclass(frozen=True)
class Built:
    """What came of building one configuration.

    Attributes:
        num_parameters: Of all networks; None if they could not be built here.
        failure: What would also happen to a run; None if nothing did.
        untried: What could not be tried without numbers and data, and why.
        metrics: The names under which a run logs numbers, as far as they are known.
        is_complete: Whether these are all names.
        known_evaluations: The evaluations all of whose names are known.
    """

    num_parameters: int | None = None
    failure: Failure | None = None
    untried: tuple[str, ...] = ()
    metrics: frozenset[str] = frozenset()
    is_complete: bool = False
    known_evaluations: frozenset[str] = frozenset()

    def lacks(self, metric: str) -> bool:
        """Tell whether a run certainly never logs a metric."""
        is_known = self.is_complete or metric.partition("/")[0] in self.known_evaluations
        return is_known and metric not in self.metrics


class MetaBuilder:
    """Builds configurations, one after another, and remembers which failures are real.

    On the meta device tensors have shapes and no numbers: networks of any size are built at once,
    but what asks for a number fails. So a failure counts only if it happens on the CPU, too.
    """

    def __init__(self) -> None:
        torch_startup.defer_dynamo()
        # What building on the CPU has shown, by the sort of failure.
        self._verdicts: dict[str, Failure | str] = {}

    def build(self, resolved: Resolved, *, with_metrics: bool = False) -> Built:
        """Build the trainer and the evaluations, and pass a batch if it is known how it looks.

        Args:
            resolved: What to build.
            with_metrics: Whether to find out the names of metrics, too.
        """
        attempt = _Attempt(resolved, META, with_metrics=with_metrics)
        with _quietly():
            attempt.run()
        failure, untried = None, list(attempt.untried)
        if attempt.error is not None:
            verdict = self._judge(attempt)
            if isinstance(verdict, Failure):
                failure = verdict
            else:
                untried.append(verdict)
        return Built(
            num_parameters=attempt.num_parameters,
            failure=failure,
            untried=tuple(dict.fromkeys(untried)),
            metrics=frozenset(attempt.metrics),
            is_complete=attempt.is_complete,
            known_evaluations=frozenset(attempt.known_evaluations),
        )

    def _judge(self, attempt: "_Attempt") -> Failure | str:
        """Tell whether a run would fail, too; if not, or if nobody can tell, say why."""
        excuse = attempt.excuse()
        if excuse is not None:
            return excuse
        failure = attempt.failure()
        known = self._verdicts.get(failure.sort)
        if isinstance(known, str):
            return known
        if known is not None:
            return failure
        again = _Attempt(attempt.resolved, CPU, with_metrics=attempt.with_metrics)
        with _quietly():
            again.run()
        if again.error is None or not attempt.is_like(again):
            verdict: Failure | str = f"{attempt.stage}: it only fails without numbers"
        else:
            verdict = again.excuse() or again.failure()
        self._verdicts[failure.sort] = verdict
        return verdict


class _Attempt:
    """One try to build a configuration on a device, up to the first error."""

    def __init__(self, resolved: Resolved, device: torch.device, *, with_metrics: bool) -> None:
        self.resolved = resolved
        self.with_metrics = with_metrics
        self.error: Exception | None = None
        self.stage = ""
        self.num_parameters: int | None = None
        self.untried: list[str] = []
        self.metrics: set[str] = set()
        self.is_complete = False
        self.known_evaluations: set[str] = set()
        self._device = device
        self._blanks: list[BlankDataset] = []
        blanks = {
            name: _Blank(name, item, self._make_blank) for name, item in resolved.data.items()
        }
        self._datasets = LazyComponents(blanks, "dataset")

    def run(self) -> None:
        """Build and try everything; the first error ends it, and is kept."""
        on_device = self._device if self._device.type == "meta" else contextlib.nullcontext()
        try:
            with on_device, isolated_rng(0):
                self._run()
        except Exception as error:
            self.error = error

    def _run(self) -> None:
        resolved = self.resolved
        self.stage = "the networks are not built"
        architectures = Architectures(resolved.index, resolved.architecture_file)
        trainer = assemble.build_trainer(
            resolved.model, self._datasets, architectures, self._device
        )
        counted = assemble.count_parameters(trainer)
        self.num_parameters = sum(trainable + fixed for *_, trainable, fixed in counted)
        self.stage = "no batch is passed"
        # How many iterations an epoch has does not matter to which units there are.
        timetable = make_timetable(resolved.settings, resolved.evaluate_every, 1)
        timetable.check(trainer._clock)
        losses = self._step(trainer)
        evaluations = self._build_evaluations(trainer)
        if self.with_metrics:
            self.stage = "no evaluation is tried"
            self._find_metrics(trainer, evaluations, losses)

    def _build_evaluations(self, trainer: Trainer) -> dict[str, Evaluation]:
        """Build what can be built here: one that reads its data does not keep others from it."""
        evaluations: dict[str, Evaluation] = {}
        for name, item in self.resolved.evaluations.items():
            self.stage = f"eval.{name} is not built"
            try:
                evaluations[name] = assemble.build_evaluation(name, item, trainer, self._datasets)
            except MissingDataError as error:
                self.untried.append(f"{self.stage}: {error}")
        return evaluations

    def _step(self, trainer: Trainer) -> set[str] | None:
        """Do a step of training without changing weights, and return what it logs."""
        try:
            batch = self._batch_of(trainer.train_loader)
        except MissingDataError as error:
            self.untried.append(f"{self.stage}: {error}")
            return None
        trainer._losses = LossWindow(stop_on_nan=False)
        for _, item in trainer._with_state():
            if isinstance(item, torch.optim.Optimizer):
                # Optimizers count steps in tensors, which they want to read.
                item.step = _only_closure  # type: ignore[method-assign]
        trainer.train_step(batch)
        return trainer._losses.names()

    def _batch_of(self, loader: Any) -> Any:
        """Make a batch of samples that all look alike, as the loader would."""
        dataset = getattr(loader, "dataset", None)
        if dataset is None or not hasattr(type(dataset), "__getitem__"):
            raise MissingDataError(
                f"{type(loader).__name__} cannot tell what its batches look like"
            )
        size = getattr(loader, "batch_size", None) or 2
        collate = getattr(loader, "collate_fn", None) or default_collate
        if collate is default_collate:
            return _repeated(default_collate([dataset[0]]), size)
        return collate([dataset[0]] * size)

    def _find_metrics(
        self, trainer: Trainer, evaluations: Mapping[str, Evaluation], losses: set[str] | None
    ) -> None:
        self.metrics |= losses or set()
        unknown = set(self.resolved.evaluations) - set(evaluations)
        self.metrics |= unknown
        self.is_complete = losses is not None and not unknown
        trainer.eval()
        for name, evaluation in evaluations.items():
            names = self._names_of(evaluation)
            if names is None:
                self.is_complete = False
            else:
                self.known_evaluations.add(name)
            # A number of an evaluation is logged under its name in any case.
            self.metrics |= {name} if names is None else names

    def _names_of(self, evaluation: Evaluation) -> set[str] | None:
        """Return the names that an evaluation logs; None if only a run can tell."""
        plain = DatasetEvaluation.evaluate
        if not isinstance(evaluation, DatasetEvaluation) or type(evaluation).evaluate is not plain:
            return None
        try:
            with torch.no_grad():
                result = evaluation.evaluate_batch(self._batch_of(evaluation.data_loader))
        except MissingDataError:
            return None
        parts = {"": result} if not isinstance(result, Mapping) else result
        numbers = dict.fromkeys(parts, 0.0)
        return set(read_outcome(evaluation.name, numbers.get("", numbers)).metrics)

    def _make_blank(self, name: str, blueprint: Blueprint) -> BlankDataset:
        params = dict(blueprint.params)
        self._blanks.append(BlankDataset(name, blueprint.target, params, self._device))
        return self._blanks[-1]

    def excuse(self) -> str | None:
        """Say why the error need not happen in a run; None if nothing speaks for that."""
        error = self.error
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, ELSEWHERE):
            return f"{self.stage}: {error if isinstance(error, JadeError) else text}"
        if isinstance(error, NUMERIC) and WITHOUT_NUMBERS.search(str(error)):
            return f"{self.stage} to the end: numbers are needed ({_place(error) or text})"
        if WITHOUT_DEVICE.search(str(error)):
            return f"{self.stage}: {text}"
        if any(blank.was_measured for blank in self._blanks):
            return f"{self.stage}: the size of a dataset is needed ({text})"
        return None

    def is_like(self, other: "_Attempt") -> bool:
        """Tell whether two errors are the same one: of one kind, or from one line."""
        place = _place(self.error)
        same_place = place is not None and place == _place(other.error)
        return type(self.error) is type(other.error) or same_place

    def failure(self) -> Failure:
        """Render the error, with the line of the user's own code."""
        error = self.error
        place = _place(error)
        where = f" ({place})" if place else ""
        kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
        hint = explain(error) if error is not None else None
        text = f"{kind}{error}{where}" + (f" {hint}" if hint else "")
        sort = NUMBER.sub("#", f"{type(error).__name__} {error}") + (place or "")
        return Failure(text, sort)


@dataclass(frozen=True)
class _Blank:
    name: str
    blueprint: Blueprint
    make: Callable[[str, Blueprint], BlankDataset]

    def build(self) -> BlankDataset:
        return self.make(self.name, self.blueprint)


def _repeated(batch: Any, size: int) -> Any:
    """Return a batch of one sample with this sample ``size`` times."""
    if isinstance(batch, torch.Tensor):
        return batch.expand(size, *batch.shape[1:]).contiguous()
    is_text = isinstance(batch, (list, tuple)) and all(isinstance(item, str) for item in batch)
    return batch * size if is_text else map_items(batch, lambda item: _repeated(item, size))


def _only_closure(closure: Callable[[], Any] | None = None) -> Any:
    return None if closure is None else closure()


def _place(error: BaseException | None) -> str | None:
    """Find the last line of the user's own code in a traceback."""
    frames = traceback.extract_tb(error.__traceback__ if error else None)
    own = [frame for frame in frames if is_own_file(frame.filename)]
    return f"{shown(Path(own[-1].filename))}:{own[-1].lineno}" if own else None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep what user code prints or warns of to ourselves: it would come for each point."""
    # Distributions look at their parameters, which have no numbers here.
    validates = Distribution._validate_args
    previous = logging.root.manager.disable
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        Distribution.set_default_validate_args(False)
        try:
            yield
        finally:
            Distribution.set_default_validate_args(validates)
            logging.disable(previous)
