"""Fixtures for tests on a cluster: a SLURM on 127.0.0.1, and an environment that leads to it."""

import os
import tempfile

import pytest
import slurm_cluster
from slurm_cluster import SlurmCluster


def require_slurm() -> None:
    """Skip a test where there is no SLURM; in CI there is one, or the test fails."""
    reason = slurm_cluster.missing()
    if reason is not None and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def started_cluster(tmp_path_factory):
    require_slurm()
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def cluster(started_cluster, monkeypatch):
    """A cluster without jobs, to which sbatch and all others lead; none outlives the test."""
    for name, value in started_cluster.environ.items():
        monkeypatch.setenv(name, value)
    # Jobs of other clusters on this machine have the same numbers.
    with tempfile.TemporaryDirectory(prefix="scratch-", ignore_cleanup_errors=True) as scratch:
        monkeypatch.setenv("TMPDIR", scratch)
        yield started_cluster
        started_cluster.clear()
