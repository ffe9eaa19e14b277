"""Load a configuration file together with the files that it includes."""

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.errors import ConfigError, closest
from jade.origin import KeyPath, Origin
from jade.overrides import exists, merge
from jade.yaml_file import Document, load_mapping

DEFAULT_CONFIGS = "default_configs"


def load_tree(path: Path, asked_by: str = "") -> Document:
    """Load a file over its ``default_configs``, each of these files once."""
    tree = _Tree()
    tree.add(path, (), asked_by)
    return tree.merged


class RememberedTrees:
    """Loads each file once, for those who load many configurations of the same files."""

    def __init__(self) -> None:
        self._loaded: dict[Path, Document] = {}

    def __call__(self, path: Path, asked_by: str = "") -> Document:
        """Load a file as ``load_tree`` does; the caller may change what it gets."""
        if path not in self._loaded:
            self._loaded[path] = load_tree(path, asked_by)
        kept = self._loaded[path]
        return Document(copy.deepcopy(kept.values), dict(kept.origins), list(kept.warnings))


def merge_document(base: Document, update: Document, prefix: KeyPath = ()) -> None:
    """Merge a document into another, below a prefix; what it says wins."""
    values: Any = update.values
    for part in reversed(prefix):
        values = {part: values}
    merge(base.values, values)
    base.origins.update({(*prefix, *path): origin for path, origin in update.origins.items()})
    # What another class or a shorter list has pushed out is not to be blamed for anything.
    for path in [path for path in base.origins if not exists(base.values, path)]:
        del base.origins[path]
    base.warnings += update.warnings


@dataclass
class _Tree:
    merged: Document = field(default_factory=lambda: Document({}))
    seen: set[Path] = field(default_factory=set)

    def add(self, path: Path, chain: tuple[Path, ...], asked_by: str = "") -> None:
        resolved = path.resolve()
        if resolved in (item.resolve() for item in chain):
            circle = " -> ".join(str(item) for item in (*chain, path))
            raise ConfigError(f"{DEFAULT_CONFIGS} go round in a circle: {circle}.")
        if resolved in self.seen:
            return
        self.seen.add(resolved)
        document = load_mapping(path, asked_by)
        _check_spelling(document)
        included = document.values.pop(DEFAULT_CONFIGS, [])
        origin = document.origins.get((DEFAULT_CONFIGS,), Origin(str(path)))
        names: Any = [included] if isinstance(included, str) else included
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{origin}: {DEFAULT_CONFIGS} takes a path or a list of paths.")
        for name in names:
            self.add(_find_included(name, path, origin), (*chain, path))
        merge_document(self.merged, document)


def _check_spelling(document: Document) -> None:
    for key in document.values:
        if key != DEFAULT_CONFIGS and closest(str(key), [DEFAULT_CONFIGS], likeness=0.85):
            origin = document.origins[(key,)]
            raise ConfigError(f"{origin}: unknown key {key!r}. Did you mean {DEFAULT_CONFIGS!r}?")


def _find_included(name: str, including: Path, origin: Origin) -> Path:
    candidates = [including.parent / name, Path(name)]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    tried = " and no ".join(dict.fromkeys(str(candidate) for candidate in candidates))
    raise ConfigError(f"{origin}: {DEFAULT_CONFIGS} names {name!r}; there is no {tried}.")
