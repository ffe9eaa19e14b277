"""Write down what each step of a training starts from, to find out where two trainings part."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from jade import stateful
from jade.digest import Digester
from jade.eval import Evaluation
from jade.seeding import rng_state
from jade.trainer import Trainer

# Names the file that a process adds its steps to; who sets it wants to compare trainings.
VARIABLE = "JADE_TRACE"
# What an evaluation has from JADE.
EVALUATION_NAMES = ("name", "trainer", "datasets", "max_batches", "_stored")
UNDIVIDED = (*stateful.PARTNERS, torch.Tensor)
ITERATION = re.compile(rb'^\{"iteration": (\d+)', re.MULTILINE)


class Trace:
    """Writes one line before each step, and one after the last.

    A line has digests of the batch, of the global random generators, of all that checkpoints keep
    (``stored``), and of everything else that could steer training (``plain``). And it says which
    gradients were there before the step before it and still are (``carried``).

    Args:
        path: The file that lines are added to.
        trainer: Whose steps they are.
        evaluations: By name.
    """

    def __init__(self, path: Path, trainer: Trainer, evaluations: Mapping[str, Evaluation]) -> None:
        self._path = path
        self._trainer = trainer
        self._evaluations = evaluations
        self._gradients: dict[str, torch.Tensor] = {}

    def start(self) -> None:
        """Write down from which iteration this process goes on."""
        self._write({"started_at": self._trainer.iterations})

    def watch(self, train_step: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a step that writes its line first."""

        def traced_step(data: Any) -> None:
            self._write_line(_digest(data))
            train_step(data)

        return traced_step

    def end(self) -> None:
        """Write what has come out."""
        self._write_line(None)

    def _write_line(self, batch: str | None) -> None:
        trainer, stored = self._trainer, self._stored()
        self._write(
            {
                "iteration": trainer.iterations,
                "epoch": trainer.epochs,
                "batch": batch,
                "random": {name: _digest(state) for name, state in rng_state().items()},
                "stored": stored,
                "carried": self._carried_gradients(),
                "plain": {k: v for k, v in self._everything().items() if k not in stored},
            }
        )

    def _write(self, line: Mapping[str, Any]) -> None:
        # In one call, and out of this process when it returns: it may be killed at any moment.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, json.dumps(line).encode() + b"\n")
        finally:
            os.close(descriptor)

    def _carried_gradients(self) -> list[str]:
        """Name the parameters whose gradients the step before has added to, not replaced."""
        before, parameters = self._gradients, self._trainer.named_parameters()
        self._gradients = {n: p.grad for n, p in parameters if p.grad is not None}
        return [n for n, gradient in self._gradients.items() if before.get(n) is gradient]

    def _stored(self) -> dict[str, str]:
        """Digest what a checkpoint keeps of the trainer and the evaluations."""
        trainer = self._trainer
        states = {
            **trainer._module_state(),
            **_flatten(trainer._stateful()),
            **{name: getattr(trainer, name) for name in trainer._plain_stored()},
        }
        found = {f"self.{path}": value for path, value in states.items()}
        for name, evaluation in self._evaluations.items():
            stored = {key: getattr(evaluation, key) for key in evaluation._stored}
            trained = _flatten(evaluation._trained())
            for path, value in (evaluation._generators() | trained | stored).items():
                found[f"eval.{name}.{path}"] = value
        return {k: v for path, value in found.items() for k, v in Digester().parts(path, value)}

    def _everything(self) -> dict[str, str]:
        """Digest whatever the trainer, its datasets and its evaluations consist of."""
        trainer = self._trainer
        data = Digester(samples=True)
        found: dict[str, str] = {}
        datasets = getattr(trainer.datasets, "_built", trainer.datasets)
        for name, dataset in datasets.items():
            found.update(data.parts(f"data.{name}", dataset))
        found.update(data.parts("self.train_loader", trainer.train_loader))
        own = Digester(seen=data.seen)
        for name, value in {**vars(trainer), **trainer._parameters, **trainer._buffers}.items():
            if name not in trainer._own_names and name != "train_loader":
                found.update(own.parts(f"self.{name}", value))
        for name, module in trainer._modules.items():
            found.update(own.parts(f"self.{name}", module))
        for name, evaluation in self._evaluations.items():
            for key, value in vars(evaluation).items():
                if key not in EVALUATION_NAMES:
                    found.update(own.parts(f"eval.{name}.{key}", value))
        return found


def _flatten(owners: Mapping[str, Any]) -> dict[str, Any]:
    """Return what keeps state, networks and objects of the user in parts."""
    flat: dict[str, Any] = {}
    for path, owner in owners.items():
        if isinstance(owner, UNDIVIDED):
            flat[path] = owner
        else:
            flat.update({f"{path}.{key}": value for key, value in owner.state_dict().items()})
    return flat


def _digest(value: Any) -> str:
    parts = dict(Digester().parts("", value))
    return str(Digester().digest(parts))


def open_trace(trainer: Trainer, evaluations: Mapping[str, Evaluation]) -> Trace | None:
    """Return the trace that the environment asks for, if it does."""
    path = os.environ.get(VARIABLE)
    return Trace(Path(path), trainer, evaluations) if path else None


# What others read


@dataclass(frozen=True)
class Line:
    """What a step started from, or, without a batch, what training came to."""

    iteration: int
    epoch: int
    batch: str | None
    random: Mapping[str, str]
    stored: Mapping[str, str]
    carried: Sequence[str]
    plain: Mapping[str, str]


@dataclass(frozen=True)
class Course:
    """What one process did: where it started, and its steps.

    Attributes:
        started_at: The iteration it went on from; None if it did not come so far.
        lines: One for each step, and one for the end if it was reached.
    """

    started_at: int | None = None
    lines: list[Line] = field(default_factory=list)


def load_course(path: Path) -> Course:
    """Load what a process has written, also one that was killed while it wrote."""
    started_at, lines = None, []
    for text in path.read_bytes().splitlines(keepends=True) if path.is_file() else ():
        if not text.endswith(b"\n"):
            break
        values = json.loads(text)
        if "started_at" in values:
            started_at = values["started_at"]
        else:
            lines.append(Line(**values))
    return Course(started_at, lines)


def last_iteration(text: bytes) -> int | None:
    """Find the latest iteration in a part of a trace."""
    found = ITERATION.findall(text)
    return int(found[-1]) if found else None
