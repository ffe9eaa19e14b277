"""Short names for dotted keys and short texts for numbers, where people read them."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jade.analysis.spread import Spread

UNSAID = ("params",)


def shorten_keys(keys: Sequence[str]) -> dict[str, str]:
    """Give each dotted key the shortest ending that no other key has."""
    parts = {key: [part for part in key.split(".") if part not in UNSAID] or [key] for key in keys}
    labels = {key: names[-1] for key, names in parts.items()}
    for length in range(2, max(map(len, parts.values()), default=0) + 1):
        counts = Counter(labels.values())
        for key, label in labels.items():
            if counts[label] > 1:
                labels[key] = ".".join(parts[key][-length:])
    counts = Counter(labels.values())
    return {key: label if counts[label] == 1 else key for key, label in labels.items()}


def render_value(value: Any) -> str:
    """Render the value of a parameter or metric; nothing for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(render_value, value)) + "]"
    return str(value)


def render_mean(spread: Spread) -> tuple[str, str]:
    """Render a mean and half its interval, as exact as the interval allows; "" for no interval."""
    if spread.margin is None or not math.isfinite(spread.margin):
        return f"{spread.mean:.5g}", ""
    if spread.margin == 0:
        return f"{spread.mean:.5g}", "0"
    # Two digits of the interval say all that is known of the mean; three of the mean at least,
    # because people compare means.
    num_decimals = 1 - math.floor(math.log10(spread.margin))
    if spread.mean:
        num_decimals = max(num_decimals, 2 - math.floor(math.log10(abs(spread.mean))))
    if num_decimals > 8 or abs(spread.mean) >= 1e7:
        return f"{spread.mean:.5g}", f"{spread.margin:.2g}"
    decimals = max(num_decimals, 0)
    return f"{spread.mean:.{decimals}f}", f"{spread.margin:.{decimals}f}"
