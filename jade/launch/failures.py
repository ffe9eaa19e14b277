"""Judge failures: whether it is a point of the sweep, or this machine."""

from dataclasses import dataclass, field

from jade.launch.trial import FINISHED, IMPOSSIBLE, STOPPED, Trial


@dataclass
class FailureRecord:
    """The failures in a row that may be the machine's fault.

    Args:
        most: As many of them end the work; 0 means never.
    """

    most: int
    num_in_a_row: int = 0
    has_succeeded: bool = False
    _last_lines: list[str] = field(default_factory=list)

    def note(self, trial: Trial) -> None:
        """Take note of how a trial ended.

        A point that is impossible says nothing about the machine, unless none was ever possible
        and all fail alike; and what has worked before is not broken because some points fail,
        each in its own way.
        """
        if trial.outcome in (FINISHED, STOPPED):
            self.has_succeeded, self.num_in_a_row = True, 0
        is_impossible = trial.outcome == IMPOSSIBLE
        if not trial.is_failure or (is_impossible and self.has_succeeded):
            return
        last = trial.tail()[-1:]
        must_be_alike = is_impossible or self.has_succeeded
        is_one_of_a_row = last == self._last_lines or not must_be_alike
        self.num_in_a_row = self.num_in_a_row + 1 if is_one_of_a_row else 1
        self._last_lines = last

    @property
    def is_too_much(self) -> bool:
        return 0 < self.most <= self.num_in_a_row
