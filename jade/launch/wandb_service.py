"""Keep one process that speaks with W&B for all trials, as long as any of them lives."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping

from jade.loggers.shared_service import SERVICE

TIMEOUT_S = 30.0
# It ends when those are gone that it works for, not with a signal that is meant for them.
IGNORED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2")


class WandbService:
    """A process that owns wandb's own; it ends when nobody holds its leash any more.

    Attributes:
        leash: A file that is passed on to whoever needs the process.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        others_end, self.leash = os.pipe()
        self._token: str | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jade.launch.wandb_service"],
            env={name: value for name, value in environ.items() if name != SERVICE},
            stdin=others_end,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(others_end)

    def token(self) -> str | None:
        """Wait until it is there, and return by what wandb finds it; None if it fails."""
        output = self._process.stdout
        if self._token is None and output is not None:
            ready, _, _ = select.select([output], [], [], TIMEOUT_S)
            self._token = output.readline().decode().strip() if ready else ""
        return self._token or None


def main() -> None:
    """Be that process."""
    for name in IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    import wandb

    wandb.setup()
    sys.stdout.write(os.environ.get(SERVICE, "") + "\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    wandb.teardown()


if __name__ == "__main__":
    main()
