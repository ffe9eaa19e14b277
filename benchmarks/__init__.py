"""What JADE costs, measured against a bare loop and against its peers: ``python -m benchmarks``."""
