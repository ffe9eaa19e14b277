"""Find user classes without importing more than is used, and build objects from descriptions."""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import logging
import os
import re
import sys
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from jade.errors import ComponentError, suggest

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
SKIPPED_FOLDERS = {"__pycache__", "node_modules"}


@dataclass(frozen=True)
class Place:
    """Where a class is defined."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class _Stamp:
    """What tells whether a file is still the one that was imported."""

    path: Path
    modified: int
    size: int

    @classmethod
    def of(cls, path: Path) -> "_Stamp":
        status = path.stat()
        return cls(path, status.st_mtime_ns, status.st_size)


# Which file each imported user module came from, so that an edited file is imported again.
_imported: dict[str, _Stamp] = {}


class ClassIndex:
    """The classes that are defined in the files below some folders, found by parsing only."""

    def __init__(self, roots: list[Path]) -> None:
        self.roots = [root.resolve() for root in roots]
        self.places: dict[str, list[Place]] = {}
        self.broken: dict[Path, str] = {}
        self.used: list[Path] = []
        for root in self.roots:
            for path in _python_files(root):
                self._index(path)
        _forget_edited(self.roots)

    def _index(self, path: Path) -> None:
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except (SyntaxError, ValueError) as error:
            self.broken[path] = _syntax_problem(path, error)
            return
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self.places.setdefault(node.name, []).append(Place(path, node.lineno))

    def find(self, name: str) -> type:
        """Find a class by its name, by ``package.module.Class``, or by ``path/file.py:Class``."""
        if ".py:" in name:
            file_name, _, class_name = name.rpartition(":")
            return self.find_in_file(Path(file_name), class_name)
        if "." in name:
            return _find_dotted(name)
        places = self.places.get(name, [])
        if len(places) > 1:
            listed = ", ".join(str(place) for place in places)
            raise ComponentError(
                f"The class {name!r} is defined {len(places)} times: {listed}. "
                f"Write which one: {_shown(places[0].path)}:{name}."
            )
        if places:
            return self.find_in_file(places[0].path, name)
        found = _find_in_libraries(name)
        if found is None:
            raise ComponentError(self._missing(name))
        return found

    def _missing(self, name: str) -> str:
        suspects = [
            problem
            for path, problem in self.broken.items()
            if re.search(rf"^class\s+{re.escape(name)}\b", path.read_text("utf-8", "replace"), re.M)
        ]
        if suspects:
            return f"The class {name!r} stands in a file that Python cannot read: {suspects[0]}"
        folders = ", ".join(_shown(root) for root in self.roots) or "no folder of modules"
        hint = suggest(name, {key: _shown(found[0].path) for key, found in self.places.items()})
        broken = "".join(f" Not read: {problem}" for problem in self.broken.values())
        return f"There is no class {name!r} in {folders}, torch or torchvision.{hint}{broken}"

    def warn_of_broken(self) -> None:
        """Log the files that cannot be parsed; nothing that is used stands in them."""
        for problem in self.broken.values():
            logger.warning("Left out, no class of it is used: %s", problem)

    def find_in_file(self, path: Path, class_name: str) -> type:
        """Import a file, and find a class in it."""
        module = self.load_file(path)
        found = getattr(module, class_name, None)
        if not isinstance(found, type):
            raise ComponentError(
                f"{_shown(path)} has no class {class_name!r}.{suggest(class_name, classes(module))}"
            )
        return found

    def load_file(self, path: Path) -> ModuleType:
        """Import a Python file once, under a name that worker processes can import, too."""
        if not path.is_file():
            raise ComponentError(f"{path} does not exist or is not a file.{_near(path)}")
        resolved = path.resolve()
        if resolved not in self.used:
            self.used.append(resolved)
        name = self._module_name(resolved)
        with _user_import(resolved):
            module = _import_below_root(name, resolved, self.roots) if name else None
            return module or _import_alone(resolved)

    def _module_name(self, path: Path) -> str | None:
        """Return ``modules.data.digits`` for a file below the root ``.../modules``."""
        for root in self.roots:
            if root in path.parents:
                parts = (root.name, *path.relative_to(root).with_suffix("").parts)
                if all(part.isidentifier() for part in parts):
                    return ".".join(parts)
        return None


def _python_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and f not in SKIPPED_FOLDERS
        )
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def _syntax_problem(path: Path, error: SyntaxError | ValueError) -> str:
    line = getattr(error, "lineno", None)
    where = f"{_shown(path)}:{line}" if line else _shown(path)
    return f"{where}: {getattr(error, 'msg', None) or error}."


def _shown(path: Path) -> str:
    """Render a path relative to the working directory where that is shorter."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    return suggest(path.name, [item.name for item in path.parent.glob("*.py")])


