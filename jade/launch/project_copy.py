"""Copy the code and configuration of a project, so that later edits do not reach what is queued."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What decides the course of a run.
COPIED = (
    *(".py", ".pyi", ".yml", ".yaml", ".json", ".toml", ".cfg", ".ini", ".txt", ".csv"),
    *(".sh", ".sbatch", ".jinja", ".j2"),
)
# Neither copied nor reached from the copy.
LEFT_OUT = (".git", ".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache")
LARGEST_BYTES = 2**20
# A folder with more files than this is one of data.
MOST_FILES = 2000


@dataclass(frozen=True)
class ProjectCopy:
    """How a project is copied: its small text files, and links to all else.

    Attributes:
        project: The folder of the project.
        left_out: Folders that are not to be reached from the copy.
        linked: Folders that are there, but belong to everybody: what runs write.
    """

    project: Path
    left_out: tuple[Path, ...] = ()
    linked: tuple[Path, ...] = ()

    def make(self, target: Path) -> int:
        """Make the copy, and return how many files were copied."""
        wanted = dict(self._list_folder(self.project.absolute()))
        target.mkdir(parents=True)
        for name, is_code in sorted(wanted.items()):
            source = self.project.absolute() / name
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            if is_code:
                shutil.copy2(source, target / name)
            else:
                (target / name).symlink_to(source)
        return sum(wanted.values())

    def _list_folder(self, folder: Path) -> Iterator[tuple[str, bool]]:
        """List what is in a folder, by its path there: whether it is copied, or else linked."""
        with os.scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            path = Path(entry.path)
            if entry.name in LEFT_OUT or entry.name.endswith(".egg-info") or path in self.left_out:
                continue
            if entry.name.startswith(".") or entry.is_symlink() or path in self.linked:
                # Such as .env, which may hold secrets: there is to be one of it.
                yield entry.name, False
            elif entry.is_dir():
                yield from self._list_inner(path)
            else:
                yield entry.name, _is_code(entry)

    def _list_inner(self, folder: Path) -> list[tuple[str, bool]]:
        """List a folder within; one without code, or with masses of files, is linked."""
        found: list[tuple[str, bool]] = []
        for name, is_code in self._list_folder(folder):
            found.append((f"{folder.name}/{name}", is_code))
            if len(found) > MOST_FILES:
                return [(folder.name, False)]
        if not any(is_code for _, is_code in found):
            return [(folder.name, False)]
        return found


def _is_code(entry: "os.DirEntry[str]") -> bool:
    return entry.name.endswith(COPIED) and entry.stat().st_size <= LARGEST_BYTES
