"""Say where a run comes from: command, code, packages and machine, without any secret."""

import contextlib
import functools
import logging
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from jade.whole_file import whole_file

DIFF_LIMIT_BYTES = 1_000_000
GIT_TIMEOUT_S = 10.0
# Job and sweep ids; the environment as a whole is full of secrets and is never stored.
ID_VARIABLES = (
    "SLURM_JOB_ID",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_RESTART_COUNT",
    "WANDB_SWEEP_ID",
)
# Files that hold secrets by custom, and so are left out of the stored diff.
SECRET_FILES = (".env", ".env.*", ".envrc", ".netrc", "*.pem", "*.key")
# What git compares with when there is no commit: the tree without files, known to every git.
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

MASK = "***"
SECRET_WORD = r"(?:key|token|secret|passw(?:or)?d|passphrase|credential)[\w.\-]*"  # noqa: S105
SECRET_NAME = re.compile(rf"[\w.\-]*?{SECRET_WORD}", re.IGNORECASE)
SECRET_VALUE = re.compile(
    rf"""({SECRET_WORD}["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,}}\])]+)""", re.IGNORECASE
)
URL_PASSWORD = re.compile(r"(://[^/:@\s]*:)[^/@\s]+(?=@)")

INFO_NAME = re.compile(
    r"(?P<name>[^~].*?)(?:-(?P<version>\d[^-]*))?(?:-py[\d.]+)?\.(dist|egg)-info"
)

logger = logging.getLogger(__name__)


