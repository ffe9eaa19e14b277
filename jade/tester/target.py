"""Find what is to be tested: a run, one of its checkpoints, or all runs below a folder."""

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jade.analysis.sweep_facts import read_elsewhere
from jade.envvars import read_environment
from jade.errors import ConfigError
from jade.run_dir import RunDir
from jade.runs import RunSummary, find_runs, load_run_summary
from jade.saved_runs import list_checkpoints
from jade.tester.request import Request

CHECKPOINT_ENDING = ".pt"


@dataclass(frozen=True)
class Target:
    """A run, and which of its checkpoints, if that was said."""

    run: str | Path
    checkpoint: str | None = None

    def fill_in(self, request: Request) -> Request:
        """Return a request for the checkpoint that is meant."""
        if self.checkpoint is None:
            return request
        if request.options.checkpoint is not None:
            raise ConfigError(
                f"{self.checkpoint} is a checkpoint, and checkpoint="
                f"{request.options.checkpoint!r} names another one: keep one of them."
            )
        options = dataclasses.replace(request.options, checkpoint=self.checkpoint)
        return dataclasses.replace(request, options=options)


def find_target(wanted: str | Path) -> Target:
    """Tell a checkpoint from a run."""
    path = Path(wanted)
    if not path.name.endswith(CHECKPOINT_ENDING):
        return Target(wanted)
    if not path.is_file():
        raise ConfigError(f"There is no checkpoint {path}.")
    folder = path.absolute().parent.parent
    if not RunDir(folder).config.is_file():
        raise ConfigError(
            f"{path} is not in the checkpoints of a run. A test needs the configuration of the "
            f"run: jade test RUN --checkpoint {path}"
        )
    return Target(folder, str(path.absolute()))


def find_folder(wanted: str | Path) -> Path | None:
    """Return the folder if all runs below it are meant; None if it is something else."""
    path = Path(wanted)
    is_run = path.is_dir() and load_run_summary(path) is not None
    return path if path.is_dir() and not is_run else None


def sort_runs(folder: Path) -> tuple[list[RunSummary], list[RunSummary]]:
    """Return the runs below a folder that can be tested, and those without any checkpoint.

    Raises:
        ConfigError: There is nothing to test.
    """
    runs = sorted([*find_runs(folder), *_find_elsewhere(folder)], key=lambda run: run.id)
    able = [run for run in runs if _can_be_tested(RunDir(run.path))]
    if not able:
        what = f"none of the {len(runs)} runs has a checkpoint" if runs else "there is no run"
        raise ConfigError(f"{folder}: there is nothing to test, {what}.")
    return able, [run for run in runs if run not in able]


def _find_elsewhere(folder: Path) -> Iterator[RunSummary]:
    """Find the runs of a sweep that are not below its folder: reused ones, and failed points."""
    for run in read_elsewhere(folder):
        path = Path(str(run.get("path") or folder / "runs" / str(run["id"])))
        found = load_run_summary(path)
        yield found or RunSummary(
            id=str(run["id"]), path=path, status="failed", started=0.0, updated=0.0
        )


def _can_be_tested(directory: RunDir) -> bool:
    return directory.config.is_file() and bool(list_checkpoints(directory))


def choose_name(device: str | None) -> str:
    """Return the name of the device that is asked for, by the environment if by nobody else."""
    return device or read_environment(os.environ, None).get("DEVICE") or "auto"
