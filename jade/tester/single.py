"""Carry one test from a checkpoint of a run to its results beside the run."""

import copy
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from jade import checkpoint as checkpoints
from jade import yaml_file
from jade.assemble import build_evaluation, choose_device
from jade.config import freeze
from jade.errors import ConfigError, JadeError
from jade.eval import DatasetEvaluation, Evaluation
from jade.evaluator import Evaluator
from jade.loaded_run import LoadedRun
from jade.loggers.base import LoggerGroup
from jade.rebuild import Rebuilt, adopt_stored, ready
from jade.record import RunLog
from jade.resolve import Resolved
from jade.run import determinism
from jade.run_dir import FAILED, FINISHED, RunDir, RunTestDir
from jade.seeding import derive, draw_seed, isolated_rng
from jade.tester.options import DRAWN
from jade.tester.request import Request
from jade.tester.results import Results, write_json
from jade.trainer import Trainer
from jade.whole_file import write_whole

SEED_BITS = 31
# What is written down of the configuration: settings of training say nothing about a test.
KEPT = ("model", "data", "eval", "arch_impl", "modules")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinishedTest:
    """A test that has ended.

    Attributes:
        directory: Where its files are.
        status: ``finished``, or ``failed`` for the reason given.
        metrics: The mean of each metric over the repetitions.
        statistics: For each metric mean, min, max, std and count over the repetitions.
        checkpoint: The name of the file that was tested.
        iteration: How long that had been trained.
        seeds: One for each repetition.
    """

    directory: Path
    status: str
    reason: str
    checkpoint: str
    iteration: int
    seeds: tuple[int, ...]
    metrics: dict[str, float] = field(default_factory=dict)
    statistics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    error: Exception | None = None

    @property
    def is_finished(self) -> bool:
        return self.status == FINISHED

    def to_json(self) -> dict[str, Any]:
        """Return what ``summary.json`` says."""
        return {
            "status": self.status,
            "reason": self.reason,
            "checkpoint": self.checkpoint,
            "iteration": self.iteration,
            "seed": list(self.seeds),
            "metrics": self.metrics,
            "statistics": self.statistics,
        }


