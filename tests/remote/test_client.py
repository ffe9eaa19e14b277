import os

import pytest

from jade.errors import NetworkError
from jade.remote.client import Client, text_of


def test_reason_is_that_of_the_last_attempt():
    told = (
        'POST http://127.0.0.1:40123/graphql giving up after 5 attempt(s): Post "http://x/graphql": '
        "dial tcp 127.0.0.1:40123: connect: connection refused while retrying: "
        'Post "http://127.0.0.1:40123/graphql": dial tcp 127.0.0.1:40123: connect: connection refused'
    )
    expected = "dial tcp 127.0.0.1:40123: connect: connection refused (tried 5 times)"
    assert text_of(ValueError(told)) == expected
    assert text_of(ValueError("one\n  line.")) == "one line"
    assert text_of(KeyError()) == "KeyError"


@pytest.mark.parametrize("text", ["401", "HTTP 401: no", "returned error 401, sorry"])
def test_refused_key_is_told_from_the_number_of_a_port(wandb_online, text):
    client = Client(os.environ)
    assert "does not accept the API key" in str(client._explain(ValueError(text), "it"))
    told = client._explain(ValueError("http://127.0.0.1:40123 and :401 are busy"), "it")
    assert isinstance(told, NetworkError)


def test_settings_of_wandb_are_as_they_were(wandb_online):
    import wandb

    before = wandb.setup().settings.model_dump()
    Client(os.environ)
    assert wandb.setup().settings.model_dump() == before
