"""Use the process that speaks with W&B for an agent, instead of starting one for each run."""

import contextlib
import os
import re
import socket

# Not W&B's own name: a program that is killed while it shares a connection counts as finished on
# W&B. Only a relay uses this one, which is still there to tell how its run has ended.
VARIABLE = "JADE_WANDB_SERVICE"
SERVICE = "WANDB_SERVICE"
TOKEN = re.compile(r"\d+-\d+-(?:unix-(?P<path>.+)|tcp-localhost-(?P<port>\d+))")
TIMEOUT_S = 1.0


def adopt() -> bool:
    """Let wandb use the process of an agent, if there is one that answers."""
    token = os.environ.pop(VARIABLE, None)
    if token is None or not is_usable(token):
        return False
    os.environ[SERVICE] = token
    return True


def is_usable(token: str) -> bool:
    """Tell whether somebody listens where a token says."""
    match = TOKEN.fullmatch(token)
    if match is None:
        return False
    family = socket.AF_UNIX if match["path"] else socket.AF_INET
    address = match["path"] or ("127.0.0.1", int(match["port"]))
    with contextlib.suppress(OSError), socket.socket(family) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(address)
        return True
    return False
