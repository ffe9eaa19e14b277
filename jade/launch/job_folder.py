"""Spell every path of a submission to a cluster, and keep what was submitted."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jade.errors import ConfigError, suggest
from jade.whole_file import write_whole

# Beside the experiments of a project.
DEFAULT_ROOT = "jobs"


@dataclass(frozen=True)
class JobFolder:
    """Where a submission keeps its files; nothing else in JADE spells these names.

    The script of a job writes to ``ends``, ``failures``, ``broken`` and ``job_ids``.
    """

    root: Path

    @classmethod
    def plan(cls, jobs_root: Path, name: str) -> "JobFolder":
        """Choose a name that is not taken; nothing is made."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        number = 1
        while True:
            more = f"-{number}" if number > 1 else ""
            folder = cls(jobs_root / f"{name}-{stamp}{more}")
            if not folder.root.exists():
                return folder
            number += 1

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def code(self) -> Path:
        """The project as it was when the job was submitted."""
        return self.root / "code"

    @property
    def record(self) -> Path:
        return self.root / "submission.json"

    @property
    def id_file(self) -> Path:
        return self.root / "job_ids"

    @property
    def broken(self) -> Path:
        """One file for each machine that cannot run the jobs."""
        return self.root / "broken"

    def job_ids(self) -> list[str]:
        """Return the ids of the arrays: the one that was submitted, and those in its place."""
        try:
            # Behind a semicolon stands the cluster, where there are several.
            return [line.split(";")[0] for line in self.id_file.read_text().split()]
        except OSError:
            return []

    def add_job_id(self, job_id: str) -> None:
        """Note the id of an array."""
        with self.id_file.open("a", encoding="utf-8") as file:
            file.write(f"{job_id}\n")

    def write_record(self, values: Mapping[str, Any]) -> None:
        """Keep what was submitted."""
        write_whole(self.record, (json.dumps(values, indent=1) + "\n").encode())

    def read_record(self) -> dict[str, Any]:
        """Read what was submitted; nothing if that cannot be read."""
        try:
            values = json.loads(self.record.read_bytes())
        except (OSError, ValueError):
            return {}
        return values if isinstance(values, dict) else {}

    def read_end(self, task: str) -> tuple[str, int] | None:
        """Return which job ran an element last, and how that ended; None if it has not ended."""
        try:
            job_id, code, *_ = (self.root / "ends" / task).read_text().split()
            return job_id, int(code)
        except (OSError, ValueError):
            return None

    def broken_nodes(self) -> list[str]:
        """Return the machines that cannot run the jobs."""
        return sorted(path.name for path in self.broken.glob("*"))


def find_submissions(jobs_root: Path) -> Iterator[JobFolder]:
    """Find all submissions below a folder, the newest first."""
    found = [JobFolder(path.parent) for path in jobs_root.glob("*/submission.json")]
    return iter(sorted(found, key=lambda folder: folder.record.stat().st_mtime, reverse=True))


def find_submission(wanted: str, jobs_root: Path) -> JobFolder:
    """Find a submission by its name, its folder, or the id of one of its jobs.

    Raises:
        ConfigError: There is no such submission, or there are several.
    """
    folders = list(find_submissions(jobs_root))
    array = wanted.split("_")[0]
    found = [
        folder
        for folder in folders
        if wanted in (folder.name, str(folder.root)) or array in folder.job_ids()
    ] or [folder for folder in folders if folder.name.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(folder.name for folder in found)
        raise ConfigError(f"{wanted!r} means several submissions: {listed}. Give more of it.")
    known = {folder.name: ", ".join(folder.job_ids()) for folder in folders}
    where = f"below {jobs_root}" if folders else f"below {jobs_root}, where there is none at all"
    raise ConfigError(f"There is no submission {wanted!r} {where}.{suggest(wanted, known)}")
