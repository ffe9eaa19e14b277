"""Open a sweep that has been run here before, to look at it or to speak to its workers."""

from dataclasses import dataclass

from jade.errors import ConfigError
from jade.launch.sweep_folder import SweepFolder, find_sweep
from jade.launch.sweep_storage import hide_password, open_storage
from jade.launch.sweep_study import MINIMIZE, SweepStudy
from jade.launch.sweep_worker import Worker
from jade.sweep import Sweep, require_sweep


@dataclass(frozen=True)
class KeptSweep:
    """A sweep with its folder, its file as it was run last, and its study."""

    folder: SweepFolder
    sweep: Sweep
    study: SweepStudy


def open_kept(wanted: str | None, storage: str | None = None, name: str | None = None) -> KeptSweep:
    """Open a sweep by its file, folder or name; None means the only one there is.

    Raises:
        ConfigError: There is no such sweep, or it has never been run.
    """
    folder = find_sweep(wanted, name)
    # The program need not be there to look at what came of it.
    sweep = require_sweep(folder.sweep_file, needs_program=False)
    where = folder.find_storage(storage)
    if "://" not in where and storage is None and not folder.journal.is_file():
        raise ConfigError(f"{folder.root} has no journal.log: it was never run, or half deleted.")
    goal = sweep.metric.goal if sweep.metric is not None else MINIMIZE
    study = SweepStudy(open_storage(where), folder.study_name, goal, Worker())
    if not study.exists:
        raise ConfigError(f"The storage {hide_password(where)} has no sweep {folder.study_name!r}.")
    return KeptSweep(folder, sweep, study)
