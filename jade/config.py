"""Collect a configuration from files, environment and sweep, with the origin of each value."""

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jade.envvars import expand_text, read_environment
from jade.errors import ConfigError, VariableError, raise_all
from jade.fence import Fence
from jade.file_tree import load_tree, merge_document
from jade.origin import KeyPath, Origin
from jade.overrides import Override, exists, find, join_key, leaves
from jade.plain import require_plain
from jade.resources import SECTION, read_resources
from jade.settings import ALIASES, FIELDS, FILES, LOAD_IN_MODEL, REQUESTS, SECTIONS, canonical
from jade.yaml_file import Document, load_mapping

# Environment variables that stand for a setting; a flag wins over them.
ENVIRONMENT_SETTINGS = {"DEVICE": "device", "EXPERIMENTS_ROOT": "experiments_root"}
SWEEP = Origin("sweep")
ENV_FILE = "env_file"
YAML_ENDINGS = (".yml", ".yaml")
# What `wandb agent` adds of its own to the values of a sweep.
REQUEUED = "_wandb"
WANDB_KEYS = (REQUEUED, "wandb_version")


@dataclass
class Configuration(Document):
    """Nested values with their origins, and the overrides that are still to be applied.

    Attributes:
        folder: What the paths of files with code are relative to: the working directory, unless
            the configuration is of another place.
        is_requeued: Whether its run was preempted in a sweep, and is given out again.
        slurm: What jobs of a cluster are given, with the place where that is written.
        fence: Keeps out what a configuration of somebody else must not name; None for one's own.
        errors: What could not be read, and why; it is said with all else that is wrong.
        unread: The sections and settings of which nothing is known for that reason.
    """

    values: dict[str, Any] = field(default_factory=dict)
    overrides: list[Override] = field(default_factory=list)
    environ: Mapping[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    folder: Path = Path()
    fence: Fence | None = None
    is_requeued: bool = False
    slurm: list[tuple[str, Any]] = field(default_factory=list)
    errors: list[ConfigError] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)

    @contextlib.contextmanager
    def reading(self, *keys: str) -> Iterator[None]:
        """Note, instead of raising it, that what says something about these keys is unreadable."""
        try:
            yield
        except ConfigError as error:
            self.errors.append(error)
            self.unread.update(keys)

    def add(self, document: Document, prefix: KeyPath = ()) -> None:
        """Merge a document below a prefix; what it says wins, and what it replaces is noted."""
        for path, value in leaves(document.values):
            origin = document.origins.get(path)
            if origin is not None:
                self.note_replaced((*prefix, *path), value, origin)
        merge_document(self, document, prefix)
        self._lift_load()

    def _lift_load(self) -> None:
        """Make the setting of a ``load`` in the model's description."""
        model = self.values.get("model")
        if not isinstance(model, dict) or "load" not in model:
            return
        value, origin = model.pop("load"), self.origins.pop(LOAD_IN_MODEL, None)
        if origin is not None:
            self.note_replaced(("load",), value, origin)
            self.origins[("load",)] = origin
        self.values["load"] = value

    def note_replaced(self, path: KeyPath, new: Any, origin: Origin) -> None:
        """Note that a value which somebody wrote is about to be replaced by another one."""
        written = self.origins.get(path)
        if written is None or not exists(self.values, path):
            return
        old = find(self.values, path)
        if old != new:
            self.notices.append(
                f"{join_key(path)} = {new!r} ({origin}) replaces {old!r} ({written})"
            )

    def origin(self, path: KeyPath) -> Origin | None:
        """Find where the value at a path, or else what stands around it, was written."""
        for length in range(len(path), 0, -1):
            around = path[:length]
            if around in self.origins:
                return self.origins[around]
            # What only an argument has made has no place of its own, but parts that do.
            parts = (at for at in self.origins if at[:length] == around)
            first = next(parts, None)
            if first is not None:
                return self.origins[first]
        return None

    def where(self, path: KeyPath) -> str:
        """Render a path with its origin, to open a message."""
        origin = self.origin(path)
        return f"{join_key(path)} ({origin})" if origin else join_key(path)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """All that a configuration is made of: sections given as mappings, overrides, environment.

    Attributes:
        sections: Given as mappings instead of files.
        arguments: Overrides.
        environ: Environment variables.
        load_tree: Loads a file with what it includes; who loads many configurations of the same
            files can give a function that remembers them.
    """

    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    arguments: Sequence[Override] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    load_tree: Callable[[Path, str], Document] = load_tree


