"""Tell what may be executed for a run of somebody else: code of this project, and of torch."""

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from jade.errors import ComponentError

# Libraries whose classes do no harm, whatever parameters a stranger gives them ...
HARMLESS = (
    "torch.nn",
    "torch.optim",
    "torch.utils.data",
    "torchvision.datasets",
    "torchvision.transforms",
    "torchvision.models",
    "jade.nn",
)
# ... except for those that unpickle files, which executes whatever the files say.
UNPICKLING = ("torch.utils.data.datapipes", "torchvision.datasets.lsun")
INSTALLED = ("site-packages", "dist-packages")
TRUST = "load_run(..., trust_code=True)"


@dataclass(frozen=True)
class Fence:
    """Keeps out what a run names that belongs neither to the project nor to a harmless library.

    Args:
        project: The working directory of whoever loads the run; what is below it is theirs.
        run: The directory of the run.
        advice: What to say besides when something is wrong, if this is not the run's project.
    """

    project: Path
    run: Path
    advice: str = ""

    def check_file(self, path: Path) -> None:
        """Refuse a file or folder that is none of the project."""
        problem = self._problem_of(path.resolve())
        if problem:
            raise ComponentError(f"{path} is not loaded: {problem}.")

    def check_library(self, module_name: str, class_name: str) -> None:
        """Refuse a module by its name: to import it would execute it already."""
        if not _is_harmless(module_name):
            raise ComponentError(_refusal(f"{module_name}.{class_name}"))

    def check_class(self, found: type) -> None:
        """Refuse a class from elsewhere that a harmless file has only imported."""
        if not _is_harmless(found.__module__) and not self._is_of_project(found.__module__):
            raise ComponentError(_refusal(f"{found.__module__}.{found.__name__}"))

    def allows_file(self, path: Path) -> bool:
        """Tell whether a file belongs to the project."""
        return self._problem_of(path.resolve()) is None

    def _is_of_project(self, module_name: str) -> bool:
        file = getattr(sys.modules.get(module_name), "__file__", None)
        return isinstance(file, str) and self.allows_file(Path(file))

    def _problem_of(self, path: Path) -> str | None:
        if any(path.is_relative_to(folder) for folder in self._foreign_folders()):
            return f"it belongs to the run, whose code is executed with {TRUST} only"
        if not path.is_relative_to(self.project):
            return (
                f"it is not below the working directory {self.project}, and a run may name any "
                f"file; {TRUST} executes the copy that the run has kept"
            )
        # An environment may stand within a project; what it holds is no part of that.
        is_installed = any(name in path.relative_to(self.project).parts for name in INSTALLED)
        if is_installed or path.is_relative_to(sysconfig.get_path("stdlib")):
            return f"it is an installed file, which a run may name with {TRUST} only"
        return None

    def _foreign_folders(self) -> list[Path]:
        """Return the run, and what came with it: all that stands beside it, if that is apart."""
        beside = self.run.parent
        return [self.run] if self.project.is_relative_to(beside) else [self.run, beside]


def _is_harmless(module_name: str) -> bool:
    return _is_below(module_name, HARMLESS) and not _is_below(module_name, UNPICKLING)


def _is_below(module_name: str, packages: tuple[str, ...]) -> bool:
    return any(f"{module_name}.".startswith(f"{package}.") for package in packages)


def _refusal(name: str) -> str:
    return (
        f"the run names {name!r}, which is neither of this project nor a harmless class of torch "
        f"or torchvision, and might do anything. If you trust the run: {TRUST}."
    )
