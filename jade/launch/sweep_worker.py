"""Say which process works at a sweep, and whether it is still alive, on whatever machine it is."""

import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from jade.job import count_restarts, find_job_id
from jade.owner import Owner

PREFIX = "worker:"
# A worker says so often that it is alive; one of another host that is silent for longer is gone.
BEAT_S, STALE_S = 15.0, 60.0
# No clocks of hosts that share a folder differ by so much.
LONG_GONE_S = 3600.0


@dataclass(frozen=True)
class Worker:
    """One `jade sweep run`.

    Attributes:
        job: The job of a cluster that it belongs to.
        restarts: How often that was queued again.
    """

    owner: Owner = field(default_factory=Owner.this_process)
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    job: str | None = field(default_factory=lambda: find_job_id(os.environ))
    restarts: int = field(default_factory=lambda: count_restarts(os.environ))

    def record(self, *, has_ended: bool = False) -> dict[str, Any]:
        """Return what others have to know."""
        job = {"job": self.job, "restarts": self.restarts} if self.job else {}
        return {**asdict(self.owner), **job, "beat": time.time(), "ended": has_ended}

    def has_replaced(self, name: str, record: Mapping[str, Any]) -> bool:
        """Tell whether another worker belonged to the same job before that was queued again.

        A job runs once at a time, on whatever machine: when it is queued again, nothing is left of
        what it was. Those that were not queued again since then work beside each other.
        """
        if self.job is None or record.get("job") != self.job or name == self.name:
            return False
        owner = read_owner(record)
        is_running_here = owner.is_here and owner.is_running
        return int(record.get("restarts", 0)) < self.restarts and not is_running_here


def read_owner(record: Mapping[str, Any]) -> Owner:
    """Return the process that has made a record."""
    return Owner(
        str(record["host"]), int(record["pid"]), float(record["since"]), record.get("birth")
    )


class Attendance:
    """Who of the workers is there, as far as this process can tell.

    Whether a process of this host runs is known. One of another host has to say something from time
    to time; clocks differ, so what counts is how long we have not seen anything new from it. Only
    what is older than any difference of clocks is taken for what it says.
    """

    def __init__(self, stale_s: float = STALE_S) -> None:
        self._stale_s = stale_s
        self._seen: dict[str, tuple[float, float]] = {}

    def is_alive(self, name: str, record: Mapping[str, Any] | None) -> bool:
        """Tell whether a worker is still at work."""
        if not record or record.get("ended"):
            return False
        owner = read_owner(record)
        if owner.is_here:
            return owner.is_running
        beat = float(record["beat"])
        if self._seen.get(name, (None, 0.0))[0] != beat:
            rest_s = 0.0 if time.time() - beat > LONG_GONE_S else self._stale_s
            self._seen[name] = (beat, time.monotonic() + rest_s)
        return time.monotonic() < self._seen[name][1]