def load(sources: Sources) -> Configuration:
    """Load a configuration as ``collect`` does, and raise what is wrong with its files."""
    configuration = collect(sources)
    if len(configuration.errors) == 1:
        # As it is: some ask for its kind.
        raise configuration.errors[0]
    raise_all([text for error in configuration.errors for text in error.texts])
    return configuration


def collect(sources: Sources) -> Configuration:
    """Load the files that the arguments, the sweep or other files name, and merge them.

    The overrides themselves stay aside: short forms need the signatures of the classes. Files that
    cannot be read are among the errors of what is returned, for ``resolve`` to add its own.
    """
    overrides = [*_spread(sources.arguments), *_spread(read_sweep(sources.environ))]
    chosen = {override.key: override.value for override in overrides if override.key in FIELDS}
    configuration = Configuration(overrides=overrides, is_requeued=_is_requeued(sources))
    for path in _as_paths(chosen.get("config")):
        with configuration.reading(*SECTIONS, *(key for key in FIELDS if key != ENV_FILE)):
            document = _check_sectioned(sources.load_tree(path, "--config"), path)
            configuration.slurm += _take_slurm(document)
            configuration.add(document)
    with configuration.reading():
        # Here only to be right: it is about jobs, and no part of what is trained.
        read_resources(configuration.slurm)
    configuration.environ = sources.environ
    with configuration.reading(ENV_FILE):
        named = chosen.get(ENV_FILE, configuration.values.get(ENV_FILE))
        asked_by = f"--{ENV_FILE}" if ENV_FILE in chosen else _named_by(ENV_FILE, configuration)
        if named is not None:
            named = str(_expand_path(named, asked_by, sources.environ))
        configuration.environ = read_environment(sources.environ, named, asked_by)
    for section in SECTIONS:
        key = f"{section}_conf"
        named = chosen.get(key, configuration.values.get(key))
        if named is not None:
            with configuration.reading(section):
                asked_by = f"--{key}" if key in chosen else _named_by(key, configuration)
                path = _expand_path(named, asked_by, configuration.environ)
                document = sources.load_tree(path, asked_by)
                configuration.add(_check_section(document, path, section), (section,))
        if section in sources.sections:
            configuration.add(_as_document(section, sources.sections[section]), (section,))
    _add_environment_settings(configuration)
    return configuration


def read_sweep(environ: Mapping[str, str]) -> list[Override]:
    """Read the values that a W&B agent wrote for this run, if it runs under one."""
    overrides = []
    for key, entry in _load_sweep_values(environ).items():
        if key not in WANDB_KEYS:
            value = entry["value"] if isinstance(entry, Mapping) and "value" in entry else entry
            overrides.append(Override(str(key), value, SWEEP, swept=True))
    return overrides


def _load_sweep_values(environ: Mapping[str, str]) -> dict[str, Any]:
    path = environ.get("WANDB_SWEEP_PARAM_PATH")
    if not path:
        return {}
    values: dict[str, Any] = load_mapping(Path(path), "WANDB_SWEEP_PARAM_PATH").values
    return values


def _is_requeued(sources: Sources) -> bool:
    """Tell whether W&B hands out its whole configuration, with what it has added of its own."""
    keys = {override.path[0] for override in sources.arguments}
    return REQUEUED in keys or REQUEUED in _load_sweep_values(sources.environ)


def _spread(overrides: Sequence[Override]) -> list[Override]:
    """Turn overrides with mappings as values into one override for each value within."""
    spread = []
    for override in overrides:
        if override.path[0] in WANDB_KEYS:
            continue
        path = canonical(override.path)
        value = require_plain(override.value, path)
        if path == ("model",) and isinstance(value, str) and not value.endswith(YAML_ENDINGS):
            # A model that is no description is one that has been trained.
            path = ("load",)
        filled = isinstance(value, dict) and value
        for inner, item in leaves(value) if filled else [((), value)]:
            key = join_key((*path, *inner))
            spread.append(dataclasses.replace(override, key=key, value=item))
    return spread


def _as_paths(value: Any) -> list[Path]:
    return [Path(item) for item in ([value] if isinstance(value, str) else value or ())]


def _named_by(key: str, configuration: Configuration) -> str:
    """Say what names a file: the flag, or the line of another file."""
    return configuration.where((key,)) if (key,) in configuration.origins else f"--{key}"


