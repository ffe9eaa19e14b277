"""Bound how often wandb asks again: a server that is away is none that has to be waited for."""

import contextlib
from collections.abc import Iterator

# How often wandb tries again.
RETRIES = 3


@contextlib.contextmanager
def soon_at_an_end(timeout_s: float) -> Iterator[None]:
    """Let what is opened meanwhile try again only a few times.

    By itself, wandb tries for a quarter of an hour, also when nobody waits for it any more; and a
    process that ends waits for it.
    """
    import wandb

    settings = wandb.setup().settings
    wanted: dict[str, float] = {}
    for kind in ("x_graphql", "x_file_transfer"):
        wanted[f"{kind}_retry_max"] = RETRIES
        wanted[f"{kind}_retry_wait_min_seconds"] = timeout_s / 40
        wanted[f"{kind}_retry_wait_max_seconds"] = timeout_s / 5
    # What the user has set stays; and so does what this wandb does not know.
    ours = {k: v for k, v in wanted.items() if getattr(settings, k, 0) is None}
    for name, value in ours.items():
        setattr(settings, name, value)
    try:
        yield
    finally:
        for name in ours:
            setattr(settings, name, None)
