"""What came of one fault: in how many of its cases JADE held, and the table of all."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

HEADER = ("fault", "must hold", "held in", "seconds")


@dataclass
class Verdict:
    """What must hold when something goes wrong, and in how many cases it did."""

    fault: str
    must_hold: str
    num_cases: int = 0
    num_held: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, problems: Sequence[str], folder: Path, num_cases: int = 1) -> None:
        """Count cases that came to one end; what is wrong with it is said with its folder."""
        self.num_cases += num_cases
        self.num_held += 0 if problems else num_cases
        self.problems += [f"{problem} ({folder})" for problem in problems]

    @property
    def has_held(self) -> bool:
        """Whether there were cases, and JADE held in all of them."""
        return self.num_cases > 0 and self.num_held == self.num_cases and not self.problems


def print_table(verdicts: Sequence[Verdict]) -> None:
    """Print a line for each fault, then what there is to say about it."""
    rows = [HEADER, *(_as_row(verdict) for verdict in verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    for row in rows:
        print(" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    for verdict in verdicts:
        for text in (*verdict.notes, *(f"DID NOT HOLD: {text}" for text in verdict.problems)):
            print(f"{verdict.fault}: {text}")


def _as_row(verdict: Verdict) -> tuple[str, ...]:
    return (
        verdict.fault,
        verdict.must_hold,
        f"{verdict.num_held} of {verdict.num_cases}",
        f"{verdict.seconds:.1f}",
    )
