"""Facts about W&B's sweeps that bind JADE: each is stated here, by the installed client if it can.

More of them stand where they take longer to show: tests/end_to_end/test_wandb_sweeps.py (signals,
exit codes, preemption), tests/loggers/test_wandb_logger.py (the address of W&B).
"""

import os

import pytest
import yaml

from jade.command_line import collect_overrides
from jade.commands.base import make_run_parser
from jade.config import Sources, load
from jade.origin import Origin
from jade.overrides import Override
from jade.resolve import resolve
from jade.run_dir import RunDir
from jade.saved_runs import load_config

VALUES = {
    "model.params.lr": 1e-05,
    "model.params.shuffle": False,
    "model.params.batch_size": 3,
    "notes": None,
    "tags": ["a", "b"],
    "seed": 0,
}
# Both forms of one value: as the sweep has it, and nested in the configuration.
LR = ("model", "params", "lr")


def agent_arguments(values, form="args"):
    """Return what `wandb agent` puts in the place of ``${args}`` and the like."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

    command = {"args": {key: {"value": value} for key, value in values.items()}}
    return create_sweep_command_args(command)[form]


def resolve_arguments(arguments, **environ):
    parsed = make_run_parser("jade train", "train").parse_known_args(arguments)
    overrides = collect_overrides(*parsed)
    return resolve(load(Sources(arguments=overrides, environ={**os.environ, **environ})))


BASE = [
    "--model_conf=model.yml",
    "--data_conf=data.yml",
    "--eval_conf=eval.yml",
    "--arch_impl=modules/architectures/small.py",
    "--epochs=2",
]


@pytest.mark.parametrize("form", ["args", "args_no_hyphens", "args_json", "args_no_boolean_flags"])
def test_fact_1_agents_pass_python_values_which_keep_their_types(project, form):
    passed = agent_arguments(VALUES, form)
    if form == "args":
        # Neither YAML nor JSON would read these as they are meant.
        assert {"--model.params.lr=1e-05", "--notes=None", "--tags=['a', 'b']"} <= set(passed)
        assert yaml.safe_load("1e-05") == "1e-05"
        assert yaml.safe_load("None") == "None"
    resolved = resolve_arguments([*BASE, *passed])
    # A switch that is off is passed as nothing at all by ${args_no_boolean_flags}.
    shuffle = form == "args_no_boolean_flags"
    assert resolved.values["model"]["params"] == {"lr": 1e-05, "batch_size": 3, "shuffle": shuffle}
    assert (resolved.values["notes"], resolved.values["seed"]) == (None, 0)
    assert resolved.settings.tags == ("a", "b")


def test_fact_1_nested_parameters_are_one_argument(project):
    passed = agent_arguments({"model": {"params": {"lr": 1e-05, "batch_size": 3}}})
    assert passed == ["--model={'params': {'lr': 1e-05, 'batch_size': 3}}"]
    params = resolve_arguments([*BASE, *passed]).values["model"]["params"]
    assert (params["lr"], params["batch_size"]) == (1e-05, 3)


@pytest.fixture
def parameter_file(tmp_path):
    """Write values as the agent does, to the file that WANDB_SWEEP_PARAM_PATH names."""
    from wandb.sdk.lib import config_util

    def write(values):
        path = tmp_path / "sweep" / "config.yaml"
        config_util.save_config_file_from_dict(
            str(path), {key: {"value": value} for key, value in values.items()}
        )
        return str(path)

    return write


def test_fact_2_the_file_of_the_agent_is_read_and_wins_over_arguments(project, parameter_file):
    path = parameter_file(VALUES)
    for arguments in (BASE, [*BASE, *agent_arguments(VALUES)], [*BASE, "--model.lr=7"]):
        resolved = resolve_arguments(arguments, WANDB_SWEEP_PARAM_PATH=path)
        assert resolved.values["model"]["params"]["lr"] == 1e-05
        assert resolved.origin_of(LR) == Origin("sweep")


def test_fact_2_a_sweep_can_be_played_without_a_server(project, parameter_file, monkeypatch):
    from jade.cli import main

    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", parameter_file({"model.params.lr": 0.25}))
    monkeypatch.setenv("WANDB_SWEEP_ID", "s1")
    monkeypatch.setenv("WANDB_RUN_ID", "r1")
    assert main(["train", *BASE, "--wandb=disabled"]) == 0
    assert load_config(RunDir(project.root / "experiments" / "r1"))["model"]["params"]["lr"] == 0.25


# The client leaves the file of the agent open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_fact_3_the_nested_value_is_the_swept_one(
    wandb_online, parameter_file, tmp_path, monkeypatch
):
    """The client keeps both forms, and whoever gives it a default has a stale one on record."""
    from jade.loggers import RunInfo
    from jade.loggers.wandb_logger import WandbLogger

    sweep = wandb_online.create_sweep("method: grid\nparameters: {a: {values: [1]}}\n")
    path = parameter_file({"model.params.beta": 0.1})
    environ = {"WANDB_SWEEP_ID": sweep, "WANDB_RUN_ID": "run1", "WANDB_SWEEP_PARAM_PATH": path}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    logger = WandbLogger("online")
    # The configuration is resolved before W&B sees it, so it says what the sweep says.
    logger.start(RunInfo("run1", tmp_path, {"model": {"params": {"beta": 0.1}}}))
    logger.finish(0)
    config = wandb_online.runs["run1"].config
    assert config["model.params.beta"] == 0.1
    assert config["model"]["params"]["beta"] == 0.1


def test_fact_4_the_whole_configuration_comes_back_as_arguments_and_changes_nothing(project):
    first = resolve_arguments([*BASE, "--model.lr=0.5", "--seed=3", "--tags=a,b"])
    handed_out = {
        **first.frozen,
        "model_conf": "model.yml",
        "model.params.lr": 0.5,
        "_wandb": {"desc": None, "t": {"1": [1, 2]}},
        "wandb_version": 1,
    }
    again = resolve_arguments([*BASE, *agent_arguments(handed_out)])
    assert again.frozen == first.frozen
    assert again.configuration.is_requeued
    assert not first.configuration.is_requeued
    once_more = resolve_arguments([*BASE, *agent_arguments(handed_out, "args_json")])
    assert once_more.frozen == first.frozen


@pytest.mark.parametrize(("code", "state"), [(75, "preempted"), (0, "finished")])
def test_fact_5_only_what_ends_with_another_code_than_0_is_handed_out_again(
    wandb_online, tmp_path, monkeypatch, code, state
):
    from jade.loggers import RunInfo
    from jade.loggers.wandb_logger import WandbLogger

    sweep = wandb_online.create_sweep("method: grid\nparameters: {a: {values: [1]}}\n")
    environ = {"WANDB_SWEEP_ID": sweep, "WANDB_RUN_ID": "run1"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    logger = WandbLogger("online")
    logger.start(RunInfo("run1", tmp_path, {"a": 1}))
    logger.mark_preempting()
    logger.finish(code)
    assert wandb_online.runs["run1"].state == state
    assert list(wandb_online.sweeps[sweep].requeued) == (["run1"] if code else [])


def test_fact_7_in_a_sweep_the_id_is_that_of_wandb(project, monkeypatch):
    from jade.cli import main

    monkeypatch.setenv("WANDB_SWEEP_ID", "s1")
    monkeypatch.setenv("WANDB_RUN_ID", "given-by-wandb")
    for _ in range(2):
        # The second time it is handed out again, and is at its end already.
        main(["train", *BASE, "--wandb=disabled", "--seed=1"])
    assert [path.name for path in (project.root / "experiments").iterdir()] == ["given-by-wandb"]


def test_fact_8_sweeps_with_a_scheduler_are_known(project):
    from jade.sweep.file import load_sweep

    path = project.write(
        "sweep.yml",
        """
        program: train.py
        method: custom
        scheduler: {engine: optuna}
        parameters: {seed: {values: [1, 2]}}
        """,
    )
    project.write("train.py", "")
    assert load_sweep(path) is not None


def test_override_of_a_swept_key_by_hand_is_told(project, parameter_file):
    path = parameter_file({"seed": 9})
    sources = Sources(
        arguments=[
            *(
                Override(p[2:].partition("=")[0], p.partition("=")[2], Origin("x"))
                for p in BASE[:4]
            ),
            Override("epochs", 2, Origin("x")),
            Override("seed", 42, Origin("argument --seed")),
        ],
        environ={**os.environ, "WANDB_SWEEP_PARAM_PATH": path},
    )
    configuration = resolve(load(sources)).configuration
    assert "seed = 9 (sweep) replaces 42 (argument --seed)" in configuration.notices
