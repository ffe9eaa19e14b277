"""The runs that are looked at together, and the sweeps they belong to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jade.analysis.run_facts import RunFacts
from jade.analysis.sweep_facts import SweepFacts


@dataclass
class Collection:
    """The runs that were found, in the order of their starts, and the sweeps they belong to."""

    runs: list[RunFacts] = field(default_factory=list)
    sweeps: list[SweepFacts] = field(default_factory=list)


def find_key(key: str, known: Mapping[str, Any]) -> str | None:
    """Find the dotted key that a name in a sweep means, which may leave ``params`` out."""
    if key in known:
        return key
    short = _without_params(key)
    fitting = [name for name in known if _without_params(name) == short]
    return fitting[0] if len(fitting) == 1 else None


def _without_params(key: str) -> str:
    return ".".join(part for part in key.split(".") if part != "params")
