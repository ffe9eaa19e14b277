"""Let somebody else read along what a program prints, but not what variables stand for."""

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from jade.concealment import conceal


class Console:
    """The output of this process, while somebody else listens; it still goes its usual way.

    Args:
        show: Takes each text that is printed.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._wrapped: list[tuple[Any, Any]] = []

    def start(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            original = getattr(stream, "write", None)
            if original is None or any(stream is one for one, _ in self._wrapped):
                continue
            with contextlib.suppress(AttributeError):
                stream.write = self._wrap(stream, original)  # type: ignore[method-assign]
                self._wrapped.append((stream, original))

    def stop(self) -> None:
        for stream, original in self._wrapped:
            stream.write = original
        self._wrapped.clear()

    def _wrap(self, stream: Any, original: Callable[[str], int]) -> Callable[[str], int]:
        pid = os.getpid()

        def write(text: str) -> int:
            # Data workers inherit this, but not the one who listens.
            return self._write(stream, original, text) if os.getpid() == pid else original(text)

        return write

    def _write(self, stream: Any, original: Callable[[str], int], text: str) -> int:
        written = original(text)
        self._show(text)
        return written


class Screen(Console):
    """Keeps from a listener in this very process, who hears all that is printed, what it conceals.

    Args:
        show: Takes a text in which something is concealed, in the place of what was printed.
        variables: What is concealed, and how it is written instead.
    """

    def __init__(self, show: Callable[[str], None], variables: Mapping[str, str]) -> None:
        super().__init__(show)
        self._variables = variables

    def _write(self, stream: Any, original: Callable[[str], int], text: str) -> int:
        concealed = conceal(text, self._variables)
        if concealed == text:
            return original(text)
        # Past those who have put themselves into the place of the stream's own method.
        written: int = type(stream).write(stream, text)
        self._show(concealed)
        return written
