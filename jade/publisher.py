"""Bring the files of a run to the destinations that keep copies of them."""

import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jade.errors import ConfigError
from jade.loggers.base import Logger
from jade.run_dir import PERIODIC, RunDir
from jade.whole_file import whole_file, write_whole
from jade.yaml_file import load_mapping

# The folder that they stand in elsewhere.
PREFIX = "jade/"
LEAST_CONCEALED = 6
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


def find_expanded(directory: RunDir) -> dict[str, str]:
    """Return what variables of the configuration stand for in this run, and how they are written.

    What is short stands in any text by chance, and is no secret.
    """
    try:
        written = load_mapping(directory.config).values
        expanded = load_mapping(directory.expanded_config).values
    except ConfigError:
        return {}
    pairs = _pairs(written, expanded)
    return {new: old for old, new in pairs if old != new and len(new) >= LEAST_CONCEALED}


def _pairs(written: Any, expanded: Any) -> Iterator[tuple[str, str]]:
    """Yield each text with what became of it."""
    if isinstance(written, dict) and isinstance(expanded, dict):
        for key in written.keys() & expanded.keys():
            yield from _pairs(written[key], expanded[key])
    elif isinstance(written, list) and isinstance(expanded, list):
        for old, new in zip(written, expanded, strict=False):
            yield from _pairs(old, new)
    elif isinstance(written, str) and "$" in written:
        yield written, str(expanded)


def conceal(text: str, variables: Mapping[str, str]) -> str:
    """Write variables again where a text has what they stand for; the longest one first."""
    for expanded in sorted(variables, key=len, reverse=True):
        text = text.replace(expanded, variables[expanded])
    return text


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
