"""Where a run belongs on W&B: written down when it starts, for whoever brings it there later."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from jade.loggers import wandb_account as account
from jade.run_dir import RunDir
from jade.saved_runs import read_json
from jade.whole_file import write_whole


@dataclass(frozen=True)
class WandbPlace:
    """The place of a run; what nobody has said is None."""

    entity: str | None = None
    project: str | None = None
    sweep_id: str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "WandbPlace":
        """Return the place that an environment names."""
        sweep_id = environ.get("WANDB_SWEEP_ID") or None
        return cls(account.entity(environ), account.project(environ), sweep_id)

    @classmethod
    def load(cls, directory: Path) -> "WandbPlace":
        """Return the place that a run directory names; one without says nothing."""
        known = read_json(RunDir(directory).wandb_place)
        return cls(known.get("entity"), known.get("project"), known.get("sweep_id"))

    def save(self, directory: Path) -> None:
        """Write it into a run directory."""
        text = json.dumps(asdict(self), indent=1) + "\n"
        write_whole(RunDir(directory).wandb_place, text.encode())

    def completed(self, other: "WandbPlace") -> "WandbPlace":
        """Return this place, and what it does not say from another one."""
        return WandbPlace(
            self.entity or other.entity,
            self.project or other.project,
            self.sweep_id or other.sweep_id,
        )
