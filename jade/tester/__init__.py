"""Test runs: what is asked for, one test from its checkpoint to its results, and what it leaves."""
