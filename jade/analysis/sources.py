"""Find the runs of folders, of local sweeps and of sweeps on W&B, which may be mixed."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.analysis.collection import Collection, find_key
from jade.analysis.mip_run import is_mip_run
from jade.analysis.run_facts import RunFacts, RunReader, courses_of, is_test
from jade.analysis.sweep_facts import (
    RUNS,
    SWEEP_FILE,
    SweepFacts,
    describe_sweep,
    load_sweep_facts,
    read_elsewhere,
)
from jade.errors import ConfigError, closest
from jade.overrides import flatten, join_key, split_key
from jade.run_dir import FAILED
from jade.runs import UNKNOWN, default_root

if TYPE_CHECKING:
    from jade.remote.listing import ListedRun
    from jade.remote.reference import SweepReference

# What only the directory of a run has; any of it makes a folder one, however damaged.
MARKS = ("status.json", "metrics.csv", "provenance.json", "config_expanded.yml")
CHECKPOINTS = ("last.pt", "best.pt", "former.pt")
YAML_ENDINGS = (".yml", ".yaml")
REPEATED = ("min/", "max/")


def collect(
    sources: Sequence[str], environ: Mapping[str, str], *, num_points: int = 0
) -> Collection:
    """Collect the runs of all sources; one that is both here and on W&B is taken from here.

    Args:
        sources: Folders, sweep files, names of sweeps below the usual folder, sweeps on W&B.
        environ: Says who is logged in to W&B.
        num_points: How many points of each curve are kept.

    Raises:
        ConfigError: A source does not exist, or there are no runs at all.
    """
    found, reader = Collection(), RunReader(num_points)
    remote: list[RunFacts] = []
    for source in sources:
        folder = _find_folder(source)
        if folder is not None:
            _collect_folder(folder, reader, found)
        else:
            remote += _collect_remote(source, environ, found)
    known = {run.id: place for place, run in enumerate(found.runs)}
    for run in remote:
        if run.id not in known:
            found.runs.append(run)
    if not found.runs:
        raise ConfigError(f"There are no runs in {', '.join(sources)}.")
    found.runs.sort(key=lambda run: (run.started or 0.0, run.id, run.path))
    return found


def _find_folder(source: str) -> Path | None:
    """Find the folder that a source means; None for what can only be on W&B."""
    path = Path(source)
    if path.is_dir():
        return path
    if path.is_file():
        return _folder_of_file(path)
    named = default_root() / source
    if named.is_dir():
        return named
    if source.startswith(("sweep:", "wandb:", "http://", "https://")) or _is_reference(source):
        return None
    parent = path.parent if path.parent != Path() else Path()
    siblings = [entry.name for entry in parent.iterdir()] if parent.is_dir() else []
    meant = closest(path.name, siblings)
    hint = f" Did you mean {parent / meant}?" if meant else ""
    raise ConfigError(
        f"There is no folder {source}.{hint} A sweep on W&B is written entity/project/id."
    )


def _folder_of_file(path: Path) -> Path:
    if path.suffix not in YAML_ENDINGS:
        raise ConfigError(f"{path} is a file; a folder with runs, or a sweep, is needed.")
    if path.name == SWEEP_FILE and (path.parent / RUNS).is_dir():
        return path.parent
    from jade import yaml_file

    values = yaml_file.load_mapping(path).values
    names = [str(values["name"])] if values.get("name") else []
    for name in (*names, path.stem):
        if (default_root() / name).is_dir():
            return default_root() / name
    raise ConfigError(
        f"{path}: below {default_root()} there is no folder {path.stem} with runs of this sweep."
    )


def _is_reference(source: str) -> bool:
    parts = source.split("/")
    num_parts = 4 if len(parts) == 4 and parts[2] == "sweeps" else 3
    return len(parts) == num_parts and all(part and not part.startswith(".") for part in parts)


def _collect_folder(folder: Path, reader: RunReader, found: Collection) -> None:
    seen = {run.directory.root.resolve() for run in found.runs if run.directory}
    for path, sweep in _walk(folder, None, set(), found):
        if path.resolve() not in seen:
            seen.add(path.resolve())
            found.runs.append(reader.read(path, sweep.name if sweep else ""))


def _walk(
    folder: Path, sweep: SweepFacts | None, seen: set[tuple[int, int]], found: Collection
) -> Iterator[tuple[Path, SweepFacts | None]]:
    """Find directories of runs, each once, also behind links that lead in a circle."""
    try:
        stat = folder.stat()
        if (stat.st_dev, stat.st_ino) in seen:
            return
        seen.add((stat.st_dev, stat.st_ino))
        with os.scandir(folder) as entries:
            names = {e.name: e.is_dir() for e in entries if not e.name.startswith(".")}
    except OSError:
        return
    if is_run(folder, names):
        yield folder, sweep
        return
    own = load_sweep_facts(folder) if SWEEP_FILE in names else None
    if own is not None:
        found.sweeps.append(own)
        yield from _walk_elsewhere(folder, own, found)
    for name, is_folder in sorted(names.items()):
        path = folder / name
        if own is not None and name == RUNS and is_folder:
            # All that is here was a run once, whatever is left of it.
            yield from ((below, own) for below in sorted(path.iterdir()) if below.is_dir())
        elif is_folder:
            yield from _walk(path, own or sweep, seen, found)


def _walk_elsewhere(
    folder: Path, sweep: SweepFacts, found: Collection
) -> Iterator[tuple[Path, SweepFacts]]:
    """Find the reused runs of a sweep; of what has no directory, only what is said is known."""
    for run in read_elsewhere(folder):
        path = Path(str(run.get("path") or folder / RUNS / str(run["id"])))
        if path.is_dir():
            yield path, sweep
            continue
        reason = "the run that was reused is gone" if run.get("path") else run.get("reason")
        values = run.get("values")
        found.runs.append(
            RunFacts(
                id=str(run["id"]),
                path=str(path),
                status=UNKNOWN if run.get("path") else FAILED,
                source=sweep.name,
                reason=None if reason is None else str(reason),
                config=_flatten(values) if isinstance(values, Mapping) else {},
                notes=["it has no directory"],
            )
        )


def is_run(folder: Path, names: Mapping[str, bool]) -> bool:
    """Tell whether a folder is, or was, the directory of a run, by what is in it."""
    if any(name in names for name in MARKS) or is_mip_run(names):
        return True
    if names.get("checkpoints"):
        has_state = any((folder / "checkpoints" / name).is_file() for name in CHECKPOINTS)
        return has_state or "config.yml" in names
    tests = [name for name, is_folder in names.items() if is_folder and is_test(name)]
    return any((folder / name / "summary.json").is_file() for name in tests)


def _collect_remote(source: str, environ: Mapping[str, str], found: Collection) -> list[RunFacts]:
    # Imported here: whoever looks at folders needs none of it.
    from jade.remote.client import Client, as_mapping
    from jade.remote.listing import list_sweep
    from jade.remote.reference import parse_sweep

    reference = parse_sweep(source, environ)
    client = Client(environ)
    sweep = describe_sweep(str(reference), as_mapping(client.find_sweep(reference).config))
    found.sweeps.append(sweep)
    listed = list_sweep(client, reference)
    if not listed:
        raise ConfigError(f"The sweep {reference} on W&B has no runs yet.")
    return [_describe_listed(run, reference) for run in listed]


def _describe_listed(run: "ListedRun", reference: "SweepReference") -> RunFacts:
    latest = {k: v for k, v in run.latest.items() if not k.startswith(REPEATED)}
    seconds = run.summary.get("run/seconds")
    return RunFacts(
        id=run.id,
        path=str(run.path),
        status=run.status,
        source=str(reference),
        name=run.name if run.name != run.id else None,
        reason=run.reason,
        host=run.host,
        started=run.started,
        seconds=seconds if isinstance(seconds, (int, float)) else run.duration_s,
        iterations=run.iterations,
        epochs=run.epochs,
        config=_flatten(run.config),
        courses=courses_of(latest, run.summary),
        wandb_id=str(run.path),
    )


def _flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a configuration of W&B, in which a swept key stands a second time, dotted."""
    flat = flatten({key: value for key, value in config.items() if "." not in key})
    for key, value in config.items():
        if "." in key and find_key(key, flat) is None:
            flat[join_key(split_key(key))] = value
    return flat
