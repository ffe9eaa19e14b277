"""Say which process owns a run, and whether that process is still there."""

import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from jade.timespan import DAY_S, render_age
from jade.whole_file import write_whole

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Of the fields behind the name of the program in /proc/<pid>/stat.
STATE, START_TIME = 0, 19
DEAD_STATES = ("Z", "X")


@dataclass(frozen=True)
class Owner:
    """A process on a host.

    Attributes:
        since: When it became the owner, in seconds of ``time.time``.
        birth: When the process began, which tells it from a later one with the same number; None
            where the system does not say.
    """

    host: str
    pid: int
    since: float
    birth: str | None = None

    @classmethod
    def this_process(cls) -> "Owner":
        """Describe the process that calls."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, time.time(), _read_birth(pid))

    @classmethod
    def load(cls, path: Path) -> "Owner | None":
        """Load what ``write`` wrote; None if there is nothing to be read."""
        try:
            values = json.loads(path.read_bytes())
            return cls(
                str(values["host"]), int(values["pid"]), float(values["since"]), values.get("birth")
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def write(self, path: Path) -> None:
        """Write the owner down, for others to read."""
        write_whole(path, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @property
    def is_here(self) -> bool:
        """Tell whether it is a process of this host: only then others can look for it."""
        return self.host == socket.gethostname()

    @property
    def is_running(self) -> bool:
        """Tell whether a process of this host is still there."""
        birth = _read_birth(self.pid)
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            # Somebody else's, of which the system may tell us nothing more.
            return birth is None or self.birth in (None, birth)
        except (OSError, OverflowError):
            return False
        return self.birth in (None, birth)

    def __str__(self) -> str:
        age_s = time.time() - self.since
        pattern = "%H:%M" if age_s < DAY_S else "%Y-%m-%d %H:%M"
        moment = time.strftime(pattern, time.localtime(self.since))
        return f"process {self.pid} on {self.host} since {moment} ({render_age(age_s)})"


def _read_birth(pid: int) -> str | None:
    """Return when a process began, as text to compare; None if it is gone, or nobody can tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        # The name of the program stands in brackets, and may hold brackets and blanks itself.
        fields = stat.rpartition(")")[2].split()
        if fields[STATE] in DEAD_STATES:
            # It has ended; its parent has not asked how yet.
            return None
        return f"{BOOT_ID.read_text().strip()}/{fields[START_TIME]}"
    except (OSError, IndexError):
        return None
