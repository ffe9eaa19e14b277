"""List the runs of a sweep or a project on W&B, as those below a folder are listed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from jade.errors import ConfigError, suggest
from jade.metrics_table import STEP
from jade.remote.client import Client, as_mapping
from jade.remote.history import numbers_of
from jade.remote.reference import (
    BEST,
    NEWEST,
    ProjectReference,
    RunReference,
    SweepReference,
)
from jade.run_dir import FAILED, FINISHED, PREEMPTED, RUNNING
from jade.runs import CRASHED, STATUSES, UNKNOWN, BestValue, RunSummary
from jade.schedule import parse_amount
from jade.sweep.metric import Metric, read_metric

# W&B's words for how a run stands, in ours.
STATES = {
    "running": RUNNING,
    "finished": FINISHED,
    "failed": FAILED,
    "crashed": CRASHED,
    "killed": CRASHED,
    "preempting": PREEMPTED,
    "preempted": PREEMPTED,
}
# What JADE says of a run as a whole stands in its summary under names with these beginnings.
ABOUT_THE_RUN = ("run/", "samples/", "parameters/", "best/")


@dataclass(frozen=True, kw_only=True)
class ListedRun(RunSummary):
    """A run on W&B; its ``path`` is the reference by which it is found again.

    Attributes:
        sweep: The id of its sweep.
        swept: The values of the parameters of its sweep.
        config: Its configuration, nested.
        summary: What W&B's table says of it.
        state: How it stands, in W&B's words.
        url: Where people look at it.
    """

    state: str
    url: str
    sweep: str | None = None
    swept: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)


def list_sweep(client: Client, reference: SweepReference) -> list[ListedRun]:
    """List the runs of a sweep, the newest first."""
    sweep = client.find_sweep(reference)
    config = as_mapping(sweep.config)
    keys = [key for key, options in _parameters(config) if _varies(options)]
    metric = _metric_of(config)
    runs = client.list_runs(reference, reference.sweep_id)
    return _newest_first(describe_run(run, keys, metric) for run in runs)


def list_project(client: Client, reference: ProjectReference) -> list[ListedRun]:
    """List the runs of a project, the newest first."""
    return _newest_first(describe_run(run) for run in client.list_runs(reference))


def choose_run(client: Client, reference: SweepReference) -> RunReference:
    """Choose the run of a sweep that a reference means.

    The best one is that with the best last value of the sweep's metric, as W&B's table has it; of
    several, the one that was started first.

    Raises:
        ConfigError: There is none, or none has the metric.
    """
    sweep = client.find_sweep(reference)
    runs = client.list_runs(reference, reference.sweep_id)
    if not runs:
        raise ConfigError(f"The sweep {reference} has no runs yet.")
    chosen = runs[-1]
    if reference.which == BEST:
        chosen = _best(runs, _metric_of(as_mapping(sweep.config)), reference)
    elif reference.which != NEWEST:
        ids = {str(run.id): run for run in runs}
        if reference.which not in ids:
            hint = suggest(reference.which, [*ids, BEST, NEWEST])
            raise ConfigError(f"The sweep {reference} has no run {reference.which!r}.{hint}")
        chosen = ids[reference.which]
    return RunReference(str(chosen.entity), str(chosen.project), str(chosen.id))


def _best(runs: Sequence[Any], metric: Metric | None, reference: SweepReference) -> Any:
    if metric is None:
        raise ConfigError(
            f"The sweep {reference} names no metric: which of its {len(runs)} runs is the best one "
            f"is not known. Write :{NEWEST} or :run_id instead of :{BEST}."
        )
    found = [(_measured(as_mapping(run.summary_metrics), metric.name), run) for run in runs]
    measured = [(value, run) for value, run in found if value is not None]
    if not measured:
        known = {name for run in runs for name in numbers_of(as_mapping(run.summary_metrics))}
        raise ConfigError(
            f"None of the {len(runs)} runs of the sweep {reference} has logged its metric "
            f"{metric.name!r}.{suggest(metric.name, known)}"
        )
    sign = -1 if _mode(metric) == "max" else 1
    # The first of several equal ones, which come in the order of their starts.
    return min(measured, key=lambda pair: sign * pair[0])[1]


def describe_run(run: Any, keys: Sequence[str] = (), metric: Metric | None = None) -> ListedRun:
    """Describe a run by what W&B's table knows.

    Args:
        run: The run, as the package wandb has it.
        keys: The parameters of its sweep.
        metric: That of its sweep.
    """
    config = {k: v for k, v in as_mapping(run.config).items() if not k.startswith("_")}
    summary = as_mapping(run.summary_metrics)
    status = _status(str(run.state), summary)
    created, updated = (
        _seconds(run._attrs.get("createdAt")),
        _seconds(run._attrs.get("heartbeatAt")),
    )
    latest = {k: v for k, v in numbers_of(summary).items() if not k.startswith(ABOUT_THE_RUN)}
    epochs = _whole(summary.get("run/epochs", summary.get("epoch")))
    return ListedRun(
        id=str(run.id),
        path=Path(*run.path),
        status=status,
        started=created or updated or 0.0,
        updated=updated or created or 0.0,
        reason=_text(summary.get("run/reason")) if status != RUNNING else None,
        name=_text(run.name),
        model=_text(_look_up(config, ["model", "class"])),
        fraction=1.0 if status == FINISHED else _fraction(config, summary),
        iterations=_whole(summary.get("run/iterations", summary.get(STEP))),
        epochs=epochs,
        total_epochs=_whole(config.get("epochs")),
        best=_best_value(config, summary, metric),
        latest={k: v for k, v in latest.items() if k != "epoch"},
        state=str(run.state),
        url=str(run.url),
        sweep=_text(run.sweep_name),
        swept={key: value for key in keys if (value := _swept(config, key)) is not None},
        config=config,
        summary={k: v for k, v in summary.items() if not k.startswith("_")},
    )


def _newest_first(runs: Iterator[ListedRun]) -> list[ListedRun]:
    return sorted(runs, key=lambda run: (run.started, run.id), reverse=True)


def _status(state: str, summary: Mapping[str, Any]) -> str:
    """Say how a run stands; how it ended, JADE has put more exactly than W&B can."""
    status = STATES.get(state, UNKNOWN)
    own = summary.get("run/status")
    if status in (FINISHED, FAILED, PREEMPTED) and own in STATUSES:
        return str(own)
    return status


def _best_value(
    config: Mapping[str, Any], summary: Mapping[str, Any], metric: Metric | None
) -> BestValue | None:
    """Return the metric of the sweep, or else the best value of the run's own."""
    if metric is not None:
        value = _measured(summary, metric.name)
        return None if value is None else BestValue(metric.name, value, None, _mode(metric))
    name = config.get("best_metric")
    value = _measured(summary, f"best/{name}")
    if not isinstance(name, str) or value is None:
        return None
    mode = "max" if config.get("best_mode") == "max" else "min"
    return BestValue(name, value, _whole(summary.get("best/iteration")), mode)


