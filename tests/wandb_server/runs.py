"""A run as the server keeps it: configuration, lines of its streams, files, and how it ended."""

import base64
import json
import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

HISTORY = "wandb-history.jsonl"
EVENTS = "wandb-events.jsonl"
SUMMARY = "wandb-summary.json"
OUTPUT = "output.log"
# Of these a gap would be a loss; console lines are numbered by what a terminal shows.
WITHOUT_GAPS = (HISTORY, EVENTS)
ENDED = ("finished", "failed", "preempted", "crashed", "killed")


def now() -> str:
    """Say the time as W&B does."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def storage_id(*parts: str) -> str:
    """Make an ID as W&B does: base64, so that the client can look inside."""
    return base64.b64encode(":".join(parts).encode()).decode()


def as_json(value: Any) -> str:
    """Write JSON as W&B does: numbers that JSON does not have become text."""
    return json.dumps(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value


@dataclass
class ServedRun:
    """One run; ``raw_config`` is what the client sent, ``{name: {"value": ...}}``."""

    entity: str
    project: str
    id: str
    state: str = "pending"
    exit_code: int | None = None
    raw_config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    num_uploads: Counter[str] = field(default_factory=Counter)
    uploaded_at: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    group: str | None = None
    notes: str | None = None
    job_type: str | None = None
    display_name: str | None = None
    description: str | None = None
    commit: str | None = None
    host: str | None = None
    program: str | None = None
    sweep: str | None = None
    lines: dict[str, list[str]] = field(default_factory=dict)
    alerts: list[str] = field(default_factory=list)
    is_asked_to_stop: bool = False
    num_starts: int = 0
    created_at: str = field(default_factory=now)
    heartbeat_at: str = field(default_factory=now)

    @property
    def storage_id(self) -> str:
        return storage_id("Run", "v1", self.id, self.project, self.entity)

    @property
    def config(self) -> dict[str, Any]:
        """The configuration without W&B's wrapping and without its own block."""
        return {
            name: item["value"]
            for name, item in self.raw_config.items()
            if name not in ("_wandb", "wandb_version")
        }

    @property
    def history(self) -> list[dict[str, Any]]:
        return self._rows(HISTORY)

    @property
    def events(self) -> list[dict[str, Any]]:
        return self._rows(EVENTS)

    @property
    def output(self) -> list[str]:
        return self.lines.get(OUTPUT, [])

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def _rows(self, name: str) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in self.lines.get(name, [])]
        return sorted(rows, key=lambda row: row.get("_step", 0))

    def start(self) -> None:
        """Note that a process has called ``wandb.init`` for this run, perhaps not the first one."""
        self.num_starts += 1
        self.state = "running"
        self.exit_code = None
        self.is_asked_to_stop = False

    def take(self, message: dict[str, Any]) -> None:
        """Take one message of the file stream."""
        self.heartbeat_at = now()
        for name, chunk in (message.get("files") or {}).items():
            self._write(name, chunk["offset"], chunk["content"])
        if message.get("preempting"):
            self.state = "preempting"
        if message.get("complete"):
            self._end(message["exitcode"])
        elif self.state in ("pending", "crashed", "killed"):
            self.state = "running"

    def _write(self, name: str, offset: int, content: list[str]) -> None:
        lines = self.lines.setdefault(name, [])
        if name == SUMMARY:
            self.summary = json.loads(content[-1])
        elif offset > len(lines) and name in WITHOUT_GAPS:
            raise ValueError(f"{name} of {self.id}: line {offset} comes, {len(lines)} are there")
        else:
            lines.extend([""] * (offset - len(lines)))
            lines[offset : offset + len(content)] = content

    def _end(self, exit_code: int) -> None:
        self.exit_code = exit_code
        if exit_code == 0:
            self.state = "finished"
        elif self.state == "preempting":
            self.state = "preempted"
        else:
            self.state = "killed" if self.is_asked_to_stop else "failed"

    def vanish(self) -> None:
        """Note that its process is gone; if it never said so, it has not ended well."""
        if self.state == "preempting":
            self.state = "preempted"
        elif not self.has_ended:
            self.state = "killed" if self.is_asked_to_stop else "crashed"

    def note_upload(self, name: str) -> None:
        """Note that a file has arrived as a whole."""
        self.num_uploads[name] += 1
        self.uploaded_at[name] = now()
