"""What a training step costs around the user's own code, as a multiple of the bare loop's."""

import contextlib
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import tiny
from benchmarks.contenders import CONTENDERS, is_installed
from benchmarks.figures import Figure
from benchmarks.worker import Worker

STEPS_PER_EPOCH = 57
BUSY = 1.05
NAMES = {
    "jade": "JADE: CSV every 50 steps, progress line",
    "jade_loader": "JADE with its own loader",
    "lightning": "Lightning, defaults",
    "lightning_barebones": "Lightning, barebones",
    "ignite": "Ignite, nothing on",
    "ignite_with_output": "Ignite: CSV every 50 steps, progress bar",
}
TARGETS = {"jade": 1.03, "jade_loader": 0.75}


@dataclass(frozen=True)
class Plan:
    """How often is measured: ``processes`` times anew, in each ``rounds`` times in turn."""

    epochs: int = 60
    processes: int = 5
    rounds: int = 6
    peer_rounds: int = 2


QUICK = Plan(epochs=30, processes=1, rounds=3, peer_rounds=1)


def measure(*, quick: bool = False) -> list[Figure]:
    """Measure all contenders that are installed, each between two runs of the bare loop."""
    plan = QUICK if quick else Plan()
    contenders = [name for name in CONTENDERS if name != "bare" and is_installed(name)]
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in ["bare", *contenders]}
    with tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder:
        data = Path(folder, "digits.pt")
        tiny.save_digits(data)
        for _ in range(plan.processes):
            _measure_processes(samples, data, plan, Path(folder))
    figures = [_bare_figure(samples["bare"], plan)]
    figures += [_figure(name, samples[name]) for name in contenders]
    figures += [
        Figure("loop", NAMES[name], note="not installed") for name in NAMES if name not in samples
    ]
    return figures


def _measure_processes(
    samples: dict[str, list[dict[str, Any]]], data: Path, plan: Plan, folder: Path
) -> None:
    """Start each contender once; let them take turns with the bare loop."""
    with contextlib.ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker(name, data, plan.epochs, folder)) for name in samples
        }
        bare = workers.pop("bare")
        before = bare.run()
        for number in range(plan.rounds):
            for name, worker in workers.items():
                if name not in TARGETS and number >= plan.peer_rounds:
                    continue
                ours, after = worker.run(), bare.run()
                samples["bare"].append(after)
                samples[name].append(_compare(ours, before, after))
                before = after


def _compare(ours: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {
        "ratio": 2 * ours["wall"] / (before["wall"] + after["wall"]),
        "cpu_ratio": 2 * ours["cpu"] / (before["cpu"] + after["cpu"]),
        "same_weights": ours["weights"] == before["weights"] == after["weights"],
    }


def _bare_figure(samples: list[dict[str, Any]], plan: Plan) -> Figure:
    seconds = statistics.median(sample["wall"] for sample in samples)
    step_us = seconds / plan.epochs / STEPS_PER_EPOCH * 1e6
    # One thread that computes all the time: what it waited, it waited for other processes.
    waited = statistics.median(sample["wall"] / sample["cpu"] for sample in samples)
    note = f"{step_us:.0f} us a step" + ("; BUSY MACHINE" if waited > BUSY else "")
    return Figure("loop", "bare loop", 1.0, "x", note=note)


def _figure(name: str, samples: list[dict[str, Any]]) -> Figure:
    is_same = all(sample["same_weights"] for sample in samples)
    if name in TARGETS and not is_same:
        raise RuntimeError(f"{NAMES[name]}: the weights differ from those of the bare loop.")
    cpu = statistics.median(sample["cpu_ratio"] for sample in samples)
    return Figure.from_samples(
        "loop",
        NAMES[name],
        [sample["ratio"] for sample in samples],
        unit="x",
        at_most=TARGETS.get(name),
        note=f"cpu {cpu:.3f}, {'same' if is_same else 'other'} weights",
    )
