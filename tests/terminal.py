"""Run a command on a terminal, and read what stands on it."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Lines:
    coloured: list[str]

    @property
    def plain(self) -> list[str]:
        return [ESCAPE.sub("", line) for line in self.coloured]


def show_on_terminal(arguments: list[str], columns: int, **environ: str) -> Lines:
    """Run a command of JADE on a terminal of its own, which has so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "jade", *arguments],
        stdout=theirs,
        stderr=theirs,
        env={
            **kept,
            "TERM": "xterm",
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "utf-8",
            **environ,
        },
    )
    os.close(theirs)
    output = b""
    try:
        while data := os.read(ours, 65536):
            output += data
    except OSError:
        # So Linux says that nobody writes to the terminal any more.
        pass
    os.close(ours)
    assert process.wait() == 0, output.decode()
    return Lines(output.decode().replace("\r", "").splitlines())
