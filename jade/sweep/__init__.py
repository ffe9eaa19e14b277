"""Read W&B sweep files: what is swept, how, and which points there are."""

from jade.sweep.file import Sweep, is_sweep, load_sweep, require_sweep
from jade.sweep.points import Point, grid_of, sample_of, telling_points

__all__ = [
    "Point",
    "Sweep",
    "grid_of",
    "is_sweep",
    "load_sweep",
    "require_sweep",
    "sample_of",
    "telling_points",
]
