"""Remember which trials an agent has taken, for the same job of a cluster when it begins again."""

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from jade.job import find_job_id
from jade.launch.sweep_command import Order
from jade.lock import is_held
from jade.run_dir import PREEMPTED, RUNNING, RunDir
from jade.whole_file import write_whole

# With this among its values, a run is looked for on W&B, too, as when W&B hands it out again.
AGAIN = "_wandb"
# States in which W&B hands a run out again by itself, or has no need to.
HANDED_OUT = ("preempting", "preempted", "pending", "finished", "")


class LeftOrders:
    """What the agent of a job has under way.

    W&B hands out again what was preempted, but not what died with its machine. SLURM queues the job
    again in that case, under the same id: it goes on with what it had.

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
        job_id = find_job_id(environ) if experiments_root is not None else None
        self._path = None if job_id is None else folder / f"job-{job_id}.json"
        self._root = experiments_root
        self._orders: dict[str, Order] = {}

    def take_over(self) -> list[Order]:
        """Return what a former process of this job was cut off from, or did not come to."""
        if self._path is None:
            return []
        found: list[Order] = []
        with contextlib.suppress(OSError, ValueError, TypeError):
            found = [Order(**item) for item in json.loads(self._path.read_bytes())]
        left = [order for order in found if self._is_ours(order.run_id)]
        self._orders = {order.run_id: order for order in left}
        self._write()
        return [Order(order.run_id, order.program, {**order.values, AGAIN: {}}) for order in left]

    def add(self, order: Order) -> None:
        """Note that a trial was taken."""
        self._orders[order.run_id] = order
        self._write()

    def remove(self, run_id: str) -> None:
        """Note that a trial has ended in a way that W&B knows of."""
        self._orders.pop(run_id, None)
        self._write()

    def is_unsettled(self, run_id: str) -> bool:
        """Tell whether W&B may think that a run goes on: it was cut off, or stopped just now."""
        return self._status(run_id) in (None, RUNNING, PREEMPTED)

    def _is_ours(self, run_id: str) -> bool:
        """Tell whether a run is for us to go on with."""
        status = self._status(run_id)
        if status == PREEMPTED:
            # The process that speaks with W&B may have been ended before that was said.
            return self._ask_state(run_id) not in HANDED_OUT
        is_cut_off = status in (None, RUNNING)
        return is_cut_off and self._root is not None and not is_held(self._root / run_id)

    def _status(self, run_id: str) -> str | None:
        """Return what a run says of itself; None if it says nothing."""
        if self._root is not None:
            with contextlib.suppress(OSError, ValueError):
                return str(RunDir(self._root / run_id).read_status().get("status"))
        return None

    def _write(self) -> None:
        if self._path is None:
            return
        with contextlib.suppress(OSError):
            if self._orders:
                listed = [asdict(order) for order in self._orders.values()]
                write_whole(self._path, json.dumps(listed).encode())
            else:
                self._path.unlink(missing_ok=True)
