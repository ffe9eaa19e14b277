"""The command of a trial is the one that W&B's own agent would run."""

import json
import sys

import pytest
import yaml

from jade.errors import ConfigError
from jade.launch.sweep_command import Order, ParameterFiles, build

VALUES = {
    "model.params.beta": 1e-05,
    "x": None,
    "flag": False,
    "other": True,
    "layers": [64, 64],
    "model": {"params": {"act": None}},
    "text": "two words",
    "whole": 1.0,
}
COMMAND = {
    "type": "run",
    "run_id": "abc",
    "program": "train.py",
    "args": {key: {"value": value} for key, value in VALUES.items()},
}


def test_arguments_are_those_of_wandb(tmp_path):
    from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

    theirs = create_sweep_command_args(COMMAND)
    files = ParameterFiles.of(tmp_path, "abc")

    for name, expected in theirs.items():
        if name != "args_dict":
            ours = build([f"${{{name}}}"], Order.read(COMMAND), files, {})
            assert ours == expected, name


def test_variables_are_filled_in_also_within_words(tmp_path, monkeypatch):
    from wandb.sdk.launch.sweeps.utils import create_sweep_command

    tokens = ["--data=${envvar:DATA}/x/${envvar:DATA}", "${envvar:UNSET}", "plain"]
    monkeypatch.setenv("DATA", "d")
    files = ParameterFiles.of(tmp_path, "abc")

    ours = build(tokens, Order.read(COMMAND), files, {"DATA": "d"})

    assert ours == create_sweep_command(tokens) == ["--data=d/x/d", "UNSET", "plain"]


def test_without_a_command_the_program_is_run_with_its_arguments(tmp_path):
    order = Order.read({**COMMAND, "args": {"a": {"value": 1}}})

    command = build([], order, ParameterFiles.of(tmp_path, "abc"), {})

    assert command == ["/usr/bin/env", sys.executable, "train.py", "--a=1"]


def test_an_unknown_macro_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no .*arg_json.*Did you mean 'args_json'"):
        build(["${arg_json}"], Order.read(COMMAND), ParameterFiles.of(tmp_path, "abc"), {})


def test_parameter_files_hold_the_values_without_loss(tmp_path):
    files = ParameterFiles.of(tmp_path, "abc")
    files.write(VALUES, ["${args_json_file}"])

    written = yaml.safe_load(files.yaml_path.read_text())
    assert written.pop("wandb_version") == 1
    assert {key: entry["value"] for key, entry in written.items()} == VALUES
    assert json.loads(files.json_path.read_text()) == VALUES
