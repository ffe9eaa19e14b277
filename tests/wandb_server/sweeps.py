"""A sweep and its agents as the server keeps them: which point goes to whom, and when to stop."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import yaml

from wandb_server.points import check, points
from wandb_server.runs import now, storage_id


def as_go_writes(value: Any) -> Any:
    """Turn whole floats into integers: that is how the numbers of W&B's server arrive."""
    if isinstance(value, dict):
        return {name: as_go_writes(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_go_writes(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


class ServedSweep:
    """One sweep; ``points`` are those handed out, in order, and ``runs`` the IDs they went to."""

    def __init__(self, entity: str, project: str, name: str, text: str, seed: int = 0) -> None:
        self.entity = entity
        self.project = project
        self.id = name
        self.state = "RUNNING"
        self.display_name: str | None = None
        self.runs: list[str] = []
        self.points: list[dict[str, Any]] = []
        self.requeued: deque[str] = deque()
        self.created_at = now()
        self._seed = seed
        self._is_exhausted = False
        self.configure(text)

    def configure(self, text: str) -> None:
        """Take a configuration; what was handed out is not handed out again."""
        config = yaml.safe_load(text)
        check(config)
        self.text = text
        self.config: dict[str, Any] = config
        self._ahead = points(config, self._seed)
        for _ in self.points:
            next(self._ahead, None)

    @property
    def storage_id(self) -> str:
        return storage_id("Sweep", "v1", self.id, self.project, self.entity)

    @property
    def is_exhausted(self) -> bool:
        """Whether no further point will come (as far as has been asked)."""
        return self._is_exhausted or self._is_capped

    @property
    def _is_capped(self) -> bool:
        cap = self.config.get("run_cap")
        return cap is not None and len(self.points) >= cap

    def next_point(self) -> dict[str, Any] | None:
        """Take the next point, or None when there is none left."""
        point = None if self.is_exhausted else next(self._ahead, None)
        if point is None:
            self._is_exhausted = True
            return None
        self.points.append(point)
        return point


@dataclass
class ServedAgent:
    """One agent: the runs that it was given and that have not ended, and what it will be told."""

    id: str
    sweep: str
    host: str
    runs: set[str] = field(default_factory=set)
    num_runs: int = 0
    commands: list[dict[str, Any]] = field(default_factory=list)
    state: str = "RUNNING"
    created_at: str = field(default_factory=now)
    heartbeat_at: str = field(default_factory=now)
    last_heard: float = field(default_factory=time.monotonic)

    def hear(self) -> None:
        """Note a sign of life."""
        self.heartbeat_at = now()
        self.last_heard = time.monotonic()
