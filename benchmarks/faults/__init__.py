"""What JADE survives, tried out on real processes and files: ``python -m benchmarks.faults``."""
