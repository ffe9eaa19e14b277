"""What a training step costs around the user's own code, as a multiple of the bare loop's."""

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
BARE = "bare"
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
    """How often is measured: in ``processes`` processes, in each ``rounds`` times in turn."""

    epochs: int = 30
    processes: int = 10
    rounds: int = 10
    peer_processes: int = 3
    peer_rounds: int = 3


QUICK = Plan(epochs=20, processes=2, rounds=5, peer_processes=1, peer_rounds=2)


def measure(*, quick: bool = False) -> list[Figure]:
    """Measure all contenders that are installed, each between two runs of the bare loop."""
    plan = QUICK if quick else Plan()
    contenders = [name for name in CONTENDERS if name != BARE and is_installed(name)]
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in [BARE, *contenders]}
    with tempfile.TemporaryDirectory(prefix="jade-benchmark-") as folder:
        data = Path(folder, "digits.pt")
        tiny.save_digits(data)
        for number in range(plan.processes):
            for name in contenders:
                if name in TARGETS:
                    _measure_process(samples, name, plan.rounds, data, plan.epochs)
                elif number < plan.peer_processes:
                    _measure_process(samples, name, plan.peer_rounds, data, plan.epochs)
    figures = [_bare_figure(samples[BARE], plan)]
    figures += [_figure(name, samples[name]) for name in contenders]
    figures += [
        Figure("loop", NAMES[name], note="not installed") for name in NAMES if name not in samples
    ]
    return figures


def _measure_process(
    samples: dict[str, list[dict[str, Any]]], name: str, rounds: int, data: Path, epochs: int
) -> None:
    """Let a contender and the bare loop take turns in a process of their own."""
    with Worker([BARE, name], data, epochs, data.parent) as worker:
        before = worker.run(BARE)
        for _ in range(rounds):
            ours, after = worker.run(name), worker.run(BARE)
            samples[BARE].append(after)
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
