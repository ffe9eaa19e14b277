"""Find classes by name: in the files of a user, which are only parsed, then in libraries."""

import ast
import functools
import importlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from jade.errors import ComponentError, closest, suggest
from jade.fence import Fence
from jade.user_modules import forget_edited, load_file, shown, syntax_problem

logger = logging.getLogger(__name__)

# Where a bare class name is looked up after the user's own modules.
LIBRARIES = (
    "torch.nn",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.utils.data",
    "torchvision.datasets",
    "torchvision.transforms",
)
# Tells by the names of the base classes of a class whether it is of some kind.
Kin = Callable[[frozenset[str]], bool]
SKIPPED_FOLDERS = {"__pycache__", "node_modules"}


@dataclass(frozen=True)
class Place:
    """Where a class is defined."""

    path: Path
    line: int
    bases: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{shown(self.path)}:{self.line}"


class ClassIndex:
    """The classes that are defined in the files below some folders.

    Args:
        roots: The folders.
        folder: What paths of files are relative to.
        fence: Keeps out what a configuration of somebody else must not name.
    """

    def __init__(
        self, roots: Sequence[Path], folder: Path = Path(), fence: Fence | None = None
    ) -> None:
        self.roots = [root.resolve() for root in roots]
        self.folder = folder
        self.fence = fence
        self.places: dict[str, list[Place]] = {}
        self.broken: dict[Path, str] = {}
        # The files that were imported, in this order; they belong to the record of a run.
        self.used: list[Path] = []
        for root in self.roots:
            # A folder that is on the path could replace any module that the project imports.
            if fence:
                fence.check_file(root)
            forget_edited(root)
            for path in _python_files(root):
                self._index(path)

    def _index(self, path: Path) -> None:
        found = _read_classes(path)
        if isinstance(found, str):
            self.broken[path] = found
            return
        for name, (line, bases) in found.items():
            self.places.setdefault(name, []).append(Place(path, line, bases))

    def find(self, name: str, kin: Kin = lambda _: True) -> type:
        """Find a class by its name, by ``package.module.Class``, or by ``path/file.py:Class``.

        Args:
            name: The name.
            kin: Tells by the names of all base classes which classes are worth a suggestion.
        """
        if ".py:" in name:
            file_name, _, class_name = name.rpartition(":")
            return self.find_in_file(self._find_file(file_name), class_name)
        if "." in name:
            return self._find_dotted(name)
        places = self.places.get(name, [])
        if len(places) > 1:
            listed = ", ".join(str(place) for place in places)
            raise ComponentError(
                f"The class {name!r} is defined {len(places)} times: {listed}. "
                f"Write which one: {shown(places[0].path)}:{name}."
            )
        if places:
            return self.find_in_file(places[0].path, name)
        found = _find_in_libraries(name)
        if found is None:
            raise ComponentError(self._missing(name, kin))
        return self._checked(found)

    def find_in_file(self, path: Path, class_name: str) -> type:
        """Import a file, and find a class in it."""
        if self.fence:
            self.fence.check_file(path)
        module = load_file(path, self.roots)
        resolved = path.resolve()
        if resolved not in self.used:
            self.used.append(resolved)
        found = getattr(module, class_name, None)
        if not isinstance(found, type):
            hint = suggest(class_name, class_names(module))
            raise ComponentError(f"{shown(path)} has no class {class_name!r}.{hint}")
        return self._checked(found)

    def problems_of(self, path: Path) -> list[str]:
        """Say why Python cannot read a file, if so, without executing it."""
        found = _read_classes(path)
        return [found] if isinstance(found, str) else []

    def _checked(self, found: type) -> type:
        if self.fence:
            self.fence.check_class(found)
        return found

    def warn_of_broken(self) -> None:
        """Log the files that cannot be parsed; nothing that is used stands in them."""
        for problem in self.broken.values():
            logger.warning("Left out, no class of it is used: %s", problem)

    def _find_file(self, name: str) -> Path:
        """Find a file below the project's folder, else beside the folders of modules."""
        candidates = [self.folder / name, *(root.parent / name for root in self.roots)]
        return next((path for path in candidates if path.is_file()), candidates[0])

    def _find_dotted(self, name: str) -> type:
        module_name, _, class_name = name.rpartition(".")
        if not all(part.isidentifier() for part in name.split(".")):
            raise ComponentError(f"{name!r} is not the name of a class, such as torch.nn.Linear.")
        for root in self.roots:
            if module_name.partition(".")[0] == root.name:
                path = root.parent.joinpath(*module_name.split("."))
                for candidate in (path.with_suffix(".py"), path / "__init__.py"):
                    if candidate.is_file():
                        return self.find_in_file(candidate, class_name)
        if self.fence:
            self.fence.check_library(module_name, class_name)
        return self._checked(_find_in_package(module_name, class_name))

    def _ancestors(self, name: str) -> frozenset[str]:
        """Collect the names of the base classes of a class, and theirs, without importing it."""
        known: set[str] = set()
        new = {name}
        while new:
            known |= new
            new = {
                base for item in new for place in self.places.get(item, ()) for base in place.bases
            }
            new -= known
        return frozenset(known - {name})

    def _missing(self, name: str, kin: Kin) -> str:
        suspects = [
            problem
            for path, problem in self.broken.items()
            if re.search(rf"^\s*class\s+{re.escape(name)}\b", read_anyhow(path), re.M)
        ]
        if suspects:
            return f"The class {name!r} stands in a file that Python cannot read: {suspects[0]}"
        folders = "".join(f"{shown(root)}, " for root in self.roots)
        if not folders:
            missing = f"There is no class {name!r} in torch or torchvision, and no folder modules."
            return f"{missing} Give the folder of your classes with --modules DIR."
        # If there are none of its kind, those of other kinds are better than nothing.
        fitting = [key for key in self.places if kin(self._ancestors(key))] or self.places
        hint = suggest(name, {key: shown(self.places[key][0].path) for key in fitting})
        if "Did you mean" not in hint:
            hint = _suggest_from_libraries(name) + hint
        broken = "".join(f" Not read: {problem}" for problem in self.broken.values())
        return f"There is no class {name!r} in {folders}torch or torchvision.{hint}{broken}"