class RunTest:
    """One test of one run; making it checks all that can be checked without building anything."""

    def __init__(self, run: LoadedRun, request: Request, device: str) -> None:
        self._run = run
        self._options = request.options
        self._device = device
        self._path = run._find_checkpoint(request.options.checkpoint)
        with run._explained():
            self._resolved: Resolved = run._rebuilder.resolve(request.changes.apply)
        if not self._resolved.evaluations:
            raise ConfigError(
                f"The run {run.run_id} has no evaluations: say what to measure by --eval_conf FILE."
            )
        self._seeds = _make_seeds(run.config.get("seed"), self._options.seed, self._options.repeat)

    def execute(self) -> FinishedTest:
        """Build the trainer, take the measurements, and write the results.

        What goes wrong while measuring is in what is returned, and on record.

        Raises:
            JadeError: The trainer cannot be built, or the state does not fit; nothing is written.
        """
        started = time.time()
        deterministic = self._run.config.get("deterministic") is True
        with RunLog("info") as log, determinism(enabled=deterministic):
            device = choose_device(self._device)
            state = checkpoints.load(self._path, device)
            first = self._prepare(device, state)
            directory = RunDir(self._run.directory).create_test(self._options.tag)
            log.write_to(directory.log)
            self._describe(directory, state, device)
            results = Results()
            error: BaseException | None = None
            try:
                self._measure(first, directory, results)
                for number, seed in enumerate(self._seeds[1:], 2):
                    self._measure(self._repeat(first, number, seed, state), directory, results)
            except BaseException as caught:
                error = caught
                log.write_failure(caught)
            return self._finish(directory, state, results, error, started)

    def _prepare(self, device: torch.device, state: Mapping[str, Any]) -> "_Repetition":
        """Build all that the first repetition needs: what cannot be is said before it begins."""
        with self._run._explained():
            built = self._run._rebuilder.build(self._resolved, device)
            adopt_stored(built.trainer, state["trainer"])
            self._load(built.trainer, state)
            evaluations = self._evaluations(built, state, self._seeds[0])
        return _Repetition(built, evaluations, 1, self._seeds[0])

    def _repeat(
        self, first: "_Repetition", number: int, seed: int, state: Mapping[str, Any]
    ) -> "_Repetition":
        """Begin again from the checkpoint, whatever was done to the trainer meanwhile."""
        self._load(first.built.trainer, state)
        evaluations = self._evaluations(first.built, state, seed)
        return _Repetition(first.built, evaluations, number, seed)

    def _load(self, trainer: Trainer, state: Mapping[str, Any]) -> None:
        trainer.load_full_state(state["trainer"])
        ready(trainer, state["clock"])

    def _measure(self, now: "_Repetition", directory: RunTestDir, results: Results) -> None:
        """Take every measurement once."""
        seed = now.seed
        pictures = directory.pictures_of(now.number)
        evaluator = Evaluator(now.built.trainer, now.evaluations, pictures, LoggerGroup([]), seed)
        for name, evaluation in now.evaluations.items():
            rows: list[tuple[int, dict[str, float]]] = []
            evaluation.on_batch = lambda size, means, rows=rows: rows.append((size, means))
            with self._run._rebuilder.surroundings():
                measured = evaluator.measure(name) or {}
            for episode, (size, means) in enumerate(rows, 1):
                results.add_batch((now.number, seed, name, episode, size), means)
            if not rows:
                results.add_batch((now.number, seed, name, None, None), measured)
            results.add(measured)
            shown = ", ".join(f"{key} {value:.6g}" for key, value in measured.items())
            logger.info("repetition %d, %s: %s", now.number, name, shown or "nothing to compare")

    def _evaluations(
        self, built: Rebuilt, state: Mapping[str, Any], seed: int
    ) -> dict[str, Evaluation]:
        """Build the evaluations anew, each with random numbers of its own."""
        made: dict[str, Evaluation] = {}
        for name, blueprint in self._resolved.evaluations.items():
            with self._run._rebuilder.surroundings(), isolated_rng(derive(seed, "init", name)):
                made[name] = build_evaluation(name, blueprint, built.trainer, built.datasets)
            made[name].max_batches = self._options.max_test_episodes
            self._take_over(made[name], state)
        return made

    def _take_over(self, evaluation: Evaluation, state: Mapping[str, Any]) -> None:
        """Let an evaluation that was part of training have what it had learned by then."""
        name = evaluation.name
        known = state.get("evaluations", {}).get("states", {}).get(name)
        described = (self._run.config.get("eval") or {}).get(name)
        is_same = _is_same(described, self._resolved.values["eval"][name])
        if known is not None and is_same:
            # Not its generators: what it draws depends on the seed of the test.
            evaluation.load_full_state({**copy.deepcopy(known), "generators": {}})

    def _describe(
        self, directory: RunTestDir, state: Mapping[str, Any], device: torch.device
    ) -> None:
        """Write down what is tested, before it is."""
        about = {
            "run": str(self._run.directory),
            "checkpoint": self._path.name,
            "iteration": state["clock"]["iterations"],
            "seed": list(self._seeds),
            "max_test_episodes": self._options.max_test_episodes,
            "device": str(device),
        }
        values = {k: v for k, v in freeze(self._resolved.values).items() if k in KEPT}
        header = (f"A test of {self._run.directory}: what was measured, and how.",)
        text = yaml_file.render({"test": about, **values}, header=header)
        write_whole(directory.config, text.encode())
        for name, value in about.items():
            logger.info("%s: %s", name, value)
        if self._options.max_test_episodes is not None:
            for name, blueprint in self._resolved.evaluations.items():
                if not issubclass(blueprint.target, DatasetEvaluation):
                    logger.warning(
                        "%s takes no notice of max_test_episodes, unless it looks at max_batches.",
                        name,
                    )

    def _finish(
        self,
        directory: RunTestDir,
        state: Mapping[str, Any],
        results: Results,
        error: BaseException | None,
        started: float,
    ) -> FinishedTest:
        aggregated = results.aggregate()
        finished = FinishedTest(
            directory=directory.root,
            status=FINISHED if error is None else FAILED,
            reason=_reason(error, len(self._seeds)),
            checkpoint=self._path.name,
            iteration=int(state["clock"]["iterations"]),
            seeds=self._seeds,
            metrics={name: item.mean for name, item in aggregated.items()},
            statistics={name: item.to_dict() for name, item in aggregated.items()},
            error=error if isinstance(error, Exception) else None,
        )
        results.write(directory)
        more = {
            "run": self._run.run_id,
            "tag": self._options.tag,
            "max_test_episodes": self._options.max_test_episodes,
            "started": started,
            "seconds": time.time() - started,
        }
        # The last: who finds it finds the rest, too.
        write_json(directory.summary, {**finished.to_json(), **more})
        if error is not None and not isinstance(error, Exception):
            raise error
        return finished


@dataclass(frozen=True)
class _Repetition:
    """What one repetition starts from."""

    built: Rebuilt
    evaluations: Mapping[str, Evaluation]
    number: int
    seed: int


def _make_seeds(trained_with: Any, wanted: int | None, repeat: int) -> tuple[int, ...]:
    """Return a seed for each repetition, none twice; the first is the one that was asked for."""
    first = wanted
    if wanted == DRAWN:
        first = draw_seed()
    if first is None:
        # Not the seed of the run: what training has drawn is no test.
        first = derive(int(trained_with or 0), "test", bits=SEED_BITS)
    seeds = [first]
    attempt = 2
    while len(seeds) < repeat:
        seed = derive(first, "repetition", attempt, bits=SEED_BITS)
        attempt += 1
        if seed not in seeds:
            seeds.append(seed)
    return tuple(seeds)


def _is_same(stored: Any, tested: Any) -> bool:
    """Tell whether two descriptions are of the same evaluation, however often it is taken."""
    if not isinstance(stored, Mapping) or not isinstance(tested, Mapping):
        return False
    return all(stored.get(key) == tested.get(key) for key in ("class", "params"))


def _reason(error: BaseException | None, repeat: int) -> str:
    if error is None:
        return "1 repetition" if repeat == 1 else f"{repeat} repetitions"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, JadeError) else f"{type(error).__name__}: {error}"
