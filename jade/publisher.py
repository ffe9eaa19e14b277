"""Bring the files of a run to the destinations that keep copies of them."""

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jade.concealment import conceal, find_expanded
from jade.loggers.base import Logger
from jade.run_dir import PERIODIC, RunDir
from jade.whole_file import whole_file, write_whole

# The folder that they stand in elsewhere.
PREFIX = "jade/"
# Which checkpoints each value of the setting ``upload`` means.
LAST, BEST, PERIODICALLY = "last", "best", "periodic"
LEVELS = {
    "none": (),
    "last": (LAST,),
    "best": (LAST, BEST),
    "all": (LAST, BEST, PERIODICALLY),
}


class Publisher:
    """Offers what a run has written to its loggers; those that keep no files ignore it.

    Args:
        loggers: The destinations.
        directory: Of the run.
        level: Which checkpoints are wanted, one of ``LEVELS``.
    """

    def __init__(self, loggers: Logger, directory: RunDir, level: str) -> None:
        self._loggers = loggers
        self._directory = directory
        self._kinds = LEVELS[level]

    def publish_description(self) -> None:
        """Offer what says what the run is: enough to start it again elsewhere."""
        if not self._loggers.keeps_files:
            return
        directory = self._directory
        self._offer(directory.config, directory.provenance)
        if directory.code.is_dir():
            archive = directory.staging / "code.zip"
            pack(directory.code, archive)
            self._loggers.upload(archive, PREFIX + archive.name)

    def publish_checkpoint(self, path: Path) -> None:
        """Offer a checkpoint that has been written, with the log up to it."""
        if self._loggers.keeps_files and _kind(self._directory, path) in self._kinds:
            # The log first: a checkpoint whose steps are not in the log is of less use.
            self._offer(self._directory.metrics, self._directory.status_file, path)

    def publish_end(self, status: Mapping[str, Any]) -> None:
        """Offer all that a run ends with; its status is not written yet, but will be this one."""
        if not self._loggers.keeps_files:
            return
        directory = self._directory
        self._offer(directory.metrics, directory.summary)
        texts = {directory.status_file.name: json.dumps(status, indent=1) + "\n"}
        if directory.log.is_file():
            texts[directory.log.name] = directory.log.read_text(encoding="utf-8", errors="replace")
        # An error may quote what a variable stands for: a path, or a password.
        variables = find_expanded(directory)
        for name, text in texts.items():
            staged = directory.staging / name
            staged.parent.mkdir(exist_ok=True)
            write_whole(staged, conceal(text, variables).encode())
            self._loggers.upload(staged, PREFIX + name)

    def clean_up(self) -> None:
        """Remove what was only made to be uploaded."""
        directory = self._directory
        made = ("code.zip", "model.jade", directory.status_file.name, directory.log.name)
        for name in made:
            (directory.staging / name).unlink(missing_ok=True)

    def _offer(self, *paths: Path) -> None:
        for path in paths:
            if path.is_file():
                name = path.relative_to(self._directory.root).as_posix()
                self._loggers.upload(path, PREFIX + name)


def _kind(directory: RunDir, path: Path) -> str | None:
    if path == directory.last_checkpoint:
        return LAST
    if path == directory.best_checkpoint:
        return BEST
    return PERIODICALLY if PERIODIC.fullmatch(path.name) else None


def pack(folder: Path, archive: Path) -> None:
    """Put the files of a folder into a zip, whose bytes depend on nothing but them."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        whole_file(archive) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())
                entry.compress_type = zipfile.ZIP_DEFLATED
                with packed.open(entry, "w") as target, path.open("rb") as source:
                    shutil.copyfileobj(source, target)
