from pathlib import Path

import numpy as np
import pytest
import torch

from jade.errors import ConfigError
from jade.plain import is_plain, require_plain, to_plain


@pytest.mark.parametrize("value", [None, True, 3, 0.5, "x", [1, (2,)], {"a": {1: []}}])
def test_what_yaml_knows_is_plain(value):
    assert is_plain(value)


@pytest.mark.parametrize("value", [Path("x"), {1, 2}, [object()], {(1, 2): 3}, np.float64(1.0)])
def test_what_yaml_does_not_know_is_not_plain(value):
    assert not is_plain(value)


def test_to_plain_turns_the_rest_into_lists_and_text():
    assert to_plain({"a": (1, {2}), "b": Path("x/y")}) == {"a": [1, [2]], "b": "x/y"}


def test_required_plain_value_is_a_copy_with_scalars_of_libraries_converted():  # C14
    given = {"a": [1, (2, 3)], "p": Path("x"), "n": np.float32(0.5), "t": torch.tensor(3)}

    copied = require_plain(given, ("model",))
    copied["a"].append(4)

    assert copied == {"a": [1, [2, 3], 4], "p": "x", "n": 0.5, "t": 3}
    assert given["a"] == [1, (2, 3)]


def test_required_plain_value_names_every_object_in_it():
    with pytest.raises(ConfigError) as caught:
        require_plain({"params": {"loss": torch.nn.MSELoss(), "opt": torch.optim.SGD}}, ("model",))

    message = str(caught.value)
    assert (
        "model.params.loss: an object of class MSELoss cannot be written down with the run"
        in message
    )
    assert "model.params.opt: write the name of the class: 'torch.optim.sgd.SGD'" in message
