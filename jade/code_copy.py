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

    def translate(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration in which all that names code names the code of the copy."""
        return {
            **{key: self._translate(value) for key, value in config.items()},
            **self._settings(config),
        }

    def _settings(self, config: Mapping[str, Any]) -> dict[str, Any]:
        modules, arch_impl = self.notes.get("modules"), self.notes.get("arch_impl")
        if not self.notes:
            named = config.get("modules") or ["modules"]
            modules = [name for name in named if (self.folder / name).is_dir()]
            arch_impl = config.get("arch_impl")
        # Without any folder of modules, that of the current project would be taken.
        return {"modules": modules or ["."], "arch_impl": arch_impl}

    def _translate(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._translate(item) for item in value]
        if not isinstance(value, dict):
            return value
        translated = {key: self._translate(item) for key, item in value.items()}
        if isinstance(value.get("class"), str):
            translated["class"] = self._translate_class(value["class"])
        return translated

    def _translate_class(self, name: str) -> str:
        """Find ``path/file.py:Class`` from outside the project in the copy."""
        file, separator, class_name = name.rpartition(".py:")
        external = self.notes.get("external") or {}
        sources = {source: target for target, source in external.items()}
        target = sources.get(f"{file}.py") if separator else None
        return f"{target}:{class_name}" if target else name

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
