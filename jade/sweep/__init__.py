"""Read sweep files, and grids of tasks: what is swept, how, and which points there are."""

from jade.sweep.file import Sweep
from jade.sweep.identity import derive_seed, point_key, run_id_of
from jade.sweep.loading import is_sweep, load_sweep, require_sweep
from jade.sweep.local_points import LocalGrid
from jade.sweep.numbered_runs import NumberedRun, NumberedRuns
from jade.sweep.points import Point, grid_of, sample_of, telling_points

__all__ = [
    "LocalGrid",
    "NumberedRun",
    "NumberedRuns",
    "Point",
    "Sweep",
    "derive_seed",
    "grid_of",
    "is_sweep",
    "load_sweep",
    "point_key",
    "require_sweep",
    "run_id_of",
    "sample_of",
    "telling_points",
]
