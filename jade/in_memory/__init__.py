"""Feed datasets that fit into memory: read once, then batches by index."""

from jade.in_memory.loader import TensorLoader

__all__ = ["TensorLoader"]
