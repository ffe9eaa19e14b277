"""Read the copy of the code that a run keeps: how it is used, and what has changed since."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CodeCopy:
    """What ``provenance.snapshot_code`` has copied.

    Args:
        folder: Where the copy is.
        notes: What ``provenance.find_in_snapshot`` said of it.
    """

    folder: Path
    notes: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that name code, as they are within the copy."""
        modules, arch_impl = self.notes.get("modules"), self.notes.get("arch_impl")
        if not self.notes:
            named = config.get("modules") or ["modules"]
            modules = [name for name in named if (self.folder / name).is_dir()]
            arch_impl = config.get("arch_impl")
        # Without any folder of modules, that of the current project would be taken.
        return {"modules": modules or ["."], "arch_impl": arch_impl}

    def files(self) -> dict[str, Path]:
        """Return the files by their names within the copy."""
        found = sorted(self.folder.rglob("*.py"))
        return {path.relative_to(self.folder).as_posix(): path for path in found}

    def changes(self, project: Path) -> list[str]:
        """List the files that are not in the project any more as they are in the copy."""
        external = self.notes.get("external") or {}
        changes = []
        for name, copy in self.files().items():
            current = Path(external[name]) if name in external else project / name
            if not current.is_file():
                changes.append(f"{name} (is gone)")
            elif current.read_bytes() != copy.read_bytes():
                changes.append(name)
        return changes
