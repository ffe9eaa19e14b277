"""Where a value was written, and how its place in nested values is called."""

from dataclasses import dataclass
from typing import Any

# The keys that lead to a value; the place in a list is an int.
KeyPath = tuple[Any, ...]


@dataclass(frozen=True)
class Origin:
    """Where a value was written."""

    source: str
    line: int | None = None

    @property
    def is_command(self) -> bool:
        """Whether it is an argument of a command."""
        return self.source.startswith("argument")

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"
