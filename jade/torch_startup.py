"""Start torch sooner: postpone the import of its compiler, and repair torchvision's."""

import importlib
import importlib.abc
import importlib.util
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any, ClassVar, Final, TypeVar

import torch
import torch._compile

from jade.errors import ComponentError

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIMIZER: Final = "torch.optim.optimizer"
_DYNAMO: Final = "torch._dynamo"
_DYNAMO_UTILS: Final = "torch._dynamo.utils"
_DISABLE_CACHE: Final = "__dynamo_disable"
_TORCHVISION_SCHEMAS: Final = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}

# A schema lives only as long as the Library that declared it.
_torchvision_libraries: list[torch.library.Library] = []


def declare_torchvision_ops() -> None:
    """Declare the operators whose absence makes ``import torchvision`` raise.

    Call it only after that import failed: compiled operators that load later would clash.
    """
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, signature in _TORCHVISION_SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            library.define(name + signature)  # type: ignore[no-untyped-call]
    _torchvision_libraries.append(library)


def import_torchvision(name: str = "torchvision") -> types.ModuleType:
    """Import torchvision, or a module of it, also where its compiled operators do not load.

    PyPI's torchvision is built for CUDA. Beside a CPU-only torch its operators are missing, and it
    raises although datasets, transforms and models do not need them.

    Raises:
        ComponentError: torchvision is not installed.
    """
    try:
        return _import_without_dynamo(name)
    except ModuleNotFoundError as error:
        if error.name != "torchvision":
            raise
        raise ComponentError(
            f"{name} cannot be imported: torchvision is not installed. "
            "Install it with: pip install 'jade-trainer[vision]'"
        ) from error
    except RuntimeError as error:
        if "torchvision::" not in str(error) or "does not exist" not in str(error):
            raise
    for module in [key for key in sys.modules if key.split(".")[0] == "torchvision"]:
        del sys.modules[module]
    declare_torchvision_ops()
    return _import_without_dynamo(name)


def defer_dynamo() -> bool:
    """Postpone the import of ``torch._dynamo`` until something really needs it.

    Building or stepping any optimizer imports that package, torch's compiler, only to call two of
    its functions, which do nothing outside compiled code. Until somebody asks for more, those
    calls are answered here; then the real package is imported into the same module object, so
    that ``torch.compile`` works as if nothing had been postponed.

    Returns:
        Whether the import is postponed: not when it has happened, nor with a torch that differs.
    """
    if _DYNAMO in sys.modules:
        return isinstance(sys.modules[_DYNAMO], _PostponedModule)
    spec = importlib.util.find_spec(_DYNAMO)
    if spec is None or spec.loader is None or not _keeps_disabled_functions_as_expected():
        return False
    _PostponedImport(spec).install()
    return True


def _keeps_disabled_functions_as_expected() -> bool:
    """Tell whether torch keeps what ``disable`` returns where we can remove it again."""
    decorator = getattr(torch._compile, "_disable_dynamo", None)
    constants = decorator.__code__.co_consts if isinstance(decorator, types.FunctionType) else ()
    inner = [item for item in constants if isinstance(item, types.CodeType)]
    return any(_DISABLE_CACHE in code.co_names for code in inner)


def _import_without_dynamo(torchvision_name: str) -> types.ModuleType:
    """Import a module of torchvision without the compiler, while that is postponed.

    One of its files takes one function from the compiler, for a case that hardly ever occurs.
    """
    if not isinstance(sys.modules.get(_DYNAMO), _PostponedModule):
        return importlib.import_module(torchvision_name)
    stand_in = _LightUtils(_DYNAMO_UTILS)
    sys.modules[_DYNAMO_UTILS] = stand_in
    try:
        return importlib.import_module(torchvision_name)
    finally:
        if sys.modules.get(_DYNAMO_UTILS) is stand_in:
            del sys.modules[_DYNAMO_UTILS]


class _LightUtils(types.ModuleType):
    """``torch._dynamo.utils`` for torchvision, while the import of the compiler is postponed."""

    @staticmethod
    def is_compile_supported(device_type: str) -> bool:
        """Ask the real function of this name."""
        return bool(_import_dynamo_utils().is_compile_supported(device_type))

    def __getattr__(self, name: str) -> Any:
        _refuse_unless_public(name, self.__name__)
        return getattr(_import_dynamo_utils(), name)


def _import_dynamo_utils() -> types.ModuleType:
    if isinstance(sys.modules[_DYNAMO], _PostponedModule):
        _PostponedModule.pending.run()
    return importlib.import_module(_DYNAMO_UTILS)


