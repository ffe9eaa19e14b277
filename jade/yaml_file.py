"""Read YAML into plain values, and remember the file and line of each of them."""

import copy
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from jade.errors import ConfigError, raise_all, suggest
from jade.origin import KeyPath
from jade.origin import Origin as Origin
from jade.scalar import has_leading_zero, parse_scalar
from jade.yaml_syntax import LINE_BREAK, explain

# Long text stays on one line: folding it would change what some readers see.
NEVER_FOLDED = 1_000_000
YAML_ENDINGS = (".yml", ".yaml")
# What is left of a YAML list whose dashes have no blank behind them: "-1024 -256".
GLUED_LIST = re.compile(r"-\S+(\s+-\S+)+")
DASH = re.compile(r"(?:^|\s)-\s*")


@dataclass
class Document:
    """The values of one YAML text, with the origin of each and what looked odd in it."""

    values: Any
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


PLAIN, TEXT = "plain", "tag:yaml.org,2002:str"
CONTAINERS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class _Composer(yaml.SafeLoader):
    """PyYAML's scanner and parser; scalars keep their text and are read by ``parse_scalar``."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """Tell bare text, which may be a number, from text that is quoted or tagged as such."""
        if kind is yaml.ScalarNode:
            return PLAIN if implicit[0] else TEXT
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]


class _Builder:
    """Turns composed nodes into values while noting origins and problems."""

    def __init__(self, source: str, text: str) -> None:
        self.document = Document(None)
        self.problems: list[str] = []
        self._source = source
        self._lines = LINE_BREAK.split(text)
        self._open: set[int] = set()

    def build(self, node: yaml.Node, path: KeyPath, key_line: int | None = None) -> Any:
        self.document.origins[path] = self._origin(node)
        if id(node) in self._open:
            self._complain(node, "an anchor that contains itself cannot be used here")
            return None
        if node.tag not in (PLAIN, TEXT, *CONTAINERS):
            self._complain(node, f"the tag {node.tag!r} is not supported")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
            return self._scalar(cast(yaml.ScalarNode, node), path, key_line)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[Any, Any]:
        merged: dict[Any, Any] = {}
        own: dict[Any, Any] = {}
        lines: dict[Any, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key == "<<" and key_node.tag == PLAIN:
                merged = {**self._merge_key(value_node, path), **merged}
                continue
            line = key_node.start_mark.line + 1
            if key in lines:
                self._complain(key_node, f"the key {key!r} stands here and in line {lines[key]}")
            lines[key] = line
            below = (*path, key)
            own[key] = self.build(value_node, below, line)
            self.document.origins[below] = Origin(self._source, line)
        return {**merged, **own}

    def _merge_key(self, node: yaml.Node, path: KeyPath) -> dict[Any, Any]:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[Any, Any] = {}
        for part in reversed(parts):
            if isinstance(part, yaml.MappingNode):
                merged.update(self._mapping(part, path))
            else:
                self._complain(part, "'<<' takes a mapping or a list of mappings")
        return merged

    def _key(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return parse_scalar(node.value) if node.tag == PLAIN else node.value
        self._complain(node, "a key must be a plain value, not a list or a mapping")
        return None

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath, key_line: int | None) -> Any:
        text = str(node.value)
        if node.tag != PLAIN:
            return text
        if self._is_glued(node, key_line):
            self._complain_of_dashes(node, path)
        if text == "None":
            self._warn(node, "None is read as null; write null, or 'None' for the text.")
            return None
        if has_leading_zero(text):
            number = int(text)
            self._warn(node, f"{text} is read as {number}; write that, or '{text}' for the text.")
        return parse_scalar(text)

    def _is_glued(self, node: yaml.ScalarNode, key_line: int | None) -> bool:
        """Tell whether a list was meant, of which some dash has no blank behind it."""
        first, last = node.start_mark.line, node.end_mark.line
        begins_line = not self._lines[first][: node.start_mark.column].strip()
        below_key = key_line is not None and first + 1 > key_line and begins_line
        if below_key and node.value.startswith("-"):
            return True
        continued = self._lines[first + 1 : last + 1]
        return bool(
            GLUED_LIST.fullmatch(node.value)
            or any(line.lstrip().startswith("-") for line in continued)
        )

    def _complain_of_dashes(self, node: yaml.ScalarNode, path: KeyPath) -> None:
        name = next((str(part) for part in reversed(path) if isinstance(part, str)), "key")
        parts = [part for part in DASH.split(node.value) if part]
        items = "".join(f"\n      - {part}" for part in parts)
        other = "quote the text, if text is meant"
        if len(parts) == 1 and isinstance(parse_scalar(node.value), (int, float)):
            other = f"for the number write {name}: {node.value} on one line"
        self._complain(
            node,
            f"{node.value!r} is not a list: a blank must follow each dash. "
            f"Write:\n    {name}:{items}\n    ({other})",
        )

    def _warn(self, node: yaml.Node, what: str) -> None:
        self.document.warnings.append(f"{self._origin(node)}: {what}")

    def _origin(self, node: yaml.Node) -> Origin:
        return Origin(self._source, node.start_mark.line + 1)

    def _complain(self, node: yaml.Node, what: str) -> None:
        self.problems.append(f"{self._origin(node)}: {what}.")


def parse(text: str, source: str) -> Document:
    """Parse one YAML document; every problem in it is in the one error that is raised."""
    kept = _parse(text, source)
    # The caller may change what it gets.
    return Document(copy.deepcopy(kept.values), dict(kept.origins), list(kept.warnings))


# The runs of a sweep read the same files, and are forked from a process that has read them.
@functools.lru_cache(maxsize=64)
def _parse(text: str, source: str) -> Document:
    try:
        node = yaml.compose(text, Loader=_Composer)
    except yaml.YAMLError as error:
        raise ConfigError(explain(error, source, text)) from error
    if node is None:
        return Document(None)
    builder = _Builder(source, text)
    builder.document.values = builder.build(node, ())
    raise_all(builder.problems)
    return builder.document


def load(path: Path, asked_by: str = "") -> Document:
    """Load a YAML file; a file that is missing, empty, a folder or not text is a ConfigError.

    ``asked_by`` is the flag that names the file, for the message.
    """
    shown = f"{asked_by}: {path}" if asked_by else str(path)
    if path.is_dir():
        raise ConfigError(f"{shown} is a directory; a YAML file is needed.{_inside(path)}")
    if path.suffix == ".py":
        raise ConfigError(f"{shown} is a Python file; a YAML file is needed.")
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"{shown} does not exist.{_neighbours(path)}") from error
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror}.") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{shown} is not a text file (byte {error.start} is no UTF-8)."
        ) from error
    if "\0" in text:
        raise ConfigError(f"{shown} is not a text file (it contains NUL bytes).")
    document = parse(text, str(path))
    if document.values is None:
        raise ConfigError(f"{shown} is empty.")
    return document


def load_mapping(path: Path, asked_by: str = "") -> Document:
    """Load a YAML file that must hold a mapping at its top."""
    document = load(path, asked_by)
    if not isinstance(document.values, dict):
        got = "a list" if isinstance(document.values, list) else repr(document.values)[:60]
        raise ConfigError(f"{path}:1: expected a mapping (key: value), not {got}.")
    return document


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f" There is no folder {path.parent} (the working directory is {Path.cwd()})."
    return suggest(path.name, _yaml_files(path.parent))


def _inside(folder: Path) -> str:
    names = ", ".join(str(folder / name) for name in _yaml_files(folder)[:5])
    return f" It holds {names}." if names else ""


def _yaml_files(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir() if item.suffix in YAML_ENDINGS)


class _Dumper(yaml.SafeDumper):
    """Writes text so that ``parse`` reads the same values again."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the name and type are PyYAML's

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    ambiguous = parse_scalar(text) != text or text in ("None", "<<") or text.startswith("-")
    ambiguous = ambiguous or _differs_in_yaml_1_1(text)
    # Double quotes keep a text with line breaks on one line, where a comment can follow it.
    style = '"' if LINE_BREAK.search(text) else "'" if ambiguous else None
    return dumper.represent_scalar(TEXT, text, style=style)


