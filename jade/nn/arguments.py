"""Check the arguments that a configuration hands to a layer."""

import math
from numbers import Integral, Real
from typing import Any

from jade.errors import ComponentError


def is_int(value: Any) -> bool:
    """Tell whether ``value`` is an integer of Python or numpy; ``True`` is none."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def is_positive_int(value: Any) -> bool:
    """Tell whether ``value`` is an integer above zero."""
    return is_int(value) and value > 0


def positive_int(value: Any, name: str) -> int:
    """Return ``value`` as an int, or name the argument that is not a positive integer."""
    if not is_positive_int(value):
        raise ComponentError(f"{name} must be a positive integer, not {value!r}.")
    return int(value)


def positive_number(value: Any, name: str) -> float:
    """Return ``value`` as a float, or name the argument that is not positive and finite."""
    is_number = not isinstance(value, bool) and isinstance(value, Real)
    if not is_number or not 0 < value < math.inf:
        raise ComponentError(f"{name} must be a positive finite number, not {value!r}.")
    return float(value)
