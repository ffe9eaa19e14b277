"""The GraphQL operations that concern the user, projects, runs and their files."""

import base64
import hashlib
import json
import mimetypes
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from wandb_server.refusal import RefusalError
from wandb_server.run_query import matches, ordered
from wandb_server.runs import EVENTS, HISTORY, OUTPUT, ServedRun, as_json, storage_id
from wandb_server.world import Key, World, new_id

Variables = dict[str, Any]
VERSIONS = {"min_cli_version": "0.31.0", "max_cli_version": "99.0.0"}
# What a mutation of a run may change, and how it is called here.
CHANGES = {
    "groupName": "group",
    "displayName": "display_name",
    "display_name": "display_name",
    "description": "description",
    "notes": "notes",
    "commit": "commit",
    "host": "host",
    "program": "program",
    "jobType": "job_type",
    "state": "state",
    "sweep": "sweep",
    "tags": "tags",
}


def selected(query: str, fields: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Work out the fields whose names occur in the query."""
    words = set(re.findall(r"\w+", query))
    return {name: value() for name, value in fields.items() if name in words}


def page(nodes: list[Any], first: int, after: str | None) -> dict[str, Any]:
    """Cut one page out of a list; a cursor is the number of nodes before it."""
    start = int(after or 0)
    shown = nodes[start : start + first]
    end = start + len(shown)
    return {
        "edges": [{"node": node, "cursor": str(start + i + 1)} for i, node in enumerate(shown)],
        "pageInfo": {
            "__typename": "PageInfo",
            "endCursor": str(end),
            "hasNextPage": end < len(nodes),
        },
    }


def sample(rows: list[Any], count: int) -> list[Any]:
    """Choose ``count`` rows at equal distances."""
    if len(rows) <= count:
        return rows
    return [rows[i * (len(rows) - 1) // max(count - 1, 1)] for i in range(count)]


def flat(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a row; those of nested mappings under names with dots."""
    for name, value in row.items():
        if isinstance(value, dict) and "_type" not in value:
            yield from ((f"{name}.{rest}", inner) for rest, inner in flat(value))
        else:
            yield name, value


def read(run: ServedRun) -> list[dict[str, Any]]:
    """Return the history as it is read: names with dots instead of nested mappings."""
    return [dict(flat(row)) for row in run.history]


def sampled_history(run: ServedRun, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that have all keys of the specification, with these keys only."""
    keys = spec.get("keys") or []
    low, high = spec.get("minStep") or 0, spec.get("maxStep")
    rows = [
        {key: row[key] for key in keys} if keys else row
        for row in read(run)
        if all(key in row for key in keys)
        and row["_step"] >= low
        and (high is None or row["_step"] <= high)
    ]
    return sample(rows, spec.get("samples") or 500)


def history_keys(run: ServedRun) -> dict[str, Any] | None:
    """Describe which metrics there are."""
    rows = read(run)
    if not rows:
        return None
    keys: dict[str, Any] = {}
    for name, value in (pair for row in rows for pair in row.items()):
        kind = "number" if isinstance(value, int | float) else "string"
        entry = keys.setdefault(name, {"typeCounts": [{"type": kind, "count": 0}]})
        entry["typeCounts"][0]["count"] += 1
        entry["previousValue"] = value
    return {"sets": [], "keys": keys, "lastStep": rows[-1]["_step"]}


class RunOperations:
    """Answers to operations by their name; ``base_url`` leads to the files."""

    def __init__(self, world: World, base_url: Callable[[], str]) -> None:
        self._world = world
        self._base_url = base_url
        self.table: dict[str, Callable[[str, Variables], Any]] = {
            "Viewer": self._viewer,
            "GetViewer": self._viewer,
            "GetDefaultEntity": self._viewer,
            "ServerFeaturesQuery": lambda query, values: {"serverInfo": {"features": []}},
            "ServerInfo": lambda query, values: {"serverInfo": {"cliVersionInfo": VERSIONS}},
            "OrganizationCoreWeaveOrganizationID": self._organization,
            "GetProject": self._project,
            "GetProjects": self._projects,
            "CreateProject": self._create_project,
            "IsProjectReadOnly": self._project,
            "Project": self._project,
            "UpsertBucket": self._upsert_bucket,
            "RunResumeStatus": self._resume_status,
            "CreateRunFiles": self._create_run_files,
            "RunFiles": self._run_files,
            "deleteFiles": self._delete_files,
            "Run": self._run,
            "Runs": self._runs,
            "RunState": self._run,
            # What JADE asks itself, when a signal may be the server's wish.
            "RunStopped": self._run,
            # And when somebody has chosen the id of a run.
            "RunConfig": self._run,
            "QueryRunInfo": self._run,
            "RunHistoryKeys": self._run,
            "RunFullHistory": self._full_history,
            "RunSampledHistory": self._sampled_history,
            "SampledHistoryPage": self._sampled_history,
            "RunParquetHistory": self._parquet_history,
            "HistoryPage": self._history_page,
            "RunConsoleLogPage": self._console_page,
            "RunConsoleLogTail": self._console_page,
            "StopRun": self._stop_run,
            "DeleteRun": self._delete_run,
            "NotifyScriptableRunAlert": self._alert,
        }

    def fields(self, run: ServedRun, query: str) -> dict[str, Any]:
        """What a query wants to know of a run."""
        known: dict[str, Callable[[], Any]] = {
            "id": lambda: run.storage_id,
            "name": lambda: run.id,
            "projectId": lambda: self._project_number(run.entity, run.project),
            "displayName": lambda: run.display_name,
            "description": lambda: run.description,
            "config": lambda: as_json(run.raw_config),
            "summaryMetrics": lambda: as_json(run.summary),
            "systemMetrics": lambda: as_json(run.events[-1] if run.events else {}),
            "state": lambda: run.state,
            "exitcode": lambda: run.exit_code,
            "failed": lambda: run.state == "failed",
            "stopped": lambda: run.is_asked_to_stop,
            "shouldStop": lambda: run.is_asked_to_stop,
            "running": lambda: run.state == "running",
            "tags": lambda: run.tags,
            "sweepName": lambda: run.sweep,
            "group": lambda: run.group,
            "jobType": lambda: run.job_type,
            "commit": lambda: run.commit,
            "readOnly": lambda: False,
            "createdAt": lambda: run.created_at,
            "heartbeatAt": lambda: run.heartbeat_at,
            "notes": lambda: run.notes,
            "historyLineCount": lambda: len(run.lines.get(HISTORY, [])),
            "eventsLineCount": lambda: len(run.lines.get(EVENTS, [])),
            "logLineCount": lambda: len(run.lines.get(OUTPUT, [])),
            "user": lambda: {"name": self._world.user, "username": self._world.user},
            "historyKeys": lambda: history_keys(run),
            "project": lambda: self.project_fields(run.entity, run.project),
        }
        return selected(query, known)

    def _project_number(self, entity: str, project: str) -> int:
        return self._world.projects.index((entity, project)) + 1

    def project_fields(self, entity: str, project: str) -> dict[str, Any]:
        return {
            "__typename": "Project",
            "id": storage_id("Project", "v1", project, entity),
            "internalId": self._project_number(entity, project),
            "name": project,
            "entity": {"id": storage_id("Entity", entity), "name": entity},
            "entityName": entity,
            "description": "",
            "access": "USER_READ",
            "views": "{}",
            "createdAt": "2026-01-01T00:00:00Z",
            "isBenchmark": False,
            "readOnly": False,
            "user": self._user(),
        }

    def _user(self) -> dict[str, Any]:
        return {
            "id": storage_id("User", self._world.user),
            "entity": self._world.default_entity,
            "username": self._world.user,
            "name": self._world.user,
            "email": f"{self._world.user}@example.com",
            "admin": False,
            "flags": "{}",
            "deletedAt": None,
            "apiKeys": {"edges": []},
            "teams": {"edges": [{"node": {"name": name}} for name in sorted(self._world.entities)]},
        }

    def _viewer(self, query: str, values: Variables) -> Any:
        return {"viewer": self._user()}

    def _organization(self, query: str, values: Variables) -> Any:
        if values["entityName"] not in self._world.entities:
            return {"entity": None}
        return {"entity": {"organization": None}}

    def _has_project(self, values: Variables, name: str = "project") -> bool:
        place = (values.get("entity") or self._world.default_entity, values[name])
        return place in self._world.projects

    def _project(self, query: str, values: Variables) -> Any:
        name = "name" if "name" in values else "project"
        if not self._has_project(values, name):
            return {"project": None}
        return {"project": self.project_fields(values["entity"], values[name])}

    def _projects(self, query: str, values: Variables) -> Any:
        nodes = [
            self.project_fields(entity, project)
            for entity, project in self._world.projects
            if entity == values["entity"]
        ]
        return {"models": page(nodes, values.get("perPage") or 50, values.get("cursor"))}

    def _create_project(self, query: str, values: Variables) -> Any:
        wanted = values["input"]
        place = (wanted["entityName"], wanted["name"])
        is_new = place not in self._world.projects
        self._world.create_project(*place)
        made = self.project_fields(*place)
        return {"result": {"project": made, "model": made, "inserted": is_new}}

    def _key(self, values: Variables, *, name: str = "name") -> Key:
        entity = values.get("entity") or self._world.default_entity
        return entity, values.get("project") or "uncategorized", values.get(name) or new_id()

    def _upsert_bucket(self, query: str, values: Variables) -> Any:
        key = self._key(values)
        if values.get("id"):
            run = self._world.run_by_storage_id(values["id"])
            if run is None:
                raise RefusalError(f"run {values['id']} not found during upsertBucket", status=404)
        else:
            run = self._world.runs.get(key)
        is_new = run is None
        run = run or self._world.add_run(key)
        self._change(run, values)
        # Only the first message of a process says where it runs.
        if values.get("host"):
            run.start()
        return {
            "upsertBucket": {"bucket": self.fields(run, query), "inserted": is_new},
        }

    def _change(self, run: ServedRun, values: Variables) -> None:
        for name, attribute in CHANGES.items():
            if values.get(name) is not None:
                setattr(run, attribute, values[name])
        if values.get("config") is not None:
            run.raw_config = json.loads(values["config"])
        if values.get("summaryMetrics") is not None:
            run.summary = json.loads(values["summaryMetrics"])
        sweep = self._world.sweeps.get((run.entity, run.project, run.sweep or ""))
        if sweep and run.id not in sweep.runs:
            sweep.runs.append(run.id)

    def _resume_status(self, query: str, values: Variables) -> Any:
        if not self._has_project(values):
            return {"model": None}
        key = self._key(values)
        run = self._world.runs.get(key)
        model = {**self.project_fields(*key[:2]), "bucket": None}
        if run is not None:
            own = run.raw_config.get("_wandb", {}).get("value", {})
            model["bucket"] = {
                **self.fields(run, query),
                "historyTail": json.dumps(run.lines.get(HISTORY, [])[-1:]),
                "eventsTail": json.dumps(run.lines.get(EVENTS, [])[-1:]),
                "wandbConfig": json.dumps({"t": own["t"]} if "t" in own else {}),
            }
        return {"model": model}

    def file_url(self, run: ServedRun, name: str) -> str:
        """Say where a file of a run is put and got."""
        path = "/".join(quote(part) for part in (run.entity, run.project, run.id, name))
        return f"{self._base_url()}/storage/{path}"

    def _create_run_files(self, query: str, values: Variables) -> Any:
        run = self._existing(values, "run")
        files = [{"name": name, "uploadUrl": self.file_url(run, name)} for name in values["files"]]
        return {
            "createRunFiles": {"runID": run.storage_id, "uploadHeaders": [], "files": files},
        }

    def _existing(self, values: Variables, name: str = "name") -> ServedRun:
        key = self._key(values, name=name)
        run = self._world.runs.get(key)
        if run is None:
            raise RefusalError(f"run {'/'.join(key)} not found", status=404)
        return run

    def _file_fields(self, run: ServedRun, name: str) -> dict[str, Any]:
        # W&B describes a file that does not exist, too: its checksum is "0".
        content = run.files.get(name)
        digest = None if content is None else hashlib.md5(content).digest()
        return {
            "id": storage_id("File", run.storage_id, name),
            "name": name,
            "url": self.file_url(run, name),
            "directUrl": self.file_url(run, name),
            "sizeBytes": len(content or b""),
            "mimetype": mimetypes.guess_type(name)[0] or "",
            "updatedAt": run.uploaded_at.get(name),
            "md5": base64.b64encode(digest).decode() if digest else "0",
        }

    def _run_files(self, query: str, values: Variables) -> Any:
        run = self._world.runs.get(self._key(values))
        if run is None:
            return {"project": {"internalId": None, "run": None}}
        names = [name.removeprefix("./") for name in values.get("fileNames") or []]
        if not names:
            names = [name for name in sorted(run.files) if _like(values.get("pattern"), name)]
        nodes = [self._file_fields(run, name) for name in names]
        files = page(nodes, values.get("fileLimit") or 50, values.get("fileCursor"))
        return {
            "project": {
                "internalId": self._project_number(run.entity, run.project),
                "run": {"fileCount": len(run.files), "files": files},
            }
        }

    def _delete_files(self, query: str, values: Variables) -> Any:
        for run in self._world.runs.values():
            for name in list(run.files):
                if storage_id("File", run.storage_id, name) in values["files"]:
                    del run.files[name]
        return {"deleteFiles": {"success": True}}

    def _run(self, query: str, values: Variables) -> Any:
        if not self._has_project(values):
            return {"project": None}
        run = self._world.runs.get(self._key(values, name="name" if "name" in values else "run"))
        return {"project": {"run": run and self.fields(run, query)}}

    def _runs(self, query: str, values: Variables) -> Any:
        if not self._has_project(values):
            return {"project": None}
        place = (values["entity"], values["project"])
        wanted = json.loads(values.get("filters") or "{}")
        runs = [run for key, run in self._world.runs.items() if key[:2] == place]
        runs = [run for run in runs if matches(run, wanted)]
        runs = ordered(runs, values.get("order") or "+created_at")
        nodes = [self.fields(run, query) for run in runs]
        return {
            "project": {
                "internalId": self._project_number(*place),
                "runCount": len(runs),
                "readOnly": False,
                "runs": page(nodes, values.get("perPage") or 50, values.get("cursor")),
            }
        }

    def _full_history(self, query: str, values: Variables) -> Any:
        run = self._existing(values)
        rows = [as_json(row) for row in read(run)]
        events = [as_json(row) for row in run.events]
        count = values.get("samples") or 500
        return {"project": {"run": {"history": sample(rows, count), "events": events}}}

    def _sampled_history(self, query: str, values: Variables) -> Any:
        run = self._existing(values, "name" if "name" in values else "run")
        specs = values["specs"] if "specs" in values else [values["spec"]]
        sampled = [sampled_history(run, json.loads(spec)) for spec in specs]
        return {"project": {"run": {"sampledHistory": sampled}}}

    def _parquet_history(self, query: str, values: Variables) -> Any:
        run = self._existing(values, "runName")
        keys = values["liveKeys"]
        rows = [{key: row[key] for key in keys if key in row} for row in read(run)]
        return {"project": {"run": {"parquetHistory": {"parquetUrls": [], "liveData": rows}}}}

    def _history_page(self, query: str, values: Variables) -> Any:
        run = self._existing(values, "run")
        rows = [
            as_json(row)
            for row in read(run)
            if values["minStep"] <= row["_step"] < values["maxStep"]
        ]
        return {"project": {"run": {"history": rows[: values["pageSize"]]}}}

    def _console_page(self, query: str, values: Variables) -> Any:
        run = self._existing(values, "runName")
        nodes = [
            {"number": i, "timestamp": None, "level": "", "label": "", "line": line}
            for i, line in enumerate(run.output)
        ]
        if values.get("last"):
            nodes = nodes[-values["last"] :]
        lines = page(nodes, values.get("first") or len(nodes), values.get("after"))
        return {"project": {"run": {"logLineCount": len(run.output), "logLines": lines}}}

    def _stop_run(self, query: str, values: Variables) -> Any:
        run = self._world.run_by_storage_id(values["id"])
        if run is None:
            raise RefusalError(f"run {values['id']} not found", status=404)
        self._world.stop_run(run)
        return {"stopRun": {"success": True}}

    def _alert(self, query: str, values: Variables) -> Any:
        key = (values["entityName"], values["projectName"], values["runName"])
        self._world.runs[key].alerts.append(values["title"])
        return {"notifyScriptableRunAlert": {"success": True}}

    def _delete_run(self, query: str, values: Variables) -> Any:
        run = self._world.run_by_storage_id(values["id"])
        if run is None:
            raise RefusalError(f"run {values['id']} not found", status=404)
        del self._world.runs[(run.entity, run.project, run.id)]
        return {"deleteRun": {"clientMutationId": None}}


def _like(pattern: str | None, name: str) -> bool:
    """Compare as SQL's LIKE does."""
    if pattern is None:
        return True
    parts = {"%": ".*", "_": "."}
    return bool(re.fullmatch("".join(parts.get(c, re.escape(c)) for c in pattern), name, re.DOTALL))
