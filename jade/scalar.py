"""Read the text of a single value by the rules of YAML 1.2."""

import re
from typing import Any

NULL = re.compile(r"~|null|Null|NULL|")
BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


def parse_scalar(text: str) -> Any:
    """Parse an unquoted scalar: ``1e-4`` is a number, ``on`` and ``10:00`` are text."""
    if NULL.fullmatch(text):
        return None
    if BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if INTEGER.fullmatch(text):
        return int(text, 10) if text.lstrip("+-").isdigit() else int(text, 0)
    if FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def has_leading_zero(text: str) -> bool:
    """Tell whether a whole number is written with zeros that reading it loses."""
    digits = text.lstrip("+-")
    return len(digits) > 1 and digits.isdigit() and digits.startswith("0")
