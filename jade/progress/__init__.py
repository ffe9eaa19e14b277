"""Draw one progress line per run, by a thread that reads a snapshot of the training loop.

On a terminal and in a notebook the line is rewritten in place; anywhere else (log files, SLURM) a
few plain lines are written. Progress goes to standard error and leaves standard output to results.
While the bar is up, what is printed goes above it; so does what ``ProgressLine.note`` and loggers
with a ``ConsoleHandler`` write (an ordinary handler keeps the stream of before, and garbles it).
"""

from jade.progress.console import ConsoleHandler, open_console
from jade.progress.line import ProgressLine
from jade.progress.status import TRAINING, Snapshot

__all__ = ["TRAINING", "ConsoleHandler", "ProgressLine", "Snapshot", "open_console"]
