"""Put the directories of runs onto the W&B server of the tests, as a run uploads itself."""

import io
import json
import zipfile

from wandb_server import ServedRun

from jade import yaml_file
from jade.metrics_table import MetricsTable
from jade.run_dir import RunDir

RECORDS = ("config.yml", "provenance.json", "status.json", "summary.json", "metrics.csv", "run.log")


def serve(server, directory, *, state="finished", project="project", sweep=None, upload=True):
    """Let the server know a run as if it had been uploaded; return what the server has of it."""
    run = RunDir(directory)
    config = yaml_file.load(run.config).values
    served = ServedRun(
        entity="team",
        project=project,
        id=run.run_id,
        state=state,
        sweep=sweep,
        raw_config={
            **{name: {"value": value} for name, value in config.items()},
            "_wandb": {"value": {"t": {}}},
        },
        display_name=run.run_id,
    )
    rows = MetricsTable.load(run.metrics).records() if run.metrics.is_file() else []
    lines = [json.dumps({**row, "_step": row["iteration"], "_runtime": 1}) for row in rows]
    served.lines["wandb-history.jsonl"] = lines
    served.summary = json.loads(run.summary.read_text()) if run.summary.is_file() else {}
    server.create_project(project)
    with server.world.lock:
        server.world.runs[("team", project, served.id)] = served
    if upload:
        upload_files(served, directory)
    return served


def upload_files(served, directory):
    run = RunDir(directory)
    paths = [run.root / name for name in RECORDS]
    for path in [*paths, *run.checkpoints.glob("*.pt")]:
        if path.is_file() and path.name != "former.pt":
            put(served, path.relative_to(run.root).as_posix(), path.read_bytes())
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(run.code.rglob("*.py")):
            archive.writestr(path.relative_to(run.code).as_posix(), path.read_bytes())
    put(served, "code.zip", content.getvalue())


def put(served, name, content):
    served.files[f"jade/{name}"] = content
    served.num_uploads[f"jade/{name}"] += 1
