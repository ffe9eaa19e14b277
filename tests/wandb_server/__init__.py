"""A small W&B-compatible server on 127.0.0.1, for tests and benchmarks with the real client.

It is strict: what it does not know is refused and noted in ``WandbServer.unknown``.
"""

from wandb_server.refusal import RefusalError
from wandb_server.runs import ServedRun
from wandb_server.server import WandbServer
from wandb_server.sweeps import ServedSweep

__all__ = ["RefusalError", "ServedRun", "ServedSweep", "WandbServer"]
