"""Spell every path of a sweep that runs locally."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jade.errors import ConfigError
from jade.launch.sweep_storage import MASK, hide_password, make_absolute
from jade.run_dir import RunDir
from jade.runs import default_root
from jade.sweep import load_sweep
from jade.whole_file import write_whole

CONSOLE = "console.log"
NOT_IN_NAMES = re.compile(r"[/\\\0]+")


@dataclass(frozen=True)
class SweepFolder:
    """Where a sweep keeps its files; nothing else in JADE spells these names."""

    root: Path

    @classmethod
    def of(cls, experiments_root: Path, name: str) -> "SweepFolder":
        return cls(experiments_root / (NOT_IN_NAMES.sub("-", name).strip(". ") or "sweep"))

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def sweep_file(self) -> Path:
        """What was run last."""
        return self.root / "sweep.yml"

    @property
    def journal(self) -> Path:
        return self.root / "journal.log"

    @property
    def storage_file(self) -> Path:
        """Says where the storage is, without a password, if it is not the journal."""
        return self.root / "storage"

    @property
    def study_name(self) -> str:
        """The name of the sweep in its storage; the folder may have been moved or renamed."""
        try:
            return self.name_file.read_text(encoding="utf-8").strip() or self.name
        except OSError:
            return self.name

    @property
    def name_file(self) -> Path:
        return self.root / "name"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def work(self) -> Path:
        """What trials are told, and what they print before they have a directory."""
        return self.root / "work"

    def run(self, run_id: str) -> RunDir:
        return RunDir(self.runs / run_id)

    def find_output(self, run_id: str) -> Path:
        """Return where the output of a run is; one that has no directory leaves it elsewhere."""
        own = self.run(run_id).root / CONSOLE
        return own if own.is_file() else self.work / f"{run_id}.log"

    def stop_file(self, run_id: str) -> Path:
        """Exists if a run is to end because the sweep has seen enough of it."""
        return self.work / f"{run_id}.stop"

    def create(self, text: str, name: str, storage: str) -> None:
        """Make the folder, and keep what is run, by what name, and where its storage is."""
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            self.work.mkdir(exist_ok=True)
            if storage != str(self.journal.absolute()):
                write_whole(self.storage_file, f"{hide_password(storage)}\n".encode())
            write_whole(self.sweep_file, text.encode())
            write_whole(self.name_file, f"{name}\n".encode())
        except OSError as error:
            raise ConfigError(
                f"{self.root} cannot be written: {error.strerror}. Give another --experiments_root."
            ) from error

    def find_storage(self, given: str | None = None) -> str:
        """Return where the storage of the sweep is.

        Args:
            given: What somebody says who calls; it is needed for a password, which is not kept.

        Raises:
            ConfigError: The sweep has another storage, or somebody must say its password.
        """
        known = self._known_storage()
        if given is None:
            if known is not None and MASK in known:
                raise ConfigError(
                    f"The storage of the sweep {self.name} is {known}; the password is not kept. "
                    f"Give --storage with it."
                )
            return known or str(self.journal.absolute())
        wanted = make_absolute(given)
        if known is not None and hide_password(wanted) != known:
            raise ConfigError(
                f"The storage of the sweep {self.name} is {known}, not {hide_password(wanted)}. "
                "Leave out --storage, or give the sweep another --name."
            )
        return wanted

    def _known_storage(self) -> str | None:
        try:
            return self.storage_file.read_text(encoding="utf-8").strip()
        except OSError:
            return str(self.journal.absolute()) if self.journal.is_file() else None


def find_sweeps(root: Path) -> Iterator[SweepFolder]:
    """Find the sweeps below a folder of experiments."""
    for path in sorted(root.glob("*/sweep.yml")):
        yield SweepFolder(path.parent)


def find_sweep(wanted: str | None, name: str | None = None) -> SweepFolder:
    """Find a sweep by its directory, its file or its name; None means the only one there is.

    Raises:
        ConfigError: There is no such sweep, or there are several.
    """
    root = default_root()
    if wanted is None:
        found = list(find_sweeps(root))
        if len(found) == 1:
            return found[0]
        listed = ", ".join(folder.name for folder in found) or "none"
        raise ConfigError(f"Which sweep? Below {root} there are: {listed}.")
    for folder in (SweepFolder(Path(wanted)), SweepFolder(root / wanted)):
        if folder.sweep_file.is_file():
            return folder
    path = Path(wanted)
    sweep = load_sweep(path) if path.is_file() else None
    if sweep is not None:
        folder = SweepFolder.of(root, name or sweep.name)
        if folder.sweep_file.is_file():
            return folder
        raise ConfigError(f"{path} has not been run yet: there is no {folder.root}.")
    listed = ", ".join(folder.name for folder in find_sweeps(root)) or "none"
    raise ConfigError(f"There is no sweep {wanted!r}. Below {root} there are: {listed}.")