class _user_import:  # noqa: N801 - a context manager, used like a function
    """Turn a failure to import a user's file into one message with its file and line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, SyntaxError):
            where = Path(error.filename or self._path)
            raise ComponentError(_syntax_problem(where, error)) from error
        if isinstance(error, Exception) and not isinstance(error, ComponentError):
            frames = [f for f in traceback.extract_tb(trace) if "importlib" not in f.filename]
            last = frames[-1] if frames else None
            where_text = f"{last.filename}:{last.lineno}" if last else str(self._path)
            raise ComponentError(
                f"{_shown(self._path)} cannot be imported: "
                f"{type(error).__name__}: {error} ({where_text})."
            ) from error


def _import_below_root(name: str, path: Path, roots: list[Path]) -> ModuleType | None:
    """Import by package name; None when that name belongs to a file elsewhere."""
    package = name.partition(".")[0]
    parent = str(next(root.parent for root in roots if root in path.parents))
    loaded = sys.modules.get(package)
    if loaded is not None and not _is_package_at(loaded, Path(parent, package)):
        _forget({package})
    if sys.path[:1] != [parent]:
        # Worker processes inherit the path, and so can import the same names.
        sys.path[:] = [parent, *(entry for entry in sys.path if entry != parent)]
    importlib.invalidate_caches()
    module = importlib.import_module(name)
    if Path(module.__file__ or "").resolve() != path:
        return None
    _imported[name] = _Stamp.of(path)
    return module


def _is_package_at(module: ModuleType, folder: Path) -> bool:
    return any(Path(entry).resolve() == folder for entry in getattr(module, "__path__", []))


def _import_alone(path: Path) -> ModuleType:
    digest = hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()
    name = f"jade_file_{re.sub(r'[^0-9A-Za-z]', '_', path.stem)}_{digest}"
    stamp = _Stamp.of(path)
    if name in sys.modules and _imported.get(name) == stamp:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ComponentError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _imported[name] = stamp
    return module


def _forget_edited(roots: list[Path]) -> None:
    """Drop what was imported from these folders if any of its files has changed since."""
    for root in roots:
        below = {name: s for name, s in _imported.items() if root in s.path.parents}
        if any(not s.path.is_file() or _Stamp.of(s.path) != s for s in below.values()):
            _forget({name.partition(".")[0] for name in below})


def _forget(packages: set[str]) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
        _imported.pop(name, None)


def _find_dotted(name: str) -> type:
    module_name, _, class_name = name.rpartition(".")
    try:
        module = _import_library(module_name)
    except ModuleNotFoundError as error:
        raise ComponentError(f"{name!r}: there is no module {error.name!r}.") from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        hint = suggest(class_name, classes(module))
        raise ComponentError(f"{name!r}: {module_name} has no class {class_name!r}.{hint}")
    return found


def _find_in_libraries(name: str) -> type | None:
    for library in LIBRARIES:
        try:
            found = getattr(_import_library(library), name, None)
        except (ModuleNotFoundError, ComponentError):
            continue
        if isinstance(found, type):
            return found
    return None


def _import_library(name: str) -> ModuleType:
    if name.partition(".")[0] == "torchvision":
        # By its name, because JADE's launching side imports this file and must stay free of torch.
        startup: Any = importlib.import_module("jade.torch_startup")
        module: ModuleType = startup.import_torchvision(name)
        return module
    return importlib.import_module(name)


def classes(module: ModuleType) -> list[str]:
    """List the names of the classes that a module defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]


