"""Read YAML into plain values, and remember the file and line of each of them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from jade.errors import ConfigError

KeyPath = tuple[Any, ...]

NULL = re.compile(r"~|null|Null|NULL|")
BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
# What is left of a YAML list whose dashes have no blank behind them: "-1024 -256".
GLUED_LIST = re.compile(r"-\S+(\s+-\S+)+")
NEGATIVE_NUMBER = re.compile(r"-[0-9.]+([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class Origin:
    """Where a value was written."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass
class Document:
    """The values of one YAML text, with the origin of each and what looked odd in it."""

    values: Any
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def parse_scalar(text: str) -> Any:
    """Parse an unquoted scalar by the rules of YAML 1.2: ``1e-4`` is a number, ``on`` is text."""
    if NULL.fullmatch(text):
        return None
    if BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if INTEGER.fullmatch(text):
        return int(text, 10) if text.lstrip("+-").isdigit() else int(text, 0)
    if FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


class _Composer(yaml.SafeLoader):
    """PyYAML's scanner and parser; scalars keep their text and are read by ``parse_scalar``."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the name and type are PyYAML's


class _Builder:
    """Turns composed nodes into values while noting origins and problems."""

    def __init__(self, source: str) -> None:
        self.document = Document(None)
        self.problems: list[str] = []
        self._source = source
        self._open: set[int] = set()

    def build(self, node: yaml.Node, path: KeyPath, key_line: int | None = None) -> Any:
        self.document.origins[path] = self._origin(node)
        if id(node) in self._open:
            self._complain(node, "an anchor that contains itself cannot be used here")
            return None
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
            if key == "<<" and key_node.style is None:
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
            return parse_scalar(node.value) if node.style is None else node.value
        self._complain(node, "a key must be a plain value, not a list or a mapping")
        return None

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath, key_line: int | None) -> Any:
        text = str(node.value)
        if not node.tag.startswith("tag:yaml.org,2002:"):
            self._complain(node, f"the tag {node.tag!r} is not supported")
        if node.style is not None:
            return text
        self._check_dashes(node, path, key_line)
        if text == "None":
            self.document.warnings.append(
                f"{self._origin(node)}: None is read as null; write null, or 'None' for the text."
            )
            return None
        return parse_scalar(text)

    def _check_dashes(self, node: yaml.Node, path: KeyPath, key_line: int | None) -> None:
        text = str(node.value)
        below_its_key = key_line is not None and node.start_mark.line + 1 > key_line
        glued = GLUED_LIST.fullmatch(text)
        if glued or (below_its_key and NEGATIVE_NUMBER.fullmatch(text)):
            name = next((str(part) for part in reversed(path) if isinstance(part, str)), "key")
            items = "".join(f"\n      - {item[1:]}" for item in text.split())
            self._complain(
                node,
                f"{text!r} is not a list: a blank must follow each dash. "
                f"Write:\n    {name}:{items}\n    (or quote the text, if text is meant)",
            )

    def _origin(self, node: yaml.Node) -> Origin:
        return Origin(self._source, node.start_mark.line + 1)

    def _complain(self, node: yaml.Node, what: str) -> None:
        self.problems.append(f"{self._origin(node)}: {what}.")


def parse(text: str, source: str) -> Document:
    """Parse one YAML document; every problem in it is in the one error that is raised."""
    try:
        node = yaml.compose(text, Loader=_Composer)
    except yaml.YAMLError as error:
        raise ConfigError(_syntax_message(error, source, text)) from error
    if node is None:
        return Document(None)
    builder = _Builder(source)
    builder.document.values = builder.build(node, ())
    if builder.problems:
        raise ConfigError("\n".join(builder.problems))
    return builder.document


def _syntax_message(error: yaml.YAMLError, source: str, text: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if mark is None:
        return f"{source}: {problem}."
    lines = text.splitlines()
    shown = lines[mark.line].rstrip() if mark.line < len(lines) else ""
    hint = ""
    if "\t" in shown:
        hint = " YAML does not allow tabs for indentation: use blanks."
    elif "mapping values are not allowed" in problem:
        hint = " Is the line, or the one above, indented wrongly?"
    elif "expected <block end>" in problem:
        hint = " Keys of one mapping must start in the same column."
    return f"{source}:{mark.line + 1}: {problem}.{hint}\n    {shown}"


def load(path: Path) -> Document:
    """Load a YAML file; a file that is missing, empty, a folder or not text is a ConfigError."""
    if path.is_dir():
        raise ConfigError(f"{path} is a directory; a YAML file is needed.")
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist.{_neighbours(path)}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file (byte {error.start} is no UTF-8).") from error
    if "\0" in text:
        raise ConfigError(f"{path} is not a text file (it contains NUL bytes).")
    document = parse(text, str(path))
    if document.values is None:
        raise ConfigError(f"{path} is empty.")
    return document


def load_mapping(path: Path) -> Document:
    """Load a YAML file that must hold a mapping at its top."""
    document = load(path)
    if not isinstance(document.values, dict):
        kind = type(document.values).__name__
        raise ConfigError(f"{path}:1: expected a mapping (key: value), got a {kind}.")
    return document


def _neighbours(path: Path) -> str:
    from jade.errors import suggest

    if not path.parent.is_dir():
        return f" There is no folder {path.parent} (the working directory is {Path.cwd()})."
    names = [item.name for item in path.parent.iterdir() if item.suffix == path.suffix]
    return suggest(path.name, names)


class _Dumper(yaml.SafeDumper):
    """Writes text so that ``parse`` reads the same values again."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the name and type are PyYAML's

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    ambiguous = parse_scalar(text) != text or text in ("None", "<<") or text.startswith("-")
    ambiguous = ambiguous or _differs_in_yaml_1_1(text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if ambiguous else None)


def _differs_in_yaml_1_1(text: str) -> bool:
    """Tell whether other readers of the file would take the bare text for something else."""
    try:
        return bool(yaml.safe_load(text) != text)
    except yaml.YAMLError:
        return False


def _represent_plain(dumper: yaml.SafeDumper, value: Any) -> yaml.Node:
    # Written under the string tag: with no implicit resolvers any other tag would be spelled out.
    text = {None: "null", True: "true", False: "false"}.get(value) if _is_constant(value) else None
    if isinstance(value, float):
        text = repr(value).replace("inf", ".inf").replace("nan", ".nan")
        # Readers of YAML 1.1 need the dot: to them 1e-05 is text.
        text = re.sub(r"^(-?[0-9]+)e", r"\1.0e", text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text or repr(value))


def _is_constant(value: Any) -> bool:
    return value is None or isinstance(value, bool)


_Dumper.add_representer(str, _represent_text)
for _type in (type(None), bool, int, float):
    _Dumper.add_representer(_type, _represent_plain)
_Dumper.add_representer(tuple, lambda dumper, value: dumper.represent_list(list(value)))


def render(values: Mapping[Any, Any], *, header: Iterable[str] = ()) -> str:
    """Render values as YAML which ``parse`` reads back unchanged."""
    text = yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return "".join(f"# {line}\n" for line in header) + text