class Provenance:
    """Collect in the background, because git may take its time; see ``collect``."""

    def __init__(
        self,
        command: Sequence[str],
        seed: int | None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._values: dict[str, Any] = {
            "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "command": mask_secrets(command),
            "directory": str(Path.cwd()),
            "seed": seed,
            "ids": {name: os.environ[name] for name in ID_VARIABLES if os.environ.get(name)},
        }
        self._extra = dict(extra or {})
        self._git: dict[str, Any] | None = None
        self._thread = threading.Thread(target=self._ask_git, name="jade-provenance", daemon=True)

    def start(self) -> "Provenance":
        """Begin to ask git; return at once."""
        self._thread.start()
        return self

    def result(self) -> dict[str, Any]:
        """Return all that is known, as values for JSON; wait for git, for a limited time."""
        machine = {**describe_machine(), "packages": find_packages()}
        # git is killed when it takes too long; what it started itself may still hold the pipe.
        self._thread.join(3 * GIT_TIMEOUT_S)
        return {
            # Not imported: for the check of layers that would be an import of all of JADE.
            "jade": sys.modules["jade"].__version__,
            **self._values,
            "git": self._git,
            **machine,
            **self._extra,
        }

    def _ask_git(self) -> None:
        try:
            self._git = describe_git(Path(self._values["directory"]))
        except Exception:
            logger.warning("The state of the git repository is not recorded.", exc_info=True)


def collect(
    command: Sequence[str], seed: int | None, extra: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return where a run comes from, as values for JSON.

    Args:
        command: The command line; what looks like a secret in it is masked.
        seed: The seed of the run.
        extra: More to store, as it is.
    """
    return Provenance(command, seed, extra).start().result()


def mask_secrets(command: Sequence[str]) -> list[str]:
    """Return the arguments with the values of keys, tokens, secrets and passwords masked."""
    masked = []
    follows_secret_flag = False
    for argument in command:
        is_value = follows_secret_flag and not argument.startswith("--")
        masked.append(MASK if is_value else _mask_inside(argument))
        follows_secret_flag = argument.startswith("-") and bool(SECRET_NAME.fullmatch(argument))
    return masked


def _mask_inside(argument: str) -> str:
    name, separator, _ = argument.partition("=")
    if separator and SECRET_NAME.fullmatch(name):
        # The value may hold anything, spaces too.
        return f"{name}={MASK}"
    return URL_PASSWORD.sub(rf"\1{MASK}", SECRET_VALUE.sub(rf"\1{MASK}", argument))


def describe_git(directory: Path) -> dict[str, Any] | None:
    """Return commit, branch and what differs from the commit; None outside a repository.

    The contents of untracked files are not stored, only their names.
    """
    status = _run_git(["status", "--porcelain=v2", "--branch", "-z"], directory)
    if status is None:
        return None
    headers, is_dirty, untracked = _parse_status(status.text)
    commit = headers.get("branch.oid", "(initial)")
    branch = headers.get("branch.head", "(detached)")
    has_commit = commit != "(initial)"
    values: dict[str, Any] = {
        "commit": commit if has_commit else None,
        "branch": branch if branch != "(detached)" else None,
        "dirty": is_dirty,
        "untracked": untracked,
        "diff": None,
    }
    if is_dirty:
        values |= _describe_diff("HEAD" if has_commit else EMPTY_TREE, directory)
    return values


def _describe_diff(base: str, directory: Path) -> dict[str, str]:
    command = ["diff", base, "--no-color", "--no-ext-diff", "--no-textconv", "--", ":(top)"]
    secrets = [f":(top,exclude,glob)**/{name}" for name in SECRET_FILES]
    diff = _run_git([*command, *secrets], directory)
    if diff is None:
        return {"diff_note": f"git gave no diff within {GIT_TIMEOUT_S:g} seconds."}
    note = {"diff_note": f"Cut after {DIFF_LIMIT_BYTES:,} bytes."} if diff.is_cut else {}
    return {"diff": diff.text, **note}


def _parse_status(text: str) -> tuple[dict[str, str], bool, list[str]]:
    """Return headers, whether a tracked file changed, and the untracked files."""
    headers: dict[str, str] = {}
    untracked: list[str] = []
    is_dirty = False
    entries = iter(text.split("\0"))
    for entry in entries:
        kind, _, rest = entry.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif kind == "?":
            untracked.append(rest)
        elif kind:
            is_dirty = True
            if kind == "2":
                # The former path of a renamed file is an entry of its own.
                next(entries, None)
    return headers, is_dirty, untracked


class GitOutput(NamedTuple):
    """What git wrote, perhaps cut."""

    text: str
    is_cut: bool


def _run_git(arguments: Sequence[str], directory: Path) -> GitOutput | None:
    """Return what git answers within the limits of time and size; None if it fails."""
    import subprocess

    # Many runs may start at once: none of them may lock the index or start a daemon.
    options = ["-c", "core.fsmonitor=false"]
    try:
        process = subprocess.Popen(
            ["git", *options, *arguments],
            cwd=directory,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    deadline = threading.Timer(GIT_TIMEOUT_S, process.kill)
    deadline.daemon = True
    deadline.start()
    with process:
        output = process.stdout.read(DIFF_LIMIT_BYTES + 1) if process.stdout else b""
    is_cut = len(output) > DIFF_LIMIT_BYTES
    deadline.cancel()
    if process.returncode != 0 and not is_cut:
        return None
    return GitOutput(output[:DIFF_LIMIT_BYTES].decode(errors="replace"), is_cut)


def describe_machine() -> dict[str, Any]:
    """Return the python, the system and the hardware of this machine, as values for JSON."""
    import platform

    return {
        "python": f"{platform.python_version()} ({sys.implementation.name})",
        "platform": platform.platform(),
        "host": platform.node(),
        "cpu": {
            "model": _cpu_model(),
            "count": os.cpu_count(),
            "available": _num_available_cpus(),
        },
        "memory_bytes": _memory_bytes(),
    }


def _cpu_model() -> str | None:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return os.uname().machine if hasattr(os, "uname") else None


def _num_available_cpus() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def find_packages(path: Sequence[str] | None = None) -> dict[str, str]:
    """Return the versions of the installed distributions by normalised name, sorted.

    They are read off the names of the metadata folders: ``importlib.metadata`` parses every file
    in them, which takes a hundred times longer. As there, the first folder of the path wins.
    """
    packages: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path if path is None else path):
        where = Path(folder or ".").absolute()
        with contextlib.suppress(OSError):
            for name, version in _find_distributions(where, where.stat().st_mtime_ns):
                packages.setdefault(name, version)
    return dict(sorted(packages.items()))


# Who installs or removes anything changes the folder; until then it need not be read again.
@functools.lru_cache(maxsize=64)
def _find_distributions(folder: Path, changed_ns: int) -> list[tuple[str, str]]:  # noqa: ARG001
    return sorted(_scan_distributions(folder))


def _scan_distributions(folder: Path) -> Iterator[tuple[str, str]]:
    for entry in os.listdir(folder):  # noqa: PTH208 - a list of names is all we need
        match = INFO_NAME.fullmatch(entry)
        if match is None:
            continue
        version = match["version"] or _read_version(folder / entry)
        if version:
            yield re.sub(r"[-_.]+", "-", match["name"]).lower(), version


def _read_version(info: Path) -> str | None:
    """Return the version that a metadata folder without one in its name declares."""
    for name in ("METADATA", "PKG-INFO"):
        try:
            text = (info / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        match = re.search(r"^Version:\s*(\S+)", text, re.MULTILINE)
        return match[1] if match else None
    return None


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write the values whole or not at all; what JSON does not know is written as its text."""
    import json

    # ASCII, because an argument may hold bytes that are no text in any encoding.
    text = json.dumps(values, indent=2, default=str) + "\n"
    with whole_file(path, durable=True) as file:
        file.write(text.encode("ascii"))


def snapshot_code(
    files: Iterable[Path], directory: Path, root: Path, packages: Sequence[Path] = ()
) -> list[Path]:
    """Copy the files and the ``__init__.py`` of their packages to ``directory``; list the copies.

    Files below ``root`` keep their place there. Others go to ``external/``, with their package
    if they have one (or if it is one of ``packages``); where two folders would mix there, the
    later one (by path) goes to ``external/2/``, and so on. Give all files at once: the next call
    knows nothing of this one.
    """
    targets = place_code(files, root, packages)
    return sorted(
        directory / target
        for target, source in targets.items()
        if _copy(source, directory / target)
    )


def place_code(
    files: Iterable[Path], root: Path, packages: Sequence[Path] = ()
) -> dict[Path, Path]:
    """Return the place in a snapshot of each file to copy, with the file; see ``snapshot_code``."""
    targets: dict[Path, Path] = {}
    outside: dict[Path, list[Path]] = {}
    for source in sorted({_normalise(file) for file in files}):
        file, base = _locate(source, root, packages)
        found = [file, *_package_files(file, base)]
        if base in (_normalise(root), root.resolve()):
            targets.update({item.relative_to(base): item for item in found})
        else:
            outside.setdefault(base, []).extend(found)
    for base, sources in sorted(outside.items()):
        _place_external({source.relative_to(base): source for source in sources}, targets)
    return targets


def find_in_snapshot(
    targets: Mapping[Path, Path], roots: Sequence[Path], architecture_file: Path | None
) -> dict[str, Any]:
    """Return what a snapshot must be told to be used: values for JSON.

    Args:
        targets: As ``place_code`` returns them.
        roots: The folders of modules.
        architecture_file: The file with the architectures.

    Returns:
        Where in the snapshot the modules and the architectures are, and where the files came from
        that were not part of the project.
    """
    sources = {source.resolve(): target for target, source in targets.items()}
    modules: list[str] = []
    for root in roots:
        inner = [source for source in sources if source.is_relative_to(root)]
        if inner:
            depth = len(inner[0].relative_to(root).parts)
            modules.append(sources[inner[0]].parents[depth - 1].as_posix())
    arch_impl = sources.get(architecture_file.resolve()) if architecture_file else None
    return {
        "modules": modules,
        "arch_impl": arch_impl.as_posix() if arch_impl else None,
        "external": {
            target.as_posix(): str(source)
            for target, source in targets.items()
            if target.parts[0] == "external"
        },
    }


def _place_external(sources: Mapping[Path, Path], targets: dict[Path, Path]) -> None:
    """Add one folder's files to the targets, below the first folder where none is taken."""
    folder = Path("external")
    number = 2
    while any(folder / relative in targets for relative in sources):
        folder = Path("external", str(number))
        number += 1
    targets.update({folder / relative: source for relative, source in sources.items()})


def _normalise(path: Path) -> Path:
    # Symbolic links stay: a linked folder below the root belongs to the project.
    return Path(os.path.normpath(path.absolute()))


def _locate(source: Path, root: Path, packages: Sequence[Path]) -> tuple[Path, Path]:
    """Return the file and the folder that its place is relative to: the root, if it is below."""
    for file, folder in ((source, _normalise(root)), (source.resolve(), root.resolve())):
        if file.is_relative_to(folder):
            return file, folder
    for package in packages:
        if source.is_relative_to(package):
            return source, package.parent
    base = source.parent
    # Elsewhere a file is imported from the first folder above it that is no package.
    while (base / "__init__.py").is_file():
        base = base.parent
    return source, base


def _package_files(source: Path, base: Path) -> list[Path]:
    candidates = [
        folder / "__init__.py" for folder in source.parents if folder.is_relative_to(base)
    ]
    return [file for file in candidates if file.is_file()]


def _copy(source: Path, target: Path) -> bool:
    """Copy the contents; say whether there were any."""
    try:
        contents = source.read_bytes()
    except OSError:
        logger.warning("The code file %s cannot be read and is not stored with the run.", source)
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(contents)
    return True
