import pytest

from jade.errors import ConfigError
from jade.remote.reference import (
    ProjectReference,
    RunReference,
    SweepReference,
    parse_project,
    parse_reference,
    parse_sweep,
)

ENVIRON = {"WANDB_ENTITY": "us", "WANDB_PROJECT": "digits", "HOME": "/nowhere"}
BARE = {"HOME": "/nowhere"}
RUN = RunReference("team", "vae", "x1")


@pytest.mark.parametrize(
    "text",
    [
        "team/vae/x1",
        "team/vae/runs/x1",
        "wandb:team/vae/x1",
        "https://wandb.ai/team/vae/runs/x1",
        "https://forge.example.com/wandb/team/vae/runs/x1/overview?nw=abc#top",
        "http://127.0.0.1:8080/team/vae/runs/x1",
    ],
)
def test_every_form_names_the_same_run(text):
    assert parse_reference(text, ENVIRON) == RUN
    assert parse_reference(text, BARE) == RUN
    assert str(RUN) == "team/vae/x1"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("vae/x1", RunReference("us", "vae", "x1")),
        ("wandb:x1", RunReference("us", "digits", "x1")),
        ("wandb:vae/x1", RunReference("us", "vae", "x1")),
        ("sweep:s7", SweepReference("us", "digits", "s7", "best")),
        ("sweep:vae/s7:last", SweepReference("us", "vae", "s7", "last")),
        ("sweep:team/vae/s7:x1", SweepReference("team", "vae", "s7", "x1")),
        ("sweep:team/vae/s7:best", SweepReference("team", "vae", "s7", "best")),
        ("https://wandb.ai/team/vae/sweeps/s7", SweepReference("team", "vae", "s7", "best")),
    ],
)
def test_what_is_left_out_comes_from_the_environment(text, meant):
    assert parse_reference(text, ENVIRON) == meant


def test_user_stands_for_the_entity():
    environ = {**BARE, "WANDB_USER": "me"}
    assert parse_reference("vae/x1", environ) == RunReference("me", "vae", "x1")


@pytest.mark.parametrize(
    "text", ["x1", "./vae/x1", "/abs/vae/x1", "../vae/x1", "a/b/c/d", "team//x1", "last", ""]
)
def test_path_is_not_taken_for_a_reference(text):
    assert parse_reference(text, ENVIRON) is None


def test_project_and_run_without_an_entity_are_not_taken_for_a_reference():
    assert parse_reference("vae/x1", BARE) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wandb:x1", "does not say in which project: set WANDB_PROJECT"),
        ("wandb:a/b/c/d", "does not name a run"),
        ("wandb:", "does not name a run"),
        ("sweep:team/vae/s7:be st", "best, last or the id of a run"),
        ("sweep:team/../s7", "does not name a sweep"),
        ("https://wandb.ai/team/vae", "is not the address of a run"),
        ("https://wandb.ai/team/vae/runs", "is not the address of a run"),
    ],
)
def test_reference_that_is_none_is_explained(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_reference(text, BARE)


def test_sweep_may_be_named_without_its_prefix():
    expected = SweepReference("team", "vae", "s7")
    assert parse_sweep("team/vae/s7", BARE) == expected
    assert parse_sweep("team/vae/sweeps/s7", BARE) == expected
    assert parse_sweep("https://wandb.ai/team/vae/sweeps/s7", BARE) == expected
    with pytest.raises(ConfigError, match="of a run, not of a sweep"):
        parse_sweep("https://wandb.ai/team/vae/runs/x1", BARE)


def test_project_is_two_names():
    assert parse_project("team/vae", BARE) == ProjectReference("team", "vae")
    assert parse_project("wandb:vae", ENVIRON) == ProjectReference("us", "vae")
    assert parse_project("experiments", ENVIRON) is None
    assert parse_project("a/b/c", ENVIRON) is None