def _refuse_unless_public(name: str, module: str) -> None:
    """Raise for names like ``__file__``: tools look for them in all of ``sys.modules``."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {module!r} has no attribute {name!r}")


class _GraphBreak:
    """Answer optimizers, which ask twice in each step, in a third of the time of __getattr__."""

    def __get__(self, module: Any, owner: type) -> Callable[[], None]:
        asker = sys._getframe(1).f_globals.get("__name__")
        if asker == _OPTIMIZER and _PostponedModule.pending.waiting:
            return _do_nothing
        # Whoever else asks is answered by __getattr__ below.
        raise AttributeError("graph_break")


class _PostponedModule(types.ModuleType):
    """``torch._dynamo`` while its code has not run yet."""

    # Here rather than in the module: what is in there belongs to the real package.
    pending: ClassVar["_PostponedImport"]
    graph_break = _GraphBreak()
    # A module looks in two more places, which here are empty: each step would pay for that.
    __getattribute__ = object.__getattribute__

    def __getattr__(self, name: str) -> Any:
        pending = _PostponedModule.pending
        asker = sys._getframe(1).f_globals.get("__name__")
        answer = pending.answers.get((asker, name)) if pending.waiting else None
        if answer is not None:
            return answer
        _refuse_unless_public(name, _DYNAMO)
        pending.run()
        # Not super(): by now this may be a plain module.
        return types.ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if _PostponedModule.pending.waiting and not name.startswith("__"):
            _PostponedModule.pending.run()
        types.ModuleType.__setattr__(self, name, value)

    def __dir__(self) -> list[str]:
        _PostponedModule.pending.run()
        return dir(self)


class _PostponedImport:
    """An import of ``torch._dynamo`` that waits, then runs inside the module that stood for it.

    It is also a finder, asked first: a submodule must not be imported before its package, and not
    a second time when importing the package has already done it.
    """

    def __init__(self, spec: ModuleSpec) -> None:
        self.waiting = True
        # Only these callers: anybody else may keep what they get, and must get the real thing.
        self.answers: dict[tuple[Any, str], Callable[..., Any]] = {
            (_OPTIMIZER, "graph_break"): _do_nothing,
            ("torch._compile", "disable"): self._pass_through,
        }
        self._spec = spec
        self._module = importlib.util.module_from_spec(spec)
        self._original = dict(vars(self._module))
        self._passed: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()
        self._lock = threading.Lock()

    def install(self) -> None:
        """Put the empty module where the real one would be."""
        _PostponedModule.pending = self
        self._module.__class__ = _PostponedModule
        sys.meta_path.insert(0, self)
        sys.modules[_DYNAMO] = self._module
        torch._dynamo = self._module

    def run(self) -> None:
        """Import the real package; when another thread is doing it, wait for that."""
        with self._lock:  # not held while importing: import locks and ours could block each other
            mine, self.waiting = self.waiting, False
            if mine:
                del sys.modules[_DYNAMO]
                if isinstance(sys.modules.get(_DYNAMO_UTILS), _LightUtils):
                    del sys.modules[_DYNAMO_UTILS]
        try:
            importlib.import_module(_DYNAMO)
        except BaseException:
            if mine:
                self._wait_again()
            raise

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find the package in our module, and a submodule where the package's import put it."""
        if fullname == _DYNAMO and not self.waiting:
            loader = _ExistingModule(self._module, self._execute)
            return importlib.util.spec_from_loader(fullname, loader, is_package=True)
        if fullname.startswith(_DYNAMO + ".") and self.waiting:
            self.run()
            loaded = sys.modules.get(fullname)
            if loaded is not None:
                spec = importlib.util.spec_from_loader(fullname, _ExistingModule(loaded))
                # The import system prefers the spec of a module that appeared meanwhile to ours,
                # and would execute it once more; _ExistingModule gives it back its own.
                vars(loaded)["__spec__"] = spec
                return spec
        return None

    def _execute(self, module: types.ModuleType) -> None:
        if self._spec.loader is not None:
            self._spec.loader.exec_module(module)
        module.__class__ = types.ModuleType
        sys.meta_path.remove(self)
        for function in self._passed:
            # torch asks again at the next call, and then gets what the real package returns.
            vars(function).pop(_DISABLE_CACHE, None)
        roi_align = sys.modules.get("torchvision.ops.roi_align")
        if roi_align is not None:
            vars(roi_align).update(
                is_compile_supported=sys.modules[_DYNAMO_UTILS].is_compile_supported
            )

    def _wait_again(self) -> None:
        vars(self._module).clear()
        vars(self._module).update(self._original)
        sys.modules[_DYNAMO] = self._module
        torch._dynamo = self._module
        self.waiting = True

    def _pass_through(self, function: _Function, *_: Any, **__: Any) -> _Function:
        self._passed.add(function)
        return function


class _ExistingModule(importlib.abc.Loader):
    """A loader for a module that exists: the import system gets it, and leaves its spec alone."""

    def __init__(
        self,
        module: types.ModuleType,
        execute: Callable[[types.ModuleType], None] | None = None,
    ) -> None:
        self._module = module
        self._spec = module.__spec__
        self._execute = execute

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        if self._execute is not None:
            self._execute(module)
        # Not setattr: torch's configuration modules refuse unknown names.
        vars(module)["__spec__"] = self._spec


def _do_nothing() -> None:
    """Stand for ``graph_break``, which is empty itself: the compiler acts on its name."""