# The same names and texts are written again and again, each time at the cost of a whole parser.
@functools.lru_cache(maxsize=4096)
def _differs_in_yaml_1_1(text: str) -> bool:
    """Tell whether other readers of the file would take the bare text for something else."""
    try:
        return bool(yaml.safe_load(text) != text)
    except (yaml.YAMLError, ValueError):
        return True


def _represent_plain(dumper: yaml.SafeDumper, value: Any) -> yaml.Node:
    # Written under the string tag: with no implicit resolvers any other tag would be spelled out.
    text = "null" if value is None else str(value).lower()
    if isinstance(value, float):
        text = text.replace("inf", ".inf").replace("nan", ".nan")
        # Readers of YAML 1.1 need the dot: to them 1e-05 is text.
        text = re.sub(r"^(-?[0-9]+)e", r"\1.0e", text)
    return dumper.represent_scalar(TEXT, text)


_Dumper.add_representer(str, _represent_text)
for _type in (type(None), bool, int, float):
    _Dumper.add_representer(_type, _represent_plain)
_Dumper.add_representer(tuple, lambda dumper, value: dumper.represent_list(list(value)))


def render(values: Mapping[Any, Any], *, header: Iterable[str] = ()) -> str:
    """Render values as YAML which ``parse`` reads back unchanged."""
    # One after another: of two runs of a sweep, most entries are the same.
    entries = [_Entry({key: value}) for key, value in values.items()] or [_Entry({})]
    return "".join([*(f"# {line}\n" for line in header), *map(_render_entry, entries)])


class _Entry:
    """A part of a mapping, which is the same as another one that is written in the same way."""

    def __init__(self, values: Mapping[Any, Any]) -> None:
        self.values = values
        # Not the values themselves: to Python 1, 1.0 and True are equal.
        self._text = repr(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Entry) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


@functools.lru_cache(maxsize=1024)
def _render_entry(entry: _Entry) -> str:
    return yaml.dump(
        entry.values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=NEVER_FOLDED
    )
