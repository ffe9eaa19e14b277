"""Launch trials: an agent of W&B, sweeps without a server, and the processes that they start."""