class RememberedClasses(ClassIndex):
    """An index that looks for each class once, for those who resolve many configurations.

    Files that are edited meanwhile are not noticed.
    """

    def __init__(
        self, roots: Sequence[Path], folder: Path = Path(), fence: Fence | None = None
    ) -> None:
        self._found: dict[str, type] = {}
        self._found_in_files: dict[tuple[Path, str], type] = {}
        super().__init__(roots, folder, fence)

    def find(self, name: str, kin: Kin = lambda _: True) -> type:
        """Find a class as ``ClassIndex.find`` does."""
        if name not in self._found:
            self._found[name] = super().find(name, kin)
        return self._found[name]

    def find_in_file(self, path: Path, class_name: str) -> type:
        """Find a class as ``ClassIndex.find_in_file`` does."""
        key = (path, class_name)
        if key not in self._found_in_files:
            self._found_in_files[key] = super().find_in_file(path, class_name)
        return self._found_in_files[key]


def default_roots(files: Iterable[Any], folder: Path = Path()) -> list[Path]:
    """Find the folder ``modules`` in a project's folder, else above the given files."""
    starts = [folder.resolve()]
    for name in files:
        starts += (folder / name).resolve().parents if isinstance(name, str) else []
    for start in starts:
        if (start / "modules").is_dir():
            return [start / "modules"]
    return []


def class_names(module: ModuleType) -> list[str]:
    """List the names of the classes that a module or package defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__.startswith(module.__name__)
    ]


def _python_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and f not in SKIPPED_FOLDERS
        )
        own = (name for name in sorted(files) if not name.startswith("."))
        yield from (Path(folder, name) for name in own if name.endswith(".py"))


def _read_classes(path: Path) -> Mapping[str, tuple[int, tuple[str, ...]]] | str:
    """Return the lines of the classes of a file and their base classes, or say why that fails."""
    try:
        return _parse_classes(path.read_bytes(), str(path))
    except (SyntaxError, ValueError, OSError) as error:
        return syntax_problem(path, error)


# The runs of a sweep are forked from a process that has parsed what they will parse.
@functools.lru_cache(maxsize=256)
def _parse_classes(data: bytes, name: str) -> Mapping[str, tuple[int, tuple[str, ...]]]:
    return {
        node.name: (node.lineno, tuple(map(_last_name, node.bases)))
        for node in _class_statements(ast.parse(data, name).body)
    }


def _last_name(node: ast.expr) -> str:
    """Return how a base class is called where it stands: ``Trainer`` for ``jade.Trainer``."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _class_statements(body: Iterable[ast.stmt]) -> Iterator[ast.ClassDef]:
    """Yield the classes of a module, also those that stand below ``if`` or ``try``."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node
        elif isinstance(node, (ast.If, ast.Try)):
            handlers = getattr(node, "handlers", [])
            yield from _class_statements([*node.body, *node.orelse])
            yield from _class_statements(item for part in handlers for item in part.body)


def read_anyhow(path: Path) -> str:
    """Read a text whatever stands in it; one that cannot be read is empty."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _find_in_package(module_name: str, class_name: str) -> type:
    name = f"{module_name}.{class_name}"
    try:
        module = _import_library(module_name)
    except ModuleNotFoundError as error:
        found = _find_in_libraries(class_name)
        meant = f" Did you mean '{_library_name(found)}'?" if found else ""
        raise ComponentError(f"{name!r}: there is no module {error.name!r}.{meant}") from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        hint = suggest(class_name, class_names(module))
        raise ComponentError(f"{name!r}: {module_name} has no class {class_name!r}.{hint}")
    return found


def _library_name(found: type) -> str:
    homes = (name for name in LIBRARIES if found.__module__.startswith(name))
    return f"{next(homes, found.__module__)}.{found.__name__}"


def _find_in_libraries(name: str) -> type | None:
    for module in _libraries():
        found = getattr(module, name, None)
        if isinstance(found, type):
            return found
    return None


def _suggest_from_libraries(name: str) -> str:
    names = {
        key: module.__name__
        for module in _libraries()
        for key, value in vars(module).items()
        if isinstance(value, type)
    }
    meant = closest(name, names)
    return f" Did you mean {meant!r} of {names[meant]}?" if meant else ""


def _libraries() -> Iterator[ModuleType]:
    for name in LIBRARIES:
        try:
            yield _import_library(name)
        except (ModuleNotFoundError, ComponentError):
            continue


def _import_library(name: str) -> ModuleType:
    if name.partition(".")[0] == "torchvision":
        # By its name, because JADE's launching side imports this file and must stay free of torch.
        startup: Any = importlib.import_module("jade.torch_startup")
        module: ModuleType = startup.import_torchvision(name)
        return module
    return importlib.import_module(name)
