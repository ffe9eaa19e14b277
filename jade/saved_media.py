"""Find the pictures, tables and other media that a run has written, with their names and steps."""

import contextlib
import csv
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from jade.run_dir import RunDir

if TYPE_CHECKING:
    from jade.media import Media


@dataclass(frozen=True)
class SavedMedia:
    """One file of an evaluation.

    Attributes:
        name: Under which it was logged.
        step: The iteration at which it was.
        path: Where it is.
    """

    name: str
    step: int
    path: Path

    def load(self) -> "Media":
        """Describe it again as it was described to be written; captions are not kept."""
        return _LOADERS[self.path.suffix](self.path)


def list_media(directory: RunDir) -> list[SavedMedia]:
    """List the media of a run, by step and name; files that are of no known kind are left out."""
    return sorted(_find(directory.evaluations), key=lambda item: (item.step, item.name))


def _find(folder: Path) -> Iterator[SavedMedia]:
    for path in folder.rglob("*"):
        if path.suffix in _LOADERS and path.stem.isdigit() and path.is_file():
            parts = path.parent.relative_to(folder).parts
            # An empty part cannot be the name of a folder, and is a percent sign there.
            name = "/".join("" if part == "%" else unquote(part) for part in parts)
            yield SavedMedia(name, int(path.stem), path)


def _load_picture(path: Path) -> "Media":
    from jade.media import Media

    return Media("image", path)


def _load_histogram(path: Path) -> "Media":
    from jade.media import Media

    return Media("histogram", path)


def _load_table(path: Path) -> "Media":
    from jade.media import Media

    with path.open(encoding="utf-8", newline="") as file:
        columns, *rows = [*csv.reader(file)] or [[]]
    return Media("table", {"columns": columns, "rows": [[*map(_cell, row)] for row in rows]})


def _load_text(path: Path) -> "Media":
    from jade.media import Media

    return Media("text", path.read_text(encoding="utf-8"))


def _load_audio(path: Path) -> "Media":
    from jade.media import Media

    with wave.open(str(path), "rb") as file:
        return Media("audio", path, sample_rate=file.getframerate())


def _cell(text: str) -> Any:
    """Read a cell as the number that it was, if it was one."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text or None


_LOADERS: dict[str, Callable[[Path], "Media"]] = {
    ".png": _load_picture,
    ".json": _load_histogram,
    ".csv": _load_table,
    ".txt": _load_text,
    ".wav": _load_audio,
}
