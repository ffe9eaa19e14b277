"""Write the directories of runs as their analysis finds them: configuration, metrics, tests."""

import json

from run_files import write_run

from jade import yaml_file


def write_measured_run(root, run_id, values=None, metrics=None, status="finished", **details):
    """Write a run with a configuration and a table of metrics.

    Args:
        root: Where runs are.
        run_id: Of the run.
        values: What its trainer's parameters are; ``seed`` is that of the run.
        metrics: Names with values at iterations 1, 2, 3, ...
        status: How it ended.
        details: More of what its status says.
    """
    values, metrics = dict(values or {}), metrics or {}
    run = write_run(root, run_id, status, **details)
    config = {
        "seed": values.pop("seed", 0),
        "run_name": run_id,
        "experiments_root": str(root),
        "model": {"class": "LineTrainer", "params": {"layers": [8, 8], **values}},
    }
    run.config.write_text(yaml_file.render(config, header=[f"Run it again: {run.config}"]))
    num_rows = max(map(len, metrics.values()), default=0)
    lines = [",".join(["iteration", "epoch", *metrics])]
    for row in range(num_rows):
        cells = [repr(series[row]) if row < len(series) else "" for series in metrics.values()]
        lines.append(",".join([str(row + 1), "0", *cells]))
    if metrics:
        run.metrics.write_text("\n".join(lines) + "\n")
    run.last_checkpoint.write_bytes(b"")
    return run


def write_test(run, name, metrics, **details):
    """Write what a test of a run leaves behind."""
    folder = run.root / f"test_{name}"
    folder.mkdir()
    summary = {"metrics": metrics, "checkpoint": "best", "iteration": 2, "seed": [7]}
    text = json.dumps({**summary, "status": "finished", **details})
    (folder / "summary.json").write_text(text)
    return folder
