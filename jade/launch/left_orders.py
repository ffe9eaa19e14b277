"""Remember which trials an agent has taken, for the same job of a cluster when it begins again."""

import contextlib
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jade.job import count_restarts, find_job_id, find_job_key, find_task
from jade.launch.sweep_command import Order
from jade.launch.sweep_worker import read_owner
from jade.launch.wandb_sweep import GONE
from jade.lock import is_held
from jade.owner import Owner
from jade.run_dir import PREEMPTED, RUNNING, RunDir
from jade.whole_file import write_whole

# With this among its values, a run is looked for on W&B, too, as when W&B hands it out again.
AGAIN = "_wandb"
# What a run says of itself that was cut off, before or after it began, or has just stopped.
UNSETTLED = (None, RUNNING, PREEMPTED)
# States in which W&B hands a run out again by itself, or has no need to.
SETTLED = ("preempting", "preempted", "finished", "failed", "killed")
# These, too, if there is a run directory: W&B has handed the run out again, or was told to forget.
HANDED_OUT = ("pending", GONE)
# What can be said of a run: the last two may change.
OURS, NOT_OURS, BUSY, UNKNOWN = "ours", "not ours", "busy", "unknown"


class LeftOrders:
    """What the agent of a job has under way.

    W&B hands out again what was preempted, but not what died with its machine. SLURM queues the job
    again in that case, under the same id: it goes on with what it had.

    Each process has a file of its own, which one that comes later takes from it.

    Args:
        folder: Of the sweep.
        experiments_root: Where runs are; None if they cannot be continued.
        environ: Says which job this is.
        ask_state: Asks W&B for the state of a run.
    """

    def __init__(
        self,
        folder: Path,
        experiments_root: Path | None,
        environ: Mapping[str, str],
        ask_state: Callable[[str], str],
    ) -> None:
        self._ask_state = ask_state
        self._folder = folder
        self._root = experiments_root
        key, task = find_job_key(environ), find_task(environ)
        self._is_kept = key is not None and experiments_root is not None
        self._prefix = f"job-{quote(key or '', safe='')}.{f'{task}.' if task else ''}"
        self._name = uuid.uuid4().hex
        self._job, self._restarts = find_job_id(environ), count_restarts(environ)
        self._owner = Owner.this_process()
        self._orders: dict[str, Order] = {}
        self._doubtful: dict[str, str] = {}

    @property
    def is_kept(self) -> bool:
        """Whether this is a job, which goes on with its orders when it begins again."""
        return self._is_kept

    @property
    def is_in_doubt(self) -> bool:
        """Whether nobody can say yet of some run whose it is."""
        return bool(self._doubtful)

    def take_over(self) -> list[Order]:
        """Return what a former process of this job was cut off from, or did not come to."""
        if not self._is_kept:
            return []
        taken = [self._take(path) for path in self._find_left()]
        self._write()
        for path in taken:
            path.unlink(missing_ok=True)
        self._doubtful = dict.fromkeys(self._orders, UNKNOWN)
        return self.settle(self.judge())

    def judge(self) -> dict[str, str]:
        """Say whose the runs are that are in doubt; this asks W&B, and changes nothing."""
        return {run_id: self._judge(run_id) for run_id in list(self._doubtful)}

    def settle(self, verdicts: Mapping[str, str]) -> list[Order]:
        """Take note of whose runs are, and return the orders that are ours."""
        # Some may have been handed out to us while W&B was asked for their state.
        known = {k: v for k, v in verdicts.items() if k in self._doubtful}
        self._doubtful = {k: v for k, v in known.items() if v in (BUSY, UNKNOWN)}
        self._drop([run_id for run_id, verdict in known.items() if verdict == NOT_OURS])
        return [again(self._orders[k]) for k, verdict in known.items() if verdict == OURS]

    def give_up_doubts(self) -> None:
        """Leave runs to those who are busy with them; what W&B has not told stays for later."""
        self._drop([run_id for run_id, verdict in self._doubtful.items() if verdict == BUSY])
        self._doubtful = {}

    def add(self, order: Order) -> None:
        """Note that a trial was taken."""
        self._orders[order.run_id] = order
        # W&B has just said whose it is.
        self._doubtful.pop(order.run_id, None)
        self._write()

    def remove(self, run_id: str) -> None:
        """Note that a trial has ended in a way that W&B knows of."""
        self._drop([run_id])

    def is_unsettled(self, run_id: str) -> bool:
        """Tell whether W&B may think that a run goes on: it was cut off, or stopped just now."""
        return self.status(run_id) in UNSETTLED

    def status(self, run_id: str) -> str | None:
        """Return what a run says of itself; None if it says nothing."""
        if self._root is not None:
            with contextlib.suppress(OSError, ValueError):
                return str(RunDir(self._root / run_id).read_status().get("status"))
        return None

    def _judge(self, run_id: str) -> str:
        status = self.status(run_id)
        if status not in UNSETTLED or self._root is None:
            return NOT_OURS
        if is_held(self._root / run_id):
            return BUSY
        state = self._ask_state(run_id)
        if not state:
            return UNKNOWN
        if state in SETTLED or (state in HANDED_OUT and status is not None):
            return NOT_OURS
        # One that was not running here any more is, as far as W&B knows: somebody has got it on
        # another disk. Or W&B has not heard that it was stopped, and will take it for crashed.
        return BUSY if state == RUNNING != status else OURS

    def _find_left(self) -> Iterator[Path]:
        """Find the files of processes that were there before this one, and are gone."""
        pattern = re.compile(re.escape(self._prefix) + r"[0-9a-f]{32}\.json")
        for path in sorted(self._folder.iterdir()):
            if pattern.fullmatch(path.name):
                with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                    if self._has_replaced(json.loads(path.read_bytes())):
                        yield path

    def _has_replaced(self, record: Mapping[str, Any]) -> bool:
        owner = read_owner(record)
        if owner.is_here:
            return not owner.is_running
        # A job runs once at a time; but of the same start there may be others on other nodes.
        is_other_job = self._job is None or record["job"] != self._job
        return is_other_job or int(record["restarts"]) < self._restarts

    def _take(self, path: Path) -> Path:
        """Take the orders of a file, unless somebody else has just done so."""
        taken = path.with_suffix(f".{self._name}.taken")
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            path.rename(taken)
            found = [Order(**item) for item in json.loads(taken.read_bytes())["orders"]]
            self._orders.update({order.run_id: order for order in found})
        return taken

    def _drop(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            self._orders.pop(run_id, None)
            self._doubtful.pop(run_id, None)
        self._write()

    def _write(self) -> None:
        if not self._is_kept:
            return
        path = self._folder / f"{self._prefix}{self._name}.json"
        with contextlib.suppress(OSError):
            if self._orders:
                listed = [asdict(order) for order in self._orders.values()]
                job = {"job": self._job, "restarts": self._restarts}
                record = {**asdict(self._owner), **job, "orders": listed}
                write_whole(path, json.dumps(record).encode())
            else:
                path.unlink(missing_ok=True)


def again(order: Order) -> Order:
    """Order the same of a run that may have been begun."""
    return Order(order.run_id, order.program, {**order.values, AGAIN: {}})
