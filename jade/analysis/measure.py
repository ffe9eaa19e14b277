"""What runs are compared by: a metric at its end, at its best or in tests, and what is better."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jade.analysis.run_facts import RunFacts, RunTest
from jade.analysis.sweep_facts import SweepFacts
from jade.errors import ConfigError, suggest
from jade.run_dir import FINISHED

LAST, BEST, TEST = "last", "best", "test"
UNFINISHED = "unfinished test"
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# Names that speak for themselves; of anything else, less is better.
MORE_IS_BETTER = {
    *("acc", "accuracy", "auc", "auroc", "precision", "recall", "f1", "f", "score", "reward"),
    *("return", "iou", "dice", "psnr", "ssim", "bleu", "map", "r2", "likelihood"),
    *("correct", "success", "hits"),
}
LESS_IS_BETTER = {"loss", "error", "err", "negative", "nll", "perplexity"}
MEASURED_APART = {"valid", "validation", "val", "test", "eval"}


@dataclass(frozen=True)
class Measure:
    """A number of each run.

    Attributes:
        kind: ``last`` value, ``best`` one, that of the newest finished ``test``, or ``test_TAG``.
        name: Of the metric.
        mode: Which values are better, ``min`` or ``max``.
        reason: Why that is known, for whoever wonders.
    """

    kind: str
    name: str
    mode: str = "min"
    reason: str = ""

    @property
    def label(self) -> str:
        """How it is called; the last value needs no further words."""
        return self.name if self.kind == LAST else f"{self.kind}/{self.name}"

    @property
    def sign(self) -> int:
        """What values are multiplied with, so that less is better."""
        return -1 if self.mode == "max" else 1

    @property
    def is_test(self) -> bool:
        """Whether it was measured after training."""
        return self.kind not in (LAST, BEST)

    def of(self, run: RunFacts) -> float | None:
        """Return the value of a run, if it has one; it may be infinite or NaN."""
        if self.is_test:
            # Tests of one model are no repetitions of its training, and may be of other data.
            tests = [test for test in run.tests if _kind_of(test) == self.kind]
            return tests[-1].metrics.get(self.name) if tests else None
        course = run.courses.get(self.name)
        if course is None:
            return None
        if self.kind == LAST:
            return course.last
        extreme = course.best(self.mode)
        return None if extreme is None else extreme.value

    def rank(self, run: RunFacts) -> tuple[bool, float]:
        """Return what runs are sorted by, the best first, those without a value at the end."""
        value = self.of(run)
        is_bad = value is None or value != value
        return is_bad, 0.0 if value is None or is_bad else self.sign * value


class Measures:
    """The metrics that some runs have, and which values of each are better.

    Args:
        runs: All runs.
        sweeps: Those they belong to, which know what they improve.
        given_mode: What somebody says is better, of the metrics they ask for.
    """

    def __init__(
        self,
        runs: Sequence[RunFacts],
        sweeps: Sequence[SweepFacts] = (),
        given_mode: str | None = None,
    ) -> None:
        self._runs = runs
        self._sweeps = sweeps
        self._given_mode = given_mode
        self._counts = Counter(name for run in runs for name in run.courses)
        tests = [test for run in runs for test in run.tests]
        self.logged = sorted(self._counts)
        # Kinds of tests with names of metrics.
        self.tested = sorted(
            {
                (kind, name)
                for test in tests
                if (kind := _kind_of(test)) != UNFINISHED
                for name in test.metrics
            }
        )
        self._asked: set[str] = set()

    def find(self, text: str) -> Measure:
        """Find what is meant by ``NAME``, ``last/NAME``, ``best/NAME`` or ``test/NAME``.

        Raises:
            ConfigError: No run has such a metric.
        """
        kind, name = LAST, text
        if text not in self._counts:
            kind, _, name = text.partition("/")
            is_logged = kind in (LAST, BEST) and name in self._counts
            if not is_logged and (kind, name) not in self.tested:
                raise ConfigError(self._unknown(text))
        self._asked.add(name)
        return self.measure(kind, name)

    def measure(self, kind: str, name: str) -> Measure:
        """Return a measure of a metric that is known."""
        return Measure(kind, name, *self.mode_of(name))

    def mode_of(self, name: str) -> tuple[str, str]:
        """Return which values are better, and who says so."""
        if self._given_mode and name in self._asked:
            return self._given_mode, "as --mode says"
        for sweep in self._sweeps:
            if sweep.metric == name:
                return sweep.mode, "as the sweep says"
        modes = {
            str(run.config.get("best_mode"))
            for run in self._runs
            if run.config.get("best_metric") == name
        }
        if len(modes) == 1 and modes <= {"min", "max"}:
            return modes.pop(), "as best_mode of the runs says"
        return guess_mode(name), "by its name"

    def choose(self) -> tuple[Measure | None, str]:
        """Choose what to compare runs by if nobody says, and say why."""
        for sweep in self._sweeps:
            if sweep.metric in self._counts:
                return self.find(str(sweep.metric)), "the metric of the sweep"
        named = Counter(run.config.get("best_metric") for run in self._runs)
        for name, _ in named.most_common():
            if name in self._counts:
                return self.measure(BEST, str(name)), "best_metric of the runs"
        if self.tested:
            return self.measure(*self.tested[0]), "a metric of the tests"
        most = max(self._counts.values(), default=0)
        common = [name for name in self.logged if self._counts[name] == most]
        common.sort(key=lambda name: not MEASURED_APART & set(words(name)))
        if not common:
            return None, "no run has logged anything"
        return self.measure(LAST, common[0]), "--metric chooses another one"

    def all(self) -> Iterator[Measure]:
        """Yield the tests and the last value of every metric."""
        yield from (self.measure(kind, name) for kind, name in self.tested)
        yield from (self.measure(LAST, name) for name in self.logged)

    def missing_of_sweeps(self) -> list[str]:
        """List the metrics of sweeps that no run has logged."""
        return sorted({s.metric for s in self._sweeps if s.metric and s.metric not in self._counts})

    def _unknown(self, text: str) -> str:
        known = [*self.logged, *(f"{kind}/{name}" for kind, name in self.tested)]
        runs = "The run has" if len(self._runs) == 1 else f"None of the {len(self._runs)} runs has"
        if not known:
            return f"--metric {text}: no run has logged anything yet."
        negated = " not" if len(self._runs) == 1 else ""
        return f"--metric: {runs}{negated} logged {text!r}.{suggest(text, known)}"


def _kind_of(test: RunTest) -> str:
    if test.status != FINISHED:
        return UNFINISHED
    return f"{TEST}_{test.tag}" if test.tag else TEST


def guess_mode(name: str) -> str:
    """Guess from the name of a metric whether more of it is better."""
    found = set(words(name))
    if found & LESS_IS_BETTER:
        return "min"
    return "max" if found & MORE_IS_BETTER else "min"


def words(name: str) -> list[str]:
    """Return the words of a name, in small letters: ``ValidAccuracy`` has two."""
    return [word.lower() for word in WORD.findall(name)]
