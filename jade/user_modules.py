"""Import the Python files of a user, each once, under names that worker processes can import."""

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from jade import signals
from jade.errors import ComponentError, suggest
from jade.hints import explain


@dataclass(frozen=True)
class _Stamp:
    """What tells whether a file is still the one that was imported, and with which others."""

    path: Path
    scope: Path
    modified: int
    size: int

    @classmethod
    def of(cls, path: Path, scope: Path) -> "_Stamp":
        status = path.stat()
        return cls(path, scope, status.st_mtime_ns, status.st_size)

    def is_current(self) -> bool:
        return self.path.is_file() and _Stamp.of(self.path, self.scope) == self


# Which file each imported user module came from, so that an edited file is imported again.
_imported: dict[str, _Stamp] = {}


class _OwnFiles:
    """The files of users among all modules that have been imported, by the names of these.

    There are more than a thousand modules, and a process that was forked pays for each one that it
    looks at with a copy of a page of memory: only those that are new are looked at.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._files: dict[str, str] = {}

    def below(self, prefixes: tuple[str, ...]) -> dict[str, str]:
        """Return the files below some folders."""
        self._look()
        found = {name: file for name, file in self._files.items() if file.startswith(prefixes)}
        return {name: file for name, file in found.items() if name in sys.modules}

    def forget(self) -> None:
        """Look at all modules again: some were taken out, or put back."""
        self._known.clear()
        self._files.clear()

    def _look(self) -> None:
        for name, module in self._newcomers():
            # One that is still being imported moves to the end when that is done.
            if not getattr(getattr(module, "__spec__", None), "_initializing", False):
                self._known[name] = id(module)
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and is_own_file(file):
                self._files[name] = file
            else:
                self._files.pop(name, None)

    def _newcomers(self) -> list[tuple[str, ModuleType]]:
        """Return what stands behind the last module that is known; an import puts it at the end."""
        found = []
        try:
            for name in reversed(sys.modules):
                module = sys.modules[name]
                # One that was imported again is another object.
                if self._known.get(name) == id(module):
                    break
                found.append((name, module))
        except (RuntimeError, KeyError):
            # Another thread imports at this very moment.
            return list(sys.modules.items())
        return found


_own_files = _OwnFiles()


@dataclass
class _Project:
    """The folders whose files are imported as packages now, and what stands for them on the path.

    Another project may have a package of the same name; only one of them can be imported.
    """

    roots: list[Path]
    entries: list[str]

    def enter(self, roots: Sequence[Path]) -> None:
        """Make the packages of these folders importable, here and in worker processes."""
        if list(roots) == self.roots:
            return
        for package in {root.name for root in roots}:
            if _is_from_another_project(package, roots):
                _forget([package])
        entries = list(dict.fromkeys(str(root.parent) for root in roots))
        others = [entry for entry in sys.path if entry not in (*entries, *self.entries)]
        self.entries = [e for e in entries if e not in sys.path or e in self.entries]
        sys.path[:] = [*entries, *others]
        self.roots = list(roots)


_project = _Project([], [])
# What must be asked before a file is executed; each says why it must not be, or None.
_fences: list[Callable[[Path], str | None]] = []
# The folders of single files, which were put on the path for what stands beside those.
_beside: list[str] = []


@contextlib.contextmanager
def fenced(problem_of: Callable[[Path], str | None]) -> Iterator[None]:
    """Load inside only those files of which nothing is said against it."""
    _fences.append(problem_of)
    try:
        yield
    finally:
        _fences.remove(problem_of)


class ModuleSet:
    """The user modules of one copy of a project, which hide all others of the same names.

    So several copies can be used in one process, each with classes of its own. Outside of
    ``in_use`` nothing of it is to be seen, not even by an import that a function of it contains.

    No file from elsewhere is loaded inside: it would be executed instead of its copy.

    Args:
        folder: Where the copy is, as ``provenance.snapshot_code`` has made it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._modules: dict[str, ModuleType] = {}
        self._stamps: dict[str, _Stamp] = {}
        self._depth = 0

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Import from this copy inside, without writing to it; then put everything back."""
        self._depth += 1
        try:
            if self._depth > 1:
                yield
                return
            with fenced(self._problem_of), self._swapped():
                yield
        finally:
            self._depth -= 1

    def _problem_of(self, path: Path) -> str | None:
        is_inside = path.is_relative_to(self.folder)
        return None if is_inside else f"it is not in the copy of the code, {self.folder}"

    @contextlib.contextmanager
    def _swapped(self) -> Iterator[None]:
        path, stamps, writes_nothing = list(sys.path), dict(_imported), sys.dont_write_bytecode
        project = dataclasses.replace(_project)
        hidden = self._hide_others()
        own_bases = [str(base) for base in self._bases()]
        sys.path[:] = [*own_bases, *(e for e in path if e not in (*_beside, *project.entries))]
        _project.roots, _project.entries = [], []
        _replace_items(_imported, self._stamps)
        _own_files.forget()
        sys.modules.update(self._modules)
        sys.dont_write_bytecode = True
        try:
            yield
        finally:
            sys.dont_write_bytecode = writes_nothing
            self._stamps = dict(_imported)
            self._modules = self._take_own()
            sys.modules.update(hidden)
            _replace_items(_imported, stamps)
            _own_files.forget()
            _project.roots, _project.entries = project.roots, project.entries
            sys.path[:] = path

    def _bases(self) -> list[Path]:
        external = self.folder / "external"
        return [self.folder, external, *sorted(external.glob("[0-9]*"))]

    def _hide_others(self) -> dict[str, ModuleType]:
        """Take away the modules of users that have a name which this copy has, too."""
        files = self.folder.rglob("*.py")
        names = {part for file in files for part in file.relative_to(self.folder).parts}
        packages = {name.removesuffix(".py") for name in names}
        others = {name for name in packages if _is_from_another_project(name, [self.folder])}
        hidden = [name for name in sys.modules if name.partition(".")[0] in others]
        return {name: sys.modules.pop(name) for name in hidden}

    def _take_own(self) -> dict[str, ModuleType]:
        prefix = f"{self.folder}{os.sep}"
        own = [
            name
            for name, module in list(sys.modules.items())
            if any(place.startswith(prefix) for place in _places(module))
        ]
        return {name: sys.modules.pop(name) for name in own}


def _places(module: ModuleType) -> list[str]:
    """Return where a module comes from; a package without ``__init__.py`` has folders only."""
    file, folders = getattr(module, "__file__", None), getattr(module, "__path__", ())
    return [file] if isinstance(file, str) else [str(folder) for folder in folders]


def _replace_items(target: dict[str, Any], source: dict[str, Any]) -> None:
    items = dict(source)
    target.clear()
    target.update(items)


def load_file(path: Path, roots: Sequence[Path]) -> ModuleType:
    """Import a file; one below a root is imported as part of the package that the root is."""
    if not path.is_file():
        raise ComponentError(f"{path} does not exist or is not a file.{_near(path)}")
    resolved = path.resolve()
    for problem in filter(None, (problem_of(resolved) for problem_of in _fences)):
        raise ComponentError(f"{path} is not loaded: {problem}.")
    root = next((root for root in roots if root in resolved.parents), None)
    with _explained(resolved):
        try:
            return _import(resolved, root, roots)
        except RuntimeError as error:
            if "torchvision::" not in str(error):
                raise
        # By its name, because JADE's launching side imports this file and must stay free of torch.
        startup: Any = importlib.import_module("jade.torch_startup")
        startup.import_torchvision()
        return _import(resolved, root, roots)


def forget_edited(scope: Path) -> None:
    """Drop what was imported from a folder if any of these files has changed since."""
    stamps = {name: stamp for name, stamp in _imported.items() if stamp.scope == scope}
    changed = [stamp for stamp in stamps.values() if not stamp.is_current()]
    for stamp in changed:
        # Python trusts its cache by the second and the size, which a quick edit may not change.
        cached = Path(importlib.util.cache_from_source(str(stamp.path)))
        with contextlib.suppress(OSError):
            cached.unlink(missing_ok=True)
    if changed:
        _forget(stamps)


def shown(path: Path) -> str:
    """Render a path relative to the working directory where that is shorter."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def syntax_problem(path: Path, error: SyntaxError | ValueError | OSError) -> str:
    """Render why Python cannot read a file, with its line."""
    line = getattr(error, "lineno", None)
    where = f"{shown(path)}:{line}" if line else shown(path)
    return f"{where}: {getattr(error, 'msg', None) or getattr(error, 'strerror', None) or error}."


