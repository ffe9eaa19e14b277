"""Number the runs of a sweep from 0 on: its points, each as often as it is repeated."""

from dataclasses import dataclass
from typing import Any

from jade.errors import ConfigError
from jade.origin import Origin
from jade.overrides import Override
from jade.sweep.file import Sweep
from jade.sweep.identity import derive_seed, point_key
from jade.sweep.local_points import LocalGrid
from jade.sweep.points import Point


@dataclass(frozen=True)
class NumberedRun:
    """One run of a sweep, by its number."""

    index: int
    point: Point
    repetition: int

    def overrides(self, base_seed: Any) -> list[Override]:
        """Return what changes a configuration into that of this run.

        Args:
            base_seed: The seed that is configured; the first repetition has it, others have seeds
                that are derived from it.
        """
        given = self.point.overrides()
        if self.repetition == 1:
            return given
        seed = self._derive(self.point.values.get("seed", base_seed))
        origin = Origin(f"repetition {self.repetition}")
        kept = [override for override in given if override.key != "seed"]
        return [*kept, Override("seed", seed, origin, swept=True)]

    def _derive(self, base_seed: Any) -> int:
        return derive_seed(base_seed, point_key(self.point.values), self.repetition)

    def __str__(self) -> str:
        values = dict(self.point.values)
        if self.repetition > 1 and "seed" in values:
            values["seed"] = self._derive(values["seed"])
        return ", ".join(f"{key}={value!r}" for key, value in values.items())


class NumberedRuns:
    """The runs of a sweep in order: all repetitions of a point, then those of the next one.

    Raises:
        ConfigError: Nobody can say beforehand which runs there are.
    """

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._grid = sweep.grid
        if self._grid is None and (sweep.method != "random" or sweep.run_cap is None):
            cure = " Give it a run_cap." if sweep.method == "random" else ""
            raise ConfigError(
                f"{sweep.path}: the points of method {sweep.method} are not known before they "
                f"run, so they have no numbers.{cure}"
            )
        self.repetitions = sweep.local.repetitions
        # A sweep may have more points than len() can say.
        self.count = (sweep.num_runs or 0) * self.repetitions

    def __getitem__(self, index: int) -> NumberedRun:
        if not 0 <= index < self.count:
            raise IndexError(index)
        place, repetition = divmod(index, self.repetitions)
        point = self._sweep.draw(place) if self._grid is None else self._grid[place]
        return NumberedRun(index, point, repetition + 1)

    @property
    def num_duplicates(self) -> int:
        """How many points there would be more if equal ones were not one point."""
        grid = self._grid
        if grid is None:
            return 0
        if isinstance(grid, LocalGrid):
            return grid.num_combinations - grid.num_points
        num_written = 1
        for parameter in self._sweep.parameters:
            values = getattr(parameter.distribution, "values", None)
            num_written *= len(parameter.distribution.grid() or () if values is None else values)
        return num_written - grid.num_points
