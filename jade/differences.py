"""Find where two trainings part: in their traces, in their last states, in what they logged."""

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from jade import checkpoint
from jade.run_dir import RunDir
from jade.trace import Course, Line

# What depends on the time that training took, or on how often it was begun.
INCIDENTAL = ("clock", "format", "gradients")
# What of the position in the data is the same however often an epoch was continued.
POSITION = ("batches", "length", "beginning")
DATA = ("data.", "self.train_loader")
# How many names a message lists.
MAX_NAMES = 5
ATTRIBUTE = re.compile(r"self\.(?P<name>\w+)(?P<rest>.*)")
MEASUREMENT = re.compile(r"eval\.(?P<evaluation>.+)\.(?P<name>\w+)")


@dataclass(frozen=True)
class Parting:
    """Where a process that went on left the course of one that was never interrupted.

    Attributes:
        started_at: The iteration that it went on from.
        iteration: The first one before whose step something differs that decides the result; None
            if nothing does.
        batch: Whether the batch of that step is another one.
        random: The global random generators that differ there.
        stored: What differs there although checkpoints keep it.
        lost: What checkpoints do not keep, and was not the same when training went on.
        passing: Likewise, but the first step made it the same again.
        gradients: The parameters whose gradients the first step should have added to.
    """

    started_at: int
    iteration: int | None = None
    batch: bool = False
    random: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    gradients: tuple[str, ...] = ()


class Reference:
    """A training without interruption, which others are compared with.

    Args:
        course: What it did.
        ignored: Names of attributes whose values mean nothing, such as times.
    """

    def __init__(self, course: Course, ignored: Iterable[str] = ()) -> None:
        self._lines = {line.iteration: line for line in course.lines}
        self._ignored = frozenset(ignored)

    @property
    def num_iterations(self) -> int:
        """The number of steps."""
        return max(self._lines, default=0)

    @property
    def num_epochs(self) -> int:
        """The number of epochs that were completed."""
        return max((line.epoch for line in self._lines.values()), default=0)

    def differing_names(self, course: Course) -> set[str]:
        """Name the attributes outside of checkpoints that ever differ."""
        return {name for line in course.lines for name in self._differing_plain(line)}

    def compare(self, course: Course) -> Parting:
        """Find out where a process left this course."""
        first, *others = course.lines or (None,)
        if first is None or first.iteration not in self._lines:
            return Parting(course.started_at or 0)
        found = self._differing_plain(first)
        still = self._differing_plain(others[0]) if others else found
        parted = next((line for line in course.lines if not self._is_same(line)), None)
        lost = tuple(name for name in found if name in still)
        passing = tuple(name for name in found if name not in still)
        if parted is None:
            return Parting(first.iteration, lost=lost, passing=passing)
        known = self._lines.get(parted.iteration, parted)
        return Parting(
            first.iteration,
            parted.iteration,
            parted.batch != known.batch,
            _differing(parted.random, known.random),
            _differing(parted.stored, known.stored),
            lost,
            passing,
            self._carried_by(first),
        )

    def _carried_by(self, first: Line) -> tuple[str, ...]:
        """Name the gradients that the first step of a process did not find."""
        following = self._lines.get(first.iteration + 1)
        return tuple(following.carried) if following is not None and first.iteration else ()

    def _is_same(self, line: Line) -> bool:
        known = self._lines.get(line.iteration)
        return known is not None and (line.batch, line.random, line.stored) == (
            known.batch,
            known.random,
            known.stored,
        )

    def _differing_plain(self, line: Line) -> tuple[str, ...]:
        known = self._lines.get(line.iteration)
        if known is None:
            return ()
        names = _differing(line.plain, known.plain)
        return tuple(n for n in names if n not in self._ignored and not _is_unbuilt(n, line, known))


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in {**other, **one} if one.get(name) != other.get(name))


def _is_unbuilt(name: str, *lines: Line) -> bool:
    """Tell whether something belongs to a dataset that one of the trainings has not built yet."""
    return name.startswith("data.") and any(name not in line.plain for line in lines)


# What there is to say about it


def explain(parting: Parting) -> list[str]:
    """Say what was not restored, the most telling first, and what to do about it."""
    data = [name for name in parting.lost if name.startswith(DATA)]
    own = [name for name in parting.lost if name.startswith("self.") and name not in data]
    sentences = [*_explain_stored(parting), *_explain_data(parting, data)]
    if parting.iteration is not None:
        sentences += _explain_attributes(own)
    sentences += _explain_evaluations(parting)
    if not sentences:
        sentences += _explain_gradients(parting)
    if not sentences and parting.iteration is not None:
        sentences = [*_explain_attributes(parting.passing), *_explain_rest(parting)][:1]
    return sentences


def _explain_stored(parting: Parting) -> Iterator[str]:
    if parting.stored and parting.iteration == parting.started_at:
        yield (
            f"{_list(parting.stored)}: kept in checkpoints, but not the same after resuming. Look "
            "at what changes it after it was loaded, and at load_state_dict of its class."
        )


def _explain_data(parting: Parting, names: Sequence[str]) -> Iterator[str]:
    if not parting.batch or (parting.stored and parting.iteration != parting.started_at):
        return
    named = f" {_list(names)}: not the same after resuming." if names else ""
    yield (
        f"The batches differ from iteration {parting.iteration} on, in order or in content.{named} "
        "A sampler, loader or dataset draws from something that is not in checkpoints: let it draw "
        "from torch, numpy.random, random, or a torch.Generator in its attribute 'generator', or "
        "give the loader state_dict and load_state_dict."
    )


