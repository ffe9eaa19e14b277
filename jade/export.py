"""Put the model of a run into one file that can be used where the run and its project are not."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade import checkpoint as checkpoints
from jade.code_copy import CodeCopy
from jade.errors import ConfigError
from jade.metrics_table import STEP, MetricsTable
from jade.model_file import SUFFIX, write_model
from jade.run_dir import RunDir
from jade.saved_runs import find_checkpoint, load_config, read_json
from jade.stateful import is_weights

# Settings that say something of the machine or the run, and nothing of the model.
LEFT_OUT = (
    "experiments_root",
    "env_file",
    "load",
    "run_name",
    "group",
    "tags",
    "notes",
    "job_type",
)


@dataclass(frozen=True)
class Exported:
    """What was put into a file."""

    path: Path
    run_id: str
    checkpoint: str
    iteration: int
    num_sources: int


def export_run(run: RunDir, path: Path, checkpoint: str | int | Path | None = None) -> Exported:
    """Write the weights of a checkpoint, the code of the run and its configuration to a file.

    Args:
        run: The run.
        path: The file, which ends in ``.jade``; one that exists is replaced.
        checkpoint: As for ``saved_runs.find_checkpoint``.
    """
    if path.suffix != SUFFIX or not path.parent.is_dir():
        missing = f"there is no folder {path.parent}" if path.suffix == SUFFIX else None
        raise ConfigError(f"{path}: {missing or f'the name of a model file ends in {SUFFIX}'}.")
    found = find_checkpoint(run, checkpoint)
    content = checkpoints.load(found.path)
    provenance = read_json(run.provenance)
    code = CodeCopy(run.code, provenance.get("code") or {})
    config = load_config(run)
    kept = {key: value for key, value in config.items() if key not in LEFT_OUT}
    sources = {name: file.read_bytes() for name, file in code.files().items()}
    facts = {
        "provenance": {
            "run_id": run.run_id,
            "checkpoint": found.kind,
            "iteration": content["clock"]["iterations"],
            "epochs": content["clock"]["epochs"],
            **_pick(provenance, "started", "seed"),
            "git": _pick(provenance.get("git") or {}, "commit", "dirty"),
        },
        "versions": _pick(provenance, "jade", "python", "packages"),
        "metrics": _describe_metrics(run, config, content),
        "samples": provenance.get("samples") or {},
    }
    write_model(
        path,
        state={"trainer": _without_optimizers(content["trainer"]), "clock": content["clock"]},
        config=code.translate(kept),
        facts=facts,
        sources=sources,
    )
    iteration = content["clock"]["iterations"]
    return Exported(path, run.run_id, found.kind, iteration, len(sources))


def _without_optimizers(state: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what only training needs, which is often more than the weights."""
    stateful = {path: kept for path, kept in state["stateful"].items() if is_weights(kept)}
    return {**state, "stateful": stateful}


def _describe_metrics(
    run: RunDir, config: Mapping[str, Any], content: Mapping[str, Any]
) -> dict[str, Any]:
    last = MetricsTable.load(run.metrics).last
    best = content.get("best") or {}
    return {
        "last": {name: value for name, value in last.items() if name != STEP},
        "checkpoint": dict(content.get("latest") or {}),
        "best": {"metric": config.get("best_metric"), **_pick(best, "value", "iteration")}
        if best
        else None,
    }


def _pick(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: values.get(name) for name in names}