def entry_point(target: type) -> Callable[..., Any]:
    """Return the function that receives a component's parameters.

    Trainers and evaluations are set up by ``initialize``, everything else by its constructor.
    """
    if getattr(target, "is_set_up_by_initialize", False):
        return typing.cast(Callable[..., Any], target.initialize)  # type: ignore[attr-defined]
    return target


def entry_name(target: type) -> str:
    """Name the function that receives a component's parameters."""
    initialized = getattr(target, "is_set_up_by_initialize", False)
    return f"{target.__name__}.initialize" if initialized else target.__name__


def signature_of(target: type) -> inspect.Signature | None:
    """Return the parameters that a component takes; None when Python cannot tell."""
    entry = entry_point(target)
    try:
        signature = inspect.signature(entry)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:]) if entry is not target else signature


def hints_of(target: type) -> dict[str, Any]:
    """Return the annotations of what ``signature_of`` describes, as far as they can be resolved."""
    entry = entry_point(target)
    function = target.__init__ if entry is target else entry  # type: ignore[misc]
    try:
        return typing.get_type_hints(function)
    except Exception:
        raw = getattr(function, "__annotations__", {})
        return {name: hint for name, hint in raw.items() if not isinstance(hint, str)}


def is_description(value: Any) -> bool:
    """Tell whether a value describes a component."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("class"), str)
        and set(value) <= {"class", "params", "strict"}
    )


@dataclass(frozen=True)
class Blueprint:
    """A component that is checked and ready to be built."""

    target: type
    key: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def build_params(self) -> dict[str, Any]:
        """Build the parameters: descriptions among them become objects."""
        return {name: _build_value(value) for name, value in self.params.items()}

    def build(self) -> Any:
        """Build the component."""
        return self.target(**self.build_params())


def _build_value(value: Any) -> Any:
    if isinstance(value, Blueprint):
        return value.build()
    if isinstance(value, dict):
        return {key: _build_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_build_value(item) for item in value)
    return value


class LazyComponents(Mapping[str, Any]):
    """Components by name, each built on first access and kept."""

    def __init__(self, blueprints: Mapping[str, Blueprint], kind: str) -> None:
        self._blueprints = dict(blueprints)
        self._kind = kind
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            if name not in self._blueprints:
                hint = suggest(str(name), self._blueprints)
                raise ComponentError(
                    f"There is no {self._kind} {name!r} in the configuration.{hint}"
                )
            self._built[name] = self._blueprints[name].build()
            logger.info("%s %s: %s", self._kind, name, describe_size(self._built[name]))
        return self._built[name]

    def __contains__(self, name: object) -> bool:
        return name in self._blueprints

    def __iter__(self) -> Iterator[str]:
        return iter(self._blueprints)

    def __len__(self) -> int:
        return len(self._blueprints)

    def sizes(self) -> dict[str, int | None]:
        """Return the number of samples of each dataset that has been built."""
        return {name: size_of(dataset) for name, dataset in self._built.items()}


def size_of(dataset: Any) -> int | None:
    """Return the length of a dataset, or None if it has none."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def describe_size(dataset: Any) -> str:
    """Render the class and size of a dataset."""
    size = size_of(dataset)
    return f"{type(dataset).__name__}, " + ("no length" if size is None else f"{size} samples")


class Architectures:
    """The network classes in the file that ``--arch_impl`` names."""

    def __init__(self, index: ClassIndex, path: Path | None) -> None:
        self._index = index
        self._path = path

    def build(self, name: str, params: Mapping[str, Any]) -> Any:
        """Build a network; its parameters are checked against its constructor first."""
        if self._path is None:
            raise ComponentError(
                f"The trainer asks for the architecture {name!r}, but no file was given: "
                "add --arch_impl FILE.py."
            )
        target = self._index.find_in_file(self._path, name)
        signature = signature_of(target) or inspect.signature(lambda **_: None)
        try:
            signature.bind(**params)
        except TypeError as error:
            unknown = [key for key in params if key not in signature.parameters]
            hint = suggest(unknown[0], signature.parameters) if unknown else ""
            raise ComponentError(
                f"{_shown(self._path)}: {name}{signature} does not take these parameters: {error}."
                f"{hint}"
            ) from error
        return target(**params)
