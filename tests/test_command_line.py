import argparse

import pytest

from jade.command_line import ArgumentParser, add_settings, collect_overrides
from jade.errors import ConfigError
from jade.settings import FIELDS


def read(*tokens):
    parser = ArgumentParser(allow_abbrev=False)
    add_settings(parser)
    return collect_overrides(*parser.parse_known_args(tokens))


def values(*tokens):
    return {override.key: override.value for override in read(*tokens)}


def message(*tokens):
    with pytest.raises(ConfigError) as caught:
        read(*tokens)
    return str(caught.value)


def test_every_setting_is_a_flag_in_both_spellings():  # C1
    parser = argparse.ArgumentParser()
    add_settings(parser)

    flags = {flag for action in parser._actions for flag in action.option_strings}

    assert {f"--{name}" for name in FIELDS} <= flags
    assert {f"--{name.replace('_', '-')}" for name in FIELDS} <= flags


def test_flags_of_the_reference_are_understood():  # C1
    assert values(
        *("--data_conf=D", "--eval-conf", "E", "--model_conf", "M", "--arch-impl=A"),
        *("--epochs", "3", "--seed=42", "--device", "cuda:1", "--experiments-root=R"),
    ) == {
        "data_conf": "D",
        "eval_conf": "E",
        "model_conf": "M",
        "arch_impl": "A",
        "epochs": 3,
        "seed": 42,
        "device": "cuda:1",
        "experiments_root": "R",
    }


def test_text_flags_keep_what_was_typed():
    assert values("--run_name=007", "--notes", "{x}", "--group=null", "--best_mode=None") == {
        "run_name": "007",
        "notes": "{x}",
        "group": None,
        "best_mode": None,
    }


def test_switches_need_no_value():
    assert values("--dry_run", "--tensorboard=false", "--deterministic", "true") == {
        "dry_run": True,
        "tensorboard": False,
        "deterministic": True,
    }


def test_repeated_flags_add_up_and_tags_are_split():
    assert values("--tags=a,b", "--tags", "c", "--modules=m,n", "--modules=o") == {
        "tags": ["a", "b", "c"],
        "modules": ["m,n", "o"],
    }


def test_set_keeps_types():  # C6
    assert values(
        "--set", "a.b=[1, 2]", "--set", "c=k=v", "--set", "d=null", "--set=e=${HOME}"
    ) == {
        "a.b": [1, 2],
        "c": "k=v",
        "d": None,
        "e": "${HOME}",
    }


@pytest.mark.parametrize(
    "tokens",
    [
        ["--model.params.beta=1e-05"],  # ${args}
        ["--model.params.beta", "1e-05"],  # ${args_no_equals}
        ["model.params.beta=1e-05"],  # ${args_no_hyphens}
        ['{"model.params.beta": 1e-05}'],  # ${args_json}
    ],
)
def test_every_form_of_sweep_arguments_is_understood(tokens):
    assert values(*tokens) == {"model.params.beta": 1e-05}


@pytest.mark.parametrize("form", ["args", "args_no_equals", "args_no_hyphens", "args_json"])
def test_arguments_as_the_agent_of_wandb_writes_them_are_understood(form):  # W3
    from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

    swept = {
        "model.params.beta": 1e-05,
        "model.params.z_dim": 32,
        "model": {"params": {"layers": [1, 2], "name": None, "x": {"y": "a b"}}},
        "data.train.params.split": "train+valid",
        "eval.E.params.resample": True,
    }
    command = {"args": {key: {"value": value} for key, value in swept.items()}}

    assert values(*create_sweep_command_args(command)[form]) == swept


def test_json_file_of_a_sweep_is_read(tmp_path):
    path = tmp_path / "config-1.json"
    path.write_text('{"model.params.beta": 0.5, "seed": 3}')

    assert values(str(path)) == {"model.params.beta": 0.5, "seed": 3}


def test_switch_of_a_sweep_without_a_value_is_true():  # ${args_no_boolean_flags}
    assert values("--model.params.flag", "--model.params.x=-1") == {
        "model.params.flag": True,
        "model.params.x": -1,
    }


def test_negative_number_is_a_value():
    assert values("--model.params.x", "-1", "--seed", "-1") == {"model.params.x": -1, "seed": -1}


def test_origin_of_each_override_is_what_was_typed():
    origins = [str(override.origin) for override in read("--seed=1", "--model.a=2", "b.c=3")]

    assert origins == ["argument --seed", "argument --model.a", "argument b.c"]


def test_yaml_files_are_configuration_files_wherever_they_stand():  # C16: jade check CONF
    assert values("one.yml") == {"config": ["one.yml"]}
    assert values("--config=one.yml", "two.yaml", "--seed=1", "config=three.yml") == {
        "config": ["one.yml", "two.yaml", "three.yml"],
        "seed": 1,
    }


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (
            ["-epochs", "3"],
            "There is no flag -epochs: flags begin with two dashes. Did you mean --epo",
        ),
        (["-x=3"], "There is no flag -x=3"),
        (["two words"], "The argument 'two words' is not understood"),
        (["--="], "a key must follow the dashes"),
        (["--", "x"], "a key must follow the dashes"),
        (["--epochs"], "Argument --epochs: expected one argument."),
        (["{'a': 1}"], "argument {...} is not JSON"),
        (["--set", "a"], "argument --set: 'a' is not of the form key=value."),
        (["--a.b=[1"], "argument --a.b: a.b is not understood"),
    ],
)
def test_argument_that_is_not_understood_is_refused(tokens, text):  # L7
    assert text in message(*tokens)


def test_json_that_is_no_object_is_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("[1]")

    assert "must hold an object" in message(str(path))


def test_unknown_flag_is_passed_on_to_be_refused():  # L7
    assert values("--epoch", "3", "--seed=1") == {"seed": 1, "epoch": 3}
    assert values("--verbose") == {"verbose": True}
