"""Fixtures for tests that talk to W&B: a server on 127.0.0.1, and an environment that leads to it."""

import sys

import pytest
from wandb_server import WandbServer


@pytest.fixture
def wandb_server():
    """A W&B-compatible server; a request that it does not know fails the test."""
    with WandbServer() as server:
        yield server
    assert server.unknown == []


@pytest.fixture
def wandb_online(wandb_server, monkeypatch, tmp_path):
    """The same server, and an environment in which W&B logs to it: here and in child processes."""
    # The client keeps the settings and the connections of its first use, perhaps by another test.
    forget_client()
    for name, value in wandb_server.environ(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    yield wandb_server
    # It tries to deliver what a test has left behind, without end: let it.
    wandb_server.faults.clear()
    wandb_server.open_door()
    forget_client()


def forget_client():
    """Let wandb, if it was imported, read its settings anew."""
    if "wandb" in sys.modules:
        sys.modules["wandb"].teardown()
