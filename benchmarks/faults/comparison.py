"""Tell whether a run that something happened to came to the very result of one without that."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from jade import checkpoint
from jade.run_dir import RunDir

# The rest of a checkpoint says what time it is, and how batches were made last.
COMPARED = ("trainer", "evaluations", "best", "journal", "rng", "datasets", "seed")


def find_differences(run: RunDir, reference: RunDir, *, on_the_way: bool = True) -> list[str]:
    """List what is not to the last bit as in the run without a fault.

    Args:
        run: What something happened to.
        reference: The run without a fault.
        on_the_way: Whether to compare, besides the end, what is only kept on the way to it.
    """
    found = _find_differing_states(run, reference, ["last", "best"] if on_the_way else ["last"])
    if run.metrics.read_bytes() != reference.metrics.read_bytes():
        found.append(f"metrics.csv differs: {_describe_rows(run.metrics, reference.metrics)}")
    files, expected = _shown(run), _shown(reference)
    if on_the_way and files != expected:
        names = sorted(name for name in files | expected if files.get(name) != expected.get(name))
        found.append(f"what evaluations show differs: {', '.join(names)}")
    found += [f"{path.name} is left behind" for path in run.checkpoints.glob(".*")]
    return found


def _find_differing_states(run: RunDir, reference: RunDir, names: Sequence[str]) -> list[str]:
    found = []
    for name in names:
        one, other = (checkpoint.load(item.checkpoints / f"{name}.pt") for item in (run, reference))
        # The best state is written before the step is over: at which moment does not matter.
        for key in COMPARED if name == "last" else ("trainer", "best"):
            if not is_same(one[key], other[key]):
                found.append(f"{name}.pt differs in {key!r}")
    return found


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two nested values are equal, tensors to the last bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    if hasattr(one, "tobytes"):
        return bool(one.tobytes() == other.tobytes())
    return type(one) is type(other) and bool(one == other)


def _describe_rows(path: Path, reference: Path) -> str:
    rows, expected = (list(csv.reader(p.open(newline=""))) for p in (path, reference))
    steps = [row[0] for row in rows[1:]]
    twice = sorted({step for step in steps if steps.count(step) > 1})
    missing = [row[0] for row in expected[1:] if row[0] not in steps]
    if twice or missing:
        return f"steps twice: {twice}, steps missing: {missing}"
    where = next(
        (
            f"{row} and not {other}"
            for row, other in zip(rows, expected, strict=False)
            if row != other
        ),
        "further rows",
    )
    return f"it has {where}"


def _shown(run: RunDir) -> dict[str, bytes]:
    return {
        str(path.relative_to(run.evaluations)): path.read_bytes()
        for path in run.evaluations.rglob("*")
        if path.is_file()
    }
