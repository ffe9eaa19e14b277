"""Write and read model files: weights, code, configuration and where they come from, in one zip."""

import hashlib
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from jade import yaml_file
from jade.checkpoint import FORMAT as STATE_FORMAT
from jade.checkpoint import restored, storable
from jade.code_archive import MAX_MEMBERS, MAX_TEXT_BYTES, is_plain_name
from jade.errors import CheckpointError, ConfigError, suggest
from jade.whole_file import whole_file

SUFFIX = ".jade"
FORMAT = 1
MANIFEST, CONFIG, FACTS, WEIGHTS = "manifest.json", "config.yml", "facts.json", "weights.pt"
CODE = "code/"
CHUNK_BYTES = 1 << 20


def write_model(
    path: Path,
    *,
    state: Mapping[str, Any],
    config: Mapping[str, Any],
    facts: Mapping[str, Any],
    sources: Mapping[str, bytes],
) -> None:
    """Write a model file, whole or not at all.

    Args:
        path: The file.
        state: What ``torch.load(weights_only=True)`` can read: the trainer's state and counters.
        config: The configuration, with variables as they were written.
        facts: What else there is to say, as values for JSON.
        sources: The contents of the code files by name.
    """
    texts = {
        CONFIG: yaml_file.render(config).encode(),
        FACTS: (json.dumps(facts, indent=1) + "\n").encode(),
        **{f"{CODE}{name}": content for name, content in sources.items()},
    }
    try:
        with whole_file(path, durable=True) as file, zipfile.ZipFile(file, "w") as archive:
            digests = {name: _add(archive, name, content) for name, content in texts.items()}
            digests[WEIGHTS] = _add_state(archive, state)
            manifest = {"format": FORMAT, "members": digests}
            archive.writestr(MANIFEST, json.dumps(manifest, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}.") from error


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> str:
    archive.writestr(zipfile.ZipInfo(name), content)
    return hashlib.sha256(content).hexdigest()


def _add_state(archive: zipfile.ZipFile, state: Mapping[str, Any]) -> str:
    content = {"format": STATE_FORMAT, **storable(state, "model")}
    # Weights may be larger than what a zip holds without being told.
    with archive.open(zipfile.ZipInfo(WEIGHTS), "w", force_zip64=True) as member:
        hashing = _HashingWriter(member)
        torch.save(content, hashing)  # type: ignore[arg-type]
        return hashing.hexdigest()


class _HashingWriter:
    """A file to write to that knows the digest of what was written."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        written: int = self._file.write(data)
        return written

    def flush(self) -> None:
        self._file.flush()

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


class ModelFile:
    """A model file of which every member is known to be whole; nothing in it is executed.

    Raises:
        ConfigError: There is no such file, or it is not a model file.
        CheckpointError: It is damaged; the message names the member.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as archive:
            self._digests = self._read_manifest(archive)
            self._check_members(archive)
            for name in self._digests:
                # The weights are read when they are asked for, and compared again then.
                self._read(archive, name, keep=False)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The configuration, with variables as they were written."""
        text = self.read(CONFIG).decode()
        values: dict[str, Any] = yaml_file.parse(text, f"{self.path}:{CONFIG}").values
        return values

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What else there is to say."""
        facts: dict[str, Any] = json.loads(self.read(FACTS))
        return facts

    @cached_property
    def sources(self) -> dict[str, bytes]:
        """The contents of the code files by name."""
        names = [name for name in self._digests if name.startswith(CODE)]
        return {name.removeprefix(CODE): self.read(name) for name in names}

    def load_state(self, device: str | torch.device = "cpu") -> dict[str, Any]:
        """Load the trainer's state and counters."""
        content = io.BytesIO(self.read(WEIGHTS))
        try:
            state: Any = torch.load(content, map_location=device, weights_only=True)
        except Exception as error:
            raise self._damaged(WEIGHTS, str(error)) from error
        return dict(restored(state))

    def read(self, name: str) -> bytes:
        """Return the content of a member, which is what it was when the file was written."""
        with self._opened() as archive:
            return self._read(archive, name, keep=True)

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except FileNotFoundError as error:
            folder = self.path.parent
            near = [item.name for item in folder.glob(f"*{SUFFIX}")] if folder.is_dir() else []
            hint = suggest(self.path.name, near)
            raise ConfigError(f"There is no model file {self.path}.{hint}") from error
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read: {error.strerror or error}.") from error
        except zipfile.BadZipFile as error:
            raise CheckpointError(f"{self.path} is damaged, or no model file: {error}.") from error

    def _read_manifest(self, archive: zipfile.ZipFile) -> dict[str, str]:
        if MANIFEST not in archive.namelist():
            raise ConfigError(f"{self.path} is not a model file: it has no {MANIFEST}.")
        try:
            manifest = json.loads(self._content(archive, MANIFEST))
            version, members = manifest["format"], dict(manifest["members"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(MANIFEST, str(error)) from error
        if version != FORMAT:
            raise ConfigError(
                f"{self.path} has the format {version!r}; this version of JADE reads {FORMAT}."
            )
        return members

    def _check_members(self, archive: zipfile.ZipFile) -> None:
        """Refuse what JADE does not write: other names, compression, places outside a folder."""
        entries = [entry for entry in archive.infolist() if entry.filename != MANIFEST]
        names = Counter(entry.filename for entry in entries)
        if len(entries) > MAX_MEMBERS:
            raise CheckpointError(f"{self.path} is refused: it has {len(entries):,} members.")
        if sum(entry.file_size for entry in entries) > self.path.stat().st_size:
            raise CheckpointError(f"{self.path} is damaged: its members are larger than itself.")
        for name in (CONFIG, FACTS, WEIGHTS, *self._digests):
            if name not in names or name not in self._digests:
                raise self._damaged(name, "it is missing")
        for entry in entries:
            problem = self._problem_of(entry, names)
            if problem:
                raise self._damaged(entry.filename, problem)

    def _problem_of(self, entry: zipfile.ZipInfo, names: Counter[str]) -> str | None:
        name = entry.filename
        if name not in self._digests or names[name] > 1:
            return "it does not belong there"
        if not _is_safe(name):
            return "its name leads out of the folder of the code"
        # Nothing is compressed, so that nothing can be larger than the file that it comes in.
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            return "it is compressed or encrypted"
        if name != WEIGHTS and entry.file_size > MAX_TEXT_BYTES:
            return f"it has {entry.file_size:,} bytes"
        return None

    def _read(self, archive: zipfile.ZipFile, name: str, *, keep: bool) -> bytes:
        """Read a member, and compare its digest."""
        digest, kept = hashlib.sha256(), []
        for chunk in self._chunks(archive, name):
            digest.update(chunk)
            if keep:
                kept.append(chunk)
        if digest.hexdigest() != self._digests.get(name):
            raise self._damaged(name, "its content has changed")
        return b"".join(kept)

    def _content(self, archive: zipfile.ZipFile, name: str) -> bytes:
        if archive.getinfo(name).file_size > MAX_TEXT_BYTES:
            raise self._damaged(name, "it is too large")
        return b"".join(self._chunks(archive, name))

    def _chunks(self, archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
        try:
            with archive.open(name) as member:
                while chunk := member.read(CHUNK_BYTES):
                    yield chunk
        except (zipfile.BadZipFile, KeyError, RuntimeError, EOFError, NotImplementedError) as error:
            raise self._damaged(name, str(error)) from error

    def _damaged(self, name: str, reason: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is damaged: {name} is refused, {reason}.")


def _is_safe(name: str) -> bool:
    """Tell whether a member is one of ours, or a file below the folder of the code."""
    if name in (CONFIG, FACTS, WEIGHTS):
        return True
    return name.startswith(CODE) and is_plain_name(name.removeprefix(CODE))


def unpack_sources(sources: Mapping[str, bytes], folder: Path) -> None:
    """Write code files to a folder."""
    for name, content in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def is_model_file(path: Path) -> bool:
    """Tell by its name whether a file is a model file."""
    return path.suffix == SUFFIX