def _import(path: Path, root: Path | None, roots: Sequence[Path]) -> ModuleType:
    if root is not None:
        _project.enter(roots)
        module = _import_below(root, path)
        if module is not None:
            return module
    importlib.invalidate_caches()
    return _import_alone(path)


def _import_below(root: Path, path: Path) -> ModuleType | None:
    """Import ``modules.data.digits`` from the root ``.../modules``; None if the name is taken."""
    parts = (root.name, *path.relative_to(root).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts = parts[:-1]
    name = ".".join(parts)
    forget_edited(root)
    if name in sys.modules and name in _imported and _imported[name].path.resolve() == path:
        # What a function of it has imported since then.
        _remember(root)
        return sys.modules[name]
    importlib.invalidate_caches()
    spec = _find_spec(root.name)
    locations = spec.submodule_search_locations if spec is not None else None
    folders = [Path(item).resolve() for item in locations or ()]
    if root not in folders or any("." in part for part in parts):
        return None
    module = importlib.import_module(name)
    _remember(root)
    return module if Path(module.__file__ or "").resolve() == path else None


def _find_spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        # Something without a spec has this name already, such as the main program.
        return None


def _is_from_another_project(package: str, roots: Sequence[Path]) -> bool:
    """Tell whether a loaded package came from a user's folder that is none of these."""
    loaded = [sys.modules[name] for name in sys.modules if name.partition(".")[0] == package]
    files = [Path(getattr(module, "__file__", None) or "") for module in loaded]
    outside = [file for file in files if file.name and not any(r in file.parents for r in roots)]
    return (
        bool(outside)
        and package not in (*sys.stdlib_module_names, "jade")
        and not any(_is_installed(file) for file in outside)
    )


def _is_installed(file: Path | str) -> bool:
    return any(
        f"{os.sep}{name}{os.sep}" in str(file) for name in ("site-packages", "dist-packages")
    )


def is_own_file(name: str) -> bool:
    """Tell whether a file is a user's: of no library, not of Python, not of JADE."""
    return name.endswith(".py") and not name.startswith(_foreign()) and not _is_installed(name)


@functools.cache
def _foreign() -> tuple[str, ...]:
    others = (Path(__file__).parent, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return tuple(f"{folder}{os.sep}" for folder in others)


def imported_below(folders: Iterable[Path]) -> set[Path]:
    """Return the files of a user that were imported from the given folders."""
    found = _own_files.below(tuple(f"{folder}{os.sep}" for folder in folders))
    # The main program only calls us; multiprocessing knows it by another name, too.
    main = sys.modules.get("__main__")
    return {Path(file).resolve() for name, file in found.items() if sys.modules[name] is not main}


def _import_alone(path: Path) -> ModuleType:
    scope = path.parent
    forget_edited(scope)
    name = _free_name(path)
    if name in sys.modules:
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
    _imported[name] = _Stamp.of(path, scope)
    _remember(scope)
    return module


def _free_name(path: Path) -> str:
    """Choose the file's own name, by which worker processes find it, unless that is taken."""
    name = path.stem
    if "." not in name:
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
            _beside.append(str(path.parent))
        spec = _find_spec(name)
        if spec is not None and spec.origin and Path(spec.origin).resolve() == path:
            return name
    digest = hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()
    return f"jade_file_{re.sub(r'[^0-9A-Za-z]', '_', name)}_{digest}"


def _remember(scope: Path) -> None:
    """Stamp every module whose file lies in a folder: a file imports others beside it."""
    for name, file in _own_files.below((f"{scope}{os.sep}",)).items():
        if name not in _imported:
            with contextlib.suppress(OSError):
                _imported[name] = _Stamp.of(Path(file), scope)


def _forget(names: Sequence[str] | dict[str, _Stamp]) -> None:
    """Drop modules, and with each the whole package that it belongs to."""
    packages = {name.partition(".")[0] for name in names}
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
    for name in [name for name in _imported if name.partition(".")[0] in packages]:
        del _imported[name]
    _own_files.forget()


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    return suggest(path.name, [item.name for item in path.parent.glob("*.py")])


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn a failure to import a user's file into one message with its file and line."""
    try:
        yield
    except ComponentError:
        raise
    except SystemExit as error:
        frames = traceback.extract_tb(error.__traceback__)
        if frames[-1].filename == signals.__file__:
            # A signal, which came in the meantime.
            raise
        own = [frame for frame in frames if is_own_file(frame.filename)]
        where = f"{shown(Path(own[-1].filename))}:{own[-1].lineno}" if own else shown(path)
        raise ComponentError(
            f"{shown(path)} cannot be imported: it ends the program ({where}). What it does as a "
            "program belongs below: if __name__ == '__main__':"
        ) from error
    except SyntaxError as error:
        raise ComponentError(syntax_problem(Path(error.filename or path), error)) from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
        where = f"{shown(Path(own[-1].filename))}:{own[-1].lineno}" if own else shown(path)
        hint = explain(error)
        raise ComponentError(
            f"{shown(path)} cannot be imported: {type(error).__name__}: {error} ({where})."
            + (f" {hint}" if hint else "")
        ) from error