def _fraction(config: Mapping[str, Any], summary: Mapping[str, Any]) -> float | None:
    """Tell how much of the training is done, by what the run has logged last."""
    shares = []
    done = {
        "epochs": summary.get("run/epochs", summary.get("epoch")),
        "iterations": summary.get("run/iterations", summary.get(STEP)),
    }
    limits = [(config.get("epochs"), "epochs")]
    if isinstance(config.get("train_for"), str):
        try:
            amount = parse_amount(config["train_for"], "train_for")
            limits.append((amount.number, amount.unit))
        except ConfigError:
            return None
    for limit, unit in limits:
        value = _finite(done.get(unit))
        if isinstance(limit, (int, float)) and limit > 0 and value is not None:
            shares.append(min(value / limit, 1.0))
    return max(shares, default=None)


def _metric_of(config: Mapping[str, Any]) -> Metric | None:
    return read_metric(config["metric"], []) if "metric" in config else None


def _mode(metric: Metric) -> str:
    """Say which values are better, in JADE's words."""
    return "max" if metric.goal == "maximize" else "min"


def _parameters(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of a sweep's parameters; nested ones have ``parameters`` inside."""
    for name, options in as_mapping(config.get("parameters")).items():
        if isinstance(options, Mapping) and isinstance(options.get("parameters"), Mapping):
            yield from _parameters(options, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", options


def _varies(options: Any) -> bool:
    if not isinstance(options, Mapping) or "value" in options:
        return False
    values = options.get("values")
    return not isinstance(values, list) or len(values) > 1


def _swept(config: Mapping[str, Any], key: str) -> Any:
    return config[key] if key in config else _look_up(config, key.split("."))


def _look_up(values: Any, parts: Sequence[str]) -> Any:
    """Follow a dotted key; ``params`` may be left out, as on the command line."""
    for part in parts:
        if not isinstance(values, Mapping):
            return None
        if part not in values and isinstance(values.get("params"), Mapping):
            values = values["params"]
        values = values.get(part)
    return values


def _measured(summary: Mapping[str, Any], name: str) -> float | None:
    value = summary[name] if name in summary else _look_up(summary, name.split("."))
    return _finite(value)


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _seconds(text: Any) -> float | None:
    """Read a time of W&B, which is UTC whether it says so or not."""
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