def _explain_attributes(names: Sequence[str]) -> Iterator[str]:
    by_attribute: dict[str, list[str]] = {}
    for name in names:
        match = ATTRIBUTE.fullmatch(name)
        if match is not None:
            by_attribute.setdefault(match["name"], []).append(name)
    for attribute, paths in by_attribute.items():
        is_whole = paths == [f"self.{attribute}"]
        remedy = (
            f'call self.add_attribute_to_store("{attribute}") in initialize'
            if is_whole
            else f"derive it from what is kept in each step, or give the class of self.{attribute} "
            "state_dict and load_state_dict"
        )
        yield f"{_list(paths)}: not in checkpoints, and not the same after resuming: {remedy}."


def _explain_gradients(parting: Parting) -> Iterator[str]:
    if parting.gradients:
        yield (
            f"The gradients of {_list(parting.gradients)} are carried from one step to the next. "
            "Checkpoints hold them if that is so from the first steps on: gather them within one "
            "train_step, and call zero_grad before."
        )


def _explain_evaluations(parting: Parting) -> Iterator[str]:
    for name in (*parting.lost, *parting.passing):
        match = MEASUREMENT.fullmatch(name)
        if match is not None:
            yield (
                f"The evaluation {match['evaluation']} remembers self.{match['name']}, which is "
                "not in checkpoints, and not the same after resuming: call "
                f'self.add_attribute_to_store("{match["name"]}") in its initialize.'
            )


def _explain_rest(parting: Parting) -> Iterator[str]:
    if parting.random and not parting.stored:
        yield (
            f"The random numbers of {_list(parting.random)} are others from iteration "
            f"{parting.iteration} on: something draws from them that is not done again after "
            "resuming, or is done twice."
        )
    yield (
        f"{_list(parting.stored)}: not the same before the step of iteration {parting.iteration}, "
        "although the step before it had the same batch, random numbers and attributes. It depends "
        "on something outside of the trainer (a global variable, a file, the clock), or on an "
        "operation that is not exact (--deterministic true)."
    )


def explain_irreproducible(reference: Reference, parting: Parting, names: Sequence[str]) -> str:
    """Say where two trainings part that were not interrupted."""
    differing = [*(["the batch"] if parting.batch else []), *parting.stored]
    differing += [f"the random numbers of {name}" for name in parting.random]
    if parting.iteration is None:
        where = f"Their {reference.num_iterations} steps are the same, their results are not."
    else:
        where = f"Before the step of iteration {parting.iteration} differs: {_list(differing)}."
    also = f" Attributes that differ: {_list(names)}." if names else ""
    return (
        f"{where}{also} Something depends on the clock, on os.urandom, on the order of a set, on a "
        "file, or on an operation that is not exact (--deterministic true)."
    )


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


# What has come out


def compare_results(run: RunDir, reference: RunDir) -> list[str]:
    """Name what differs between the last states and the logs of two runs that have finished."""
    state, known = (checkpoint.load(item.last_checkpoint) for item in (run, reference))
    differences = list(_compare_values("", _comparable(state), _comparable(known)))
    found = [f"last.pt: {_list(differences)}"] if differences else []
    metric = compare_metrics(run, reference)
    return [*found, *([f"metrics.csv: {metric}"] if metric else [])]


def _comparable(state: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in state.items() if key not in INCIDENTAL}
    counters = {key: state["clock"][key] for key in ("iterations", "epochs")}
    return {**kept, **counters, "loader": {key: state["loader"][key] for key in POSITION}}


def _compare_values(path: str, one: Any, other: Any) -> Iterator[str]:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        yield from () if _is_same_tensor(one, other) else (path,)
    elif isinstance(one, dict) and isinstance(other, dict):
        for key in {**other, **one}:
            place = f"{path}.{key}" if path else str(key)
            yield from _compare_values(place, one.get(key), other.get(key))
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        for index, (mine, its) in enumerate(itertools.zip_longest(one, other)):
            yield from _compare_values(f"{path}[{index}]", mine, its)
    elif type(one) is not type(other) or repr(one) != repr(other):
        yield path


def _is_same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare the bits of tensors: NaN is not equal to itself, but the same."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    mine, its = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other))
    return torch.equal(mine, its)


def compare_metrics(run: RunDir, reference: RunDir) -> str | None:
    """Name the first value in the log of a run that is not as in another one, if there is one."""
    if run.metrics.read_bytes() == reference.metrics.read_bytes():
        return None
    with run.metrics.open(newline="") as mine, reference.metrics.open(newline="") as its:
        for row, known in itertools.zip_longest(csv.DictReader(mine), csv.DictReader(its)):
            if row != known:
                return _compare_rows(row, known)
    return "the columns"


def _compare_rows(row: Mapping[str, str] | None, known: Mapping[str, str] | None) -> str:
    if row is None or known is None:
        which, what = (known, "missing") if row is None else (row, "too much")
        return f"the row of iteration {(which or {}).get('iteration')} is {what}"
    for name in {**known, **row}:
        if row.get(name) != known.get(name):
            found, right = row.get(name) or "nothing", known.get(name) or "nothing"
            return f"{name} at iteration {row['iteration']}, {found} instead of {right}"
    return "the order of the columns"
