"""Build components from descriptions that have been checked, each when it is first needed."""

import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from jade.class_index import ClassIndex as ClassIndex
from jade.errors import ComponentError, MissingDataError, suggest
from jade.signatures import signature_of
from jade.user_modules import shown

logger = logging.getLogger(__name__)

# The keys that a description may have in each section; NESTED for one among parameters.
NESTED = ("class", "params", "strict")
DESCRIPTION_KEYS = {
    "model": (*NESTED, "load"),
    "data": NESTED,
    "eval": (*NESTED, "evaluate_every"),
    "loggers": NESTED,
}


def is_description(value: Any) -> bool:
    """Tell whether a value describes a component."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("class"), str)
        and set(value) <= set(NESTED)
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


class Buildable(Protocol):
    """What can be built: a blueprint, or something that first has to find out how."""

    def build(self) -> Any:
        """Build the component."""


class LazyComponents(Mapping[str, Any]):
    """Components by name, each built on first access and kept."""

    def __init__(self, blueprints: Mapping[str, Buildable], kind: str) -> None:
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
            self._built[name] = self._build(name)
            self._announce(name)
        return self._built[name]

    def _build(self, name: str) -> Any:
        return self._blueprints[name].build()

    def _announce(self, name: str) -> None:
        logger.info("%s %s: %s", self._kind, name, describe_size(self._built[name]))

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
    except (TypeError, NotImplementedError, MissingDataError):
        return None


def describe_size(dataset: Any) -> str:
    """Render the class and size of a dataset."""
    size = size_of(dataset)
    return f"{type(dataset).__name__}, " + ("no length" if size is None else f"{size} samples")


def find_architecture_file(
    name: str | None, roots: Sequence[Path], folder: Path = Path()
) -> Path | None:
    """Return the file that ``--arch_impl`` names: a path, or the name of a file in modules."""
    if name is None:
        return None
    if (folder / name).is_file():
        return folder / name
    stem = name.removesuffix(".py")
    folders = [folder for root in roots for folder in (root / "architectures", root)]
    for folder in folders:
        if (folder / f"{stem}.py").is_file():
            return folder / f"{stem}.py"
    known = [path.stem for folder in folders for path in folder.glob("*.py")]
    raise ComponentError(f"there is no file {name}.{suggest(Path(stem).name, known)}")


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
                f"{shown(self._path)}: {name}{signature} does not take these parameters: {error}."
                f"{hint}"
            ) from error
        return target(**params)
