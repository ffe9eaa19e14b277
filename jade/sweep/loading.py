"""Load a sweep from whatever kind of file describes one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jade.sweep import file, grid_file
from jade.sweep.file import Sweep
from jade.yaml_file import load_mapping


def is_sweep(values: Mapping[str, Any]) -> bool:
    """Tell whether the content of a file is a sweep, or a grid of tasks."""
    return file.is_sweep(values) or grid_file.is_grid_file(values)


def load_sweep(path: Path) -> Sweep | None:
    """Load a sweep file or a grid of tasks; None if the file is something else.

    Raises:
        ConfigError: Lists all that is wrong with the file itself.
    """
    if grid_file.is_grid_file(load_mapping(path).values):
        return grid_file.read_grid_file(path)
    return file.load_sweep(path)


def require_sweep(path: Path, *, needs_program: bool = True) -> Sweep:
    """Load a file that must be a sweep or a grid of tasks; what it lacks is in the error.

    Args:
        path: The file.
        needs_program: Whether the program, and what it needs, must be here.
    """
    if grid_file.is_grid_file(load_mapping(path).values):
        return grid_file.read_grid_file(path, needs_program=needs_program)
    return file.require_sweep(path, needs_program=needs_program)
