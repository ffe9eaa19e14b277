"""Launch trials: an agent of W&B, the processes that it starts, and what it checks before."""
