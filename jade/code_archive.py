"""Unpack the code of a run from a zip that nobody vouches for."""

import shutil
import zipfile
from pathlib import Path, PurePosixPath

from jade.errors import CheckpointError
from jade.whole_file import ASIDE

# Far more than any project has; what is larger was not written by JADE.
MAX_MEMBERS = 10_000
MAX_TEXT_BYTES = 50_000_000
MAX_BYTES = 500_000_000


def is_plain_name(name: str) -> bool:
    """Tell whether a name of a member is that of a file below the folder that it is unpacked to."""
    path = PurePosixPath(name)
    is_plain = not path.is_absolute() and path.as_posix() == name and ".." not in path.parts
    return bool(name) and is_plain and not set(name) & set("\\:\0")


def unpack_code(path: Path, folder: Path) -> None:
    """Unpack a zip to a folder, which is there whole afterwards, or as it was before.

    Raises:
        CheckpointError: It is damaged, or holds what JADE would not have written.
    """
    aside = folder.with_name(f".{folder.name}{ASIDE}")
    former = folder.with_name(f".{folder.name}.former{ASIDE}")
    for leftover in (aside, former):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        _unpack(path, aside)
        if folder.is_dir():
            folder.replace(former)
        aside.replace(folder)
    finally:
        for leftover in (aside, former):
            shutil.rmtree(leftover, ignore_errors=True)


def _unpack(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            problem = _problem_of(members)
            if problem:
                raise CheckpointError(f"{path.name} is refused: {problem}.")
            for member in members:
                target = folder / member.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                # What a member says of its size is checked here, while it is read.
                with archive.open(member) as source:
                    content = source.read(member.file_size + 1)
                if len(content) != member.file_size:
                    raise CheckpointError(f"{path.name} is refused: {member.filename} is longer.")
                target.write_bytes(content)
    except (zipfile.BadZipFile, OSError, RuntimeError, EOFError, NotImplementedError) as error:
        raise CheckpointError(f"{path.name} cannot be unpacked: {error}.") from error


def _problem_of(members: list[zipfile.ZipInfo]) -> str | None:
    if len(members) > MAX_MEMBERS or sum(m.file_size for m in members) > MAX_BYTES:
        return f"it has {len(members):,} members, too many or too large for the code of a run"
    names = set()
    for member in members:
        name = member.filename
        if not is_plain_name(name):
            return f"the name of {name!r} leads out of the folder of the code"
        if member.file_size > MAX_TEXT_BYTES:
            return f"{name} has {member.file_size:,} bytes"
        if name in names:
            return f"{name} is in it twice"
        names.add(name)
    return None
