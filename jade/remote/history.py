"""Complete the table of metrics of a run from what W&B has of its history."""

import logging
import math
from collections.abc import Collection, Mapping
from typing import Any

from jade.errors import ConfigError, JadeError
from jade.loggers.base import RunInfo
from jade.loggers.csv_logger import CsvLogger
from jade.metrics_table import STEP, MetricsTable
from jade.remote.client import Client
from jade.run_dir import RunDir
from jade.saved_runs import load_config
from jade.schedule import ITERATIONS, parse_amount

# How JSON says what it has no numbers for.
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

logger = logging.getLogger(__name__)


def complete_metrics(client: Client, run: Any, directory: RunDir, iteration: int) -> None:
    """Add rows that a table lacks up to an iteration, as it does if an upload was cut.

    Rows come in order, so only those behind the last one can be missing. What W&B does not tell
    either is named in a warning.

    Args:
        client: Who asks.
        run: The run, as the package wandb has it.
        directory: Where the table is.
        iteration: Of the checkpoint from which the run goes on.
    """
    steps = [int(row[STEP] or 0) for row in MetricsTable.load(directory.metrics).rows]
    last = max(steps, default=-1)
    if last >= iteration:
        return
    try:
        missing = _read_history(client, run, last + 1, iteration)
    except JadeError as error:
        logger.warning(
            "metrics.csv on W&B ends at iteration %d, the checkpoint is of iteration %d, and the "
            "history does not say what was between: %s",
            last,
            iteration,
            error,
        )
        return
    lost = [step for step in _expected(directory, steps, iteration) if step not in missing]
    if lost:
        logger.warning(
            "metrics.csv of %s ends at iteration %d on W&B, whose history does not have the rows "
            "of iterations %d to %d either (%d rows): they are lost.",
            directory.run_id,
            last,
            lost[0],
            lost[-1],
            len(lost),
        )
    if missing:
        _append(directory, missing)
        logger.info("metrics.csv: %d rows behind iteration %d from W&B.", len(missing), last)


def _append(directory: RunDir, rows: Mapping[int, Mapping[str, float]]) -> None:
    table = CsvLogger(directory.metrics)
    table.start(RunInfo(directory.run_id, directory.root, {}))
    for step, values in rows.items():
        table.log(values, step)
    table.finish(0)


def _expected(directory: RunDir, steps: Collection[int], iteration: int) -> range:
    """Return the steps behind the last one at which losses should have been logged."""
    every = load_config(directory).get("log_loss_every")
    try:
        amount = parse_amount(every, "log_loss_every")
    except ConfigError:
        return range(0)
    number = int(amount.number)
    if amount.unit != ITERATIONS or number != amount.number or number < 1:
        return range(0)
    if steps and not any(step > 0 and step % number == 0 for step in steps):
        # Until now nothing was logged so often either.
        return range(0)
    last = max(steps, default=0)
    return range((last // number + 1) * number, iteration + 1, number)


def _read_history(client: Client, run: Any, first: int, last: int) -> dict[int, dict[str, float]]:
    """Return what was logged at each step, in order."""
    found: dict[int, dict[str, float]] = {}
    with client.asking(f"history of {'/'.join(run.path)}"):
        for row in run.scan_history(min_step=first, max_step=last + 1, use_cache=False):
            step = _number(row.get(STEP, row.get("_step")))
            values = numbers_of(row)
            if step is not None and first <= step <= last and values:
                found.setdefault(int(step), {}).update(values)
    return dict(sorted(found.items()))


def numbers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a row, without what W&B or the journal has added, and without media."""
    return {
        str(name): number
        for name, value in row.items()
        if name != STEP and not str(name).startswith("_") and (number := _number(value)) is not None
    }


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return NOT_FINITE.get(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number else None