def _expand_path(named: Any, key: str, environ: Mapping[str, str]) -> Path:
    if not isinstance(named, str):
        raise ConfigError(f"{key} takes the path of a file, not {named!r}.")
    expanded, missing = expand_text(named, environ)
    if missing:
        raise VariableError(f"{key}: {named!r} needs the variable {missing[0]}, which is not set.")
    return Path(expanded.text)


def _add_environment_settings(configuration: Configuration) -> None:
    for variable, key in ENVIRONMENT_SETTINGS.items():
        value = configuration.environ.get(variable)
        if value:
            origin = Origin(f"environment variable {variable}")
            configuration.add(Document({key: value}, {(key,): origin}))


def _as_document(section: str, given: Mapping[str, Any]) -> Document:
    """Make a document of a mapping that Python code gives, without keeping a hold on it."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"The section {section!r} must be a mapping, not {given!r}.")
    values = require_plain(given, (section,))
    origin = Origin(f"argument {section}=")
    return Document(values, dict.fromkeys(_all_paths(values), origin))


def _all_paths(values: Any, path: KeyPath = ()) -> list[KeyPath]:
    inner = values.items() if isinstance(values, dict) else ()
    return [path, *(below for key, item in inner for below in _all_paths(item, (*path, key)))]


def _check_sectioned(document: Document, path: Path) -> Document:
    if isinstance(document.values.get("class"), str):
        raise ConfigError(
            f"{path} describes a single component: is it a file for --model_conf? In a file for "
            "--config it stands below its section, such as model:"
        )
    if "parameters" in document.values and "method" in document.values:
        raise ConfigError(
            f"{path} is a sweep: check it with `jade check`, register it with `jade sweep push`."
        )
    if "config" in document.values:
        origin = document.origins[("config",)]
        raise ConfigError(f"{origin}: a file includes others by default_configs, not by config.")
    for alias, name in ALIASES.items():
        _rename(document, alias, name, path)
    for name in SECTIONS:
        if not isinstance(document.values.get(name, {}), dict):
            where = document.origins.get((name,), path)
            hint = f" A file is named by {name}_conf: FILE." if f"{name}_conf" in FILES else ""
            raise ConfigError(
                f"{where}: the section {name!r} must be a mapping, "
                f"not {document.values[name]!r}.{hint}"
            )
    return document


def _take_slurm(document: Document) -> list[tuple[str, Any]]:
    """Take out the section about jobs."""
    if SECTION not in document.values:
        return []
    where = document.origins[(SECTION,)]
    for path in [path for path in document.origins if path[:1] == (SECTION,)]:
        del document.origins[path]
    return [(f"{where}: {SECTION}", document.values.pop(SECTION))]


def _rename(document: Document, alias: str, name: str, path: Path) -> None:
    if alias not in document.values:
        return
    if name in document.values:
        raise ConfigError(f"{path} has both {alias!r} and {name!r}, which mean the same.")
    document.values[name] = document.values.pop(alias)
    for old in [old for old in document.origins if old[:1] == (alias,)]:
        renamed = (name, *old[1:])
        document.origins[renamed] = document.origins.pop(old)


def _check_section(document: Document, path: Path, section: str) -> Document:
    flag = f"--{section}_conf"
    values = document.values
    if _is_described(values):
        if section != "model":
            raise ConfigError(
                f"{path}: {flag} holds descriptions by name. Write:\n"
                f"    {'train' if section == 'data' else 'MyName'}:\n"
                f"      class: {values['class']}\n      params: ...\n"
                "    (or is it a file for --model_conf?)"
            )
    elif section in values and not (section != "model" and _is_described(values[section])):
        raise ConfigError(
            f"{path} has a section {section!r} of its own: give it with --config, "
            f"or remove the line '{section}:' for {flag}."
        )
    elif section == "model" and values and all(_is_described(item) for item in values.values()):
        raise ConfigError(
            f"{path} holds descriptions by name ({', '.join(map(str, values))}): is it a file for "
            f"--data_conf or --eval_conf? {flag} takes the one description of the trainer."
        )
    return document


def _is_described(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("class"), str)


def freeze(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what reproduces a run: the sections and settings, without the files they came from."""
    left_out = (*FILES, *REQUESTS)
    return {key: copy.deepcopy(value) for key, value in values.items() if key not in left_out}
