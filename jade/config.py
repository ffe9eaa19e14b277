"""Load and merge configuration files, and remember where each value came from."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.envvars import read_environment
from jade.errors import ConfigError
from jade.overrides import Override, join_key, leaves, merge
from jade.settings import ALIASES, FIELDS, FILES, SECTIONS
from jade.yaml_file import Document, KeyPath, Origin, load_mapping

DEFAULT_CONFIGS = "default_configs"
# Environment variables that stand for a setting; a flag wins over them.
ENVIRONMENT_SETTINGS = {"DEVICE": "device", "EXPERIMENTS_ROOT": "experiments_root"}
SWEEP = Origin("sweep")
# What `wandb agent` adds of its own to the values of a sweep.
WANDB_KEYS = ("_wandb", "wandb_version")


@dataclass
class Configuration:
    """Nested values with their origins, and the overrides that are still to be applied."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    overrides: list[Override] = field(default_factory=list)
    environ: Mapping[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def add(self, document: Document, prefix: KeyPath = ()) -> None:
        """Merge a document below a prefix; what it says wins."""
        values: Any = document.values
        for part in reversed(prefix):
            values = {part: values}
        merge(self.values, values)
        self.origins.update({(*prefix, *path): o for path, o in document.origins.items()})
        self.warnings += document.warnings

    def origin(self, path: KeyPath) -> Origin | None:
        """Find where the value at a path, or else the mapping around it, was written."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return None

    def where(self, path: KeyPath) -> str:
        """Render a path with its origin, to open a message."""
        origin = self.origin(path)
        return f"{join_key(path)} ({origin})" if origin else join_key(path)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """All that a configuration is made of: sections given as mappings, overrides, environment."""

    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    arguments: Sequence[Override] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


def load(sources: Sources) -> Configuration:
    """Load the files that the arguments, the sweep or other files name, and merge them.

    The overrides themselves stay aside: short forms need the signatures of the classes.
    """
    sweep = read_sweep(sources.environ)
    overrides = [*_spread(sources.arguments), *_spread(sweep)]
    chosen = {override.key: override.value for override in overrides if override.key in FIELDS}
    environ = read_environment(sources.environ, chosen.get("env_file"))
    configuration = Configuration(overrides=overrides, environ=environ)
    for path in _as_paths(chosen.get("config", ())):
        configuration.add(_load_sectioned(path))
    for section in SECTIONS:
        named = chosen.get(f"{section}_conf", configuration.values.get(f"{section}_conf"))
        if named is not None:
            configuration.add(_load_section(Path(str(named)), section), (section,))
        if section in sources.sections:
            given = Document(copy.deepcopy(dict(sources.sections[section])))
            given.origins[()] = Origin(f"argument {section}=")
            configuration.add(given, (section,))
    for variable, key in ENVIRONMENT_SETTINGS.items():
        if environ.get(variable):
            configuration.values[key] = environ[variable]
            configuration.origins[(key,)] = Origin(f"environment variable {variable}")
    return configuration


def read_sweep(environ: Mapping[str, str]) -> list[Override]:
    """Read the values that a W&B agent wrote for this run, if it runs under one."""
    path = environ.get("WANDB_SWEEP_PARAM_PATH")
    if not path:
        return []
    overrides = []
    for key, entry in load_mapping(Path(path)).values.items():
        if key in WANDB_KEYS:
            continue
        value = entry["value"] if isinstance(entry, Mapping) and "value" in entry else entry
        overrides.append(Override(str(key), value, SWEEP))
    return overrides


def _spread(overrides: Sequence[Override]) -> list[Override]:
    """Turn overrides with mappings as values into one override for each value within."""
    spread = []
    for override in overrides:
        first, *_ = override.path
        if first in WANDB_KEYS:
            continue
        if isinstance(override.value, Mapping) and override.value:
            spread += [
                Override(f"{override.key}.{join_key(path)}", value, override.origin)
                for path, value in leaves(override.value)
            ]
        else:
            spread.append(Override(override.key, override.value, override.origin))
    return spread


def _as_paths(value: Any) -> list[Path]:
    return [Path(item) for item in ([value] if isinstance(value, str) else value or ())]


def _load_sectioned(path: Path) -> Document:
    document = load_tree(path)
    for alias, name in ALIASES.items():
        if alias not in document.values:
            continue
        if name in document.values:
            raise ConfigError(f"{path} has both {alias!r} and {name!r}, which mean the same.")
        document.values[name] = document.values.pop(alias)
        renamed = {p: o for p, o in document.origins.items() if p[:1] == (alias,)}
        document.origins.update({(name, *p[1:]): origin for p, origin in renamed.items()})
    for name in SECTIONS:
        if not isinstance(document.values.get(name, {}), dict):
            origin = document.origins.get((name,), path)
            raise ConfigError(f"{origin}: the section {name!r} must be a mapping.")
    return document


def _load_section(path: Path, section: str) -> Document:
    document = load_tree(path)
    if section in document.values and "class" not in document.values:
        raise ConfigError(
            f"{path} has a section {section!r} of its own: give it with --config, "
            f"or remove the line '{section}:' for --{section}_conf."
        )
    return document


def load_tree(path: Path) -> Document:
    """Load a file below which its ``default_configs`` are merged, each file once."""
    tree = Configuration()
    _add_tree(path, (), set(), tree)
    return Document(tree.values, tree.origins, tree.warnings)


def _add_tree(path: Path, chain: tuple[Path, ...], seen: set[Path], tree: Configuration) -> None:
    resolved = path.resolve()
    if resolved in (item.resolve() for item in chain):
        circle = " -> ".join(str(item) for item in (*chain, path))
        raise ConfigError(f"{DEFAULT_CONFIGS} go round in a circle: {circle}.")
    if resolved in seen:
        return
    seen.add(resolved)
    document = load_mapping(path)
    included = document.values.pop(DEFAULT_CONFIGS, [])
    origin = document.origins.pop((DEFAULT_CONFIGS,), Origin(str(path)))
    names: Any = [included] if isinstance(included, str) else included
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{origin}: {DEFAULT_CONFIGS} takes a path or a list of paths.")
    for name in names:
        _add_tree(_find_included(name, path, origin), (*chain, path), seen, tree)
    tree.add(document)


def _find_included(name: str, including: Path, origin: Origin) -> Path:
    candidates = [including.parent / name, Path(name)]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    tried = " and ".join(str(candidate) for candidate in candidates)
    raise ConfigError(f"{origin}: {DEFAULT_CONFIGS} names {name!r}; there is no {tried}.")


def freeze(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what reproduces a run: the sections and settings, without the files they came from."""
    return {key: copy.deepcopy(value) for key, value in values.items() if key not in FILES}
