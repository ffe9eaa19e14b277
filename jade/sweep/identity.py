"""Say which point of a sweep a run belongs to: equal points have equal keys, everywhere."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

SHORT = 10
LONGEST_NAME = 40
# What torch and numpy both take for a seed.
LARGEST_SEED = 2**31


def point_key(values: Mapping[str, Any]) -> str:
    """Return a short text that is the same for the same values, in whatever order."""
    text = json.dumps(_canonical(values), sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def run_id_of(sweep_name: str, key: str, repetition: int = 1) -> str:
    """Return the id of the run of a point: who takes it over finds its directory."""
    name = re.sub(r"[^A-Za-z0-9_.\-]+", "-", sweep_name).strip("-.")[:LONGEST_NAME] or "sweep"
    ending = "" if repetition == 1 else f"-r{repetition}"
    return f"{name}-{key[:SHORT]}{ending}"


def derive_seed(base: Any, key: str, repetition: int) -> int:
    """Derive the seed of a repetition from that of the first one.

    Without one, points would share their seeds: they are told apart by their keys.
    """
    origin = key if base is None else base
    digest = hashlib.sha256(f"{origin}/{repetition}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % LARGEST_SEED


def _canonical(value: Any) -> Any:
    """Make equal what is equal to W&B: 1.0 is 1, but true is not."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
