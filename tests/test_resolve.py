import copy

import pytest

from jade.config import Sources, load
from jade.errors import ConfigError, VariableError
from jade.origin import Origin
from jade.overrides import Override
from jade.resolve import resolve
from jade.settings import FIELDS
from jade.yaml_file import parse, render

FILES = {"model_conf": "model.yml", "data_conf": "data.yml", "eval_conf": "eval.yml"}


class Resolving:
    """Resolve the small project with some overrides, environment and sweep."""

    def __init__(self, tmp_path):
        self._sweep_path = tmp_path / "sweep.yaml"

    def __call__(self, arguments=None, *, sweep=None, environ=None, files=FILES, sections=None):
        given = {**files, "epochs": 1, **(arguments or {})}
        environ = dict(environ or {})
        if sweep is not None:
            self._sweep_path.write_text(render({k: {"value": v} for k, v in sweep.items()}))
            environ["WANDB_SWEEP_PARAM_PATH"] = str(self._sweep_path)
        overrides = [Override(k, v, Origin(f"argument --{k}")) for k, v in given.items()]
        sources = Sources(arguments=overrides, environ=environ, sections=sections or {})
        return resolve(load(sources))

    def message(self, *args, **kwargs):
        with pytest.raises(ConfigError) as caught:
            self(*args, **kwargs)
        return str(caught.value)


@pytest.fixture
def resolving(project, tmp_path):
    return Resolving(tmp_path)


def test_resolved_configuration_is_complete(resolving):  # C11
    resolved = resolving()

    assert list(resolved.values)[: len(FIELDS)] == list(FIELDS)
    assert resolved.values["backup_every"] == "5 minutes"
    assert resolved.values["model"] == {
        "class": "LineTrainer",
        "params": {"lr": 0.1, "batch_size": 4, "shuffle": True},
    }
    assert resolved.values["eval"]["Error"]["params"]["batch_size"] == 256
    assert resolved.values["eval"]["Error"]["evaluate_every"] == 1
    assert str(resolved.origin_of(("model", "params", "shuffle"))) == "default"
    assert str(resolved.origin_of(("model", "params", "lr"))) == "model.yml:3"


def test_frozen_configuration_resolves_to_itself(project, resolving):  # C15
    first = resolving({"model.lr": 0.5, "arch_impl": "small", "seed": 3})
    project.write("frozen.yml", render(first.frozen))

    second = resolving({"config": "frozen.yml"}, files={})

    assert second.frozen == first.frozen


def test_sections_of_python_code_resolve_and_are_not_changed(resolving):  # C14
    sections = {
        "model": {"class": "LineTrainer", "params": {"lr": 0.5}},
        "data": {"train": {"class": "Points"}},
        "eval": {
            "E": {"class": "SquaredError", "params": {"evaluate_on": "train", "evaluate_every": 3}}
        },
    }
    unchanged = copy.deepcopy(sections)

    resolved = resolving(files={}, sections=sections)
    resolved.values["model"]["params"]["lr"] = 9

    assert sections == unchanged
    assert str(resolved.origin_of(("model", "params", "lr"))) == "argument model="
    assert str(resolved.origin_of(("model", "params", "shuffle"))) == "default"


def test_resolving_twice_gives_the_same(project, resolving):  # C14
    configuration = load(
        Sources(arguments=[Override(k, v, Origin("a")) for k, v in {**FILES, "epochs": 1}.items()])
    )
    values = copy.deepcopy(configuration.values)

    first, second = resolve(configuration), resolve(configuration)

    assert configuration.values == values
    assert first.frozen == second.frozen
    assert first.model.target is second.model.target


# Precedence


def test_precedence_from_default_to_sweep(project, resolving):  # C5
    project.write("base.yml", "device: base\nmodel: {class: LineTrainer, params: {lr: 1}}\n")
    project.write(
        "top.yml",
        "default_configs: base.yml\ndevice: file\ndata: {train: {class: Points}}\nmodel: {params: {lr: 2}}\n",
    )

    def device(*layers):
        arguments = {"config": "top.yml"}
        if "argument" in layers:
            arguments["device"] = "argument"
        return resolving(
            arguments,
            files={},
            environ={"DEVICE": "environment"} if "environment" in layers else {},
            sweep={"device": "sweep"} if "sweep" in layers else None,
        ).settings.device

    assert resolving().settings.device == "auto"
    assert device() == "file"
    assert device("environment") == "environment"
    assert device("environment", "argument") == "argument"
    assert device("environment", "argument", "sweep") == "sweep"


def test_sweep_wins_over_an_argument_in_any_form(resolving):  # C5, T29
    short, full = "model.lr", "model.params.lr"
    for argument in (short, full):
        for swept in (short, full):
            resolved = resolving({argument: 0.3}, sweep={swept: 0.7})

            assert resolved.model.params["lr"] == 0.7
            assert str(resolved.origin_of(("model", "params", "lr"))) == "sweep"


def test_replaced_values_are_reported(resolving):  # C5, T29
    resolved = resolving({"seed": 42, "model.lr": 0.3}, sweep={"seed": 7})

    assert resolved.configuration.notices == [
        "seed = 7 (sweep) replaces 42 (argument --seed)",
        "model.params.lr = 0.3 (argument --model.lr) replaces 0.1 (model.yml:3)",
    ]


def test_equal_values_from_arguments_and_sweep_are_no_conflict(resolving):  # T28
    resolved = resolving({"model.lr": 0.3, "seed": 1}, sweep={"model.lr": 0.3, "seed": 1})

    assert len(resolved.configuration.notices) == 1


def test_default_that_is_replaced_is_not_reported(resolving):
    assert resolving({"model.shuffle": False}).configuration.notices == []


# Overrides


def test_every_form_of_override_reaches_its_value(resolving):  # C6, W2
    resolved = resolving(
        {
            "model": {"params": {"lr": 0.5}},
            "data.train.n": 20,
            "eval.Error.params.n_samples": 5,
            "eval.Error.evaluate_every": "2 epochs",
            "log-loss-every": 7,
        }
    )

    assert resolved.model.params["lr"] == 0.5
    assert resolved.data["train"].params["n"] == 20
    assert resolved.evaluations["Error"].params["n_samples"] == 5
    assert resolved.evaluate_every == {"Error": "2 epochs"}
    assert resolved.settings.log_loss_every == "7"


def test_override_may_set_null_and_variables(resolving):  # C6
    resolved = resolving(
        {"eval.Error.n_samples": None, "data.train.n": "${N}", "run_name": "$NAME"},
        environ={"N": "6", "NAME": "007"},
    )

    assert resolved.evaluations["Error"].params["n_samples"] is None
    assert resolved.data["train"].params["n"] == 6
    assert resolved.settings.run_name == "007"


def test_class_can_be_overridden_before_its_parameters(project, resolving):
    project.write(
        "modules/models/other.py",
        "from jade import Trainer\nclass Other(Trainer):\n    def initialize(self, gamma=1, lr=2, batch_size=3): ...\n",
    )

    resolved = resolving({"model.gamma": 5, "model.class": "Other"})

    assert resolved.model.target.__name__ == "Other"
    assert resolved.model.params == {"lr": 0.1, "batch_size": 4, "gamma": 5}


def test_evaluations_can_be_taken_away(resolving):
    assert resolving({"eval": {}}).evaluations == {}
    assert resolving({"eval": None}).evaluations == {}


def test_places_in_lists_can_be_overridden(project, resolving):
    project.write(
        "data.yml",
        "train: {class: Subset, params: {dataset: {class: Points}, indices: [1, 2]}}\ntest: {class: Points}\n",
    )

    resolved = resolving({"data.train.params.indices.0": 5, "data.train.dataset.n": 6})

    assert resolved.data["train"].params["indices"] == [5, 2]
    assert resolved.data["train"].build().dataset.x.shape == (6, 2)
    assert resolved.expanded["data"]["train"]["params"]["dataset"] == {
        "class": "Points",
        "params": {"n": 6, "seed": 0},
    }


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"model.params.lr": "fast"},
            "model.params.lr (argument --model.params.lr): expected float",
        ),
        ({"model.bata": 1}, "Argument --model.bata: no 'bata' in model."),
        ({"params.seed": 1}, "write one of --data.test.params.seed, --data.train.params.seed"),
        ({"data.seed": 1}, "fits more than one parameter"),
        ({"model.params.lr.x": 1}, "no 'x' in model.params.lr"),
        (
            {"model.params.class": "X", "model.params.lr.class": "X"},
            "model.params.lr is 0.1, which has",
        ),
        ({"model": 3}, "model (argument --model): expected a description"),
        ({"data": [1]}, "data (argument --data): expected descriptions by name, not [1]."),
        ({"eval.Error": None}, "eval.Error (argument --eval.Error): expected a description"),
    ],
)
def test_wrong_override_is_refused(resolving, arguments, text):  # C6, C10
    assert text in resolving.message(arguments)


# Settings


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"epochs": None}, "epochs (argument --epochs): How long? Give --epochs N or --train_for"),
        ({"epochs": -1}, "epochs (argument --epochs): must not be negative, got -1."),
        ({"epochs": "x"}, "expected int or null, not 'x'."),
        ({"patience": 3}, "it needs best_metric"),
        (
            {"patience": 0, "best_metric": "Error"},
            "patience (argument --patience): must be at least 1",
        ),
        ({"keep_last": 0}, "keep_last (argument --keep_last): must be at least 1, got 0."),
        ({"best_metric": "Eror"}, "no evaluation logs 'Eror'. Did you mean 'Error'?"),
        ({"best_metric": "x", "eval": {}}, "There are no evaluations: give --eval_conf FILE."),
        ({"log_loss_every": "often"}, "'often' is not an amount. Write a number of epochs"),
        (
            {"checkpoint_every": 0},
            "checkpoint_every (argument --checkpoint_every): must be greater",
        ),
        ({"train_for": "5 minuts"}, "has the unit 'minuts'. Did you mean 'minute"),
        ({"eval.Error.evaluate_every": "2 epcohs"}, "Did you mean 'epochs'?"),
        ({"eval.Error.evaluate_every": []}, "[] is not an amount"),
        ({"eval.Error.evaluate_every": None}, "None is not an amount"),
        ({"modules": ["nowhere"]}, "modules (argument --modules): there is no folder nowhere."),
    ],
)
def test_wrong_setting_is_refused(resolving, arguments, text):
    assert text in resolving.message(arguments)


def test_counter_of_the_trainer_is_a_unit(resolving):
    assert resolving({"train_for": "3 samples"}).settings.train_for == "3 samples"
    assert resolving({"train_for": 0, "epochs": None}).settings.train_for == "0"


def test_metric_below_an_evaluation_is_known(resolving):
    assert resolving({"best_metric": "Error/part"}).settings.best_metric == "Error/part"


def test_missing_inputs_are_all_named_by_their_flags(resolving):  # C2
    message = resolving.message({"epochs": None}, files={})

    assert "--epochs" in message
    assert "--model_conf" in message
    assert "--data_conf" in message


def test_unknown_top_level_keys_suggest_sections_and_settings(project, resolving):  # C10
    project.write("top.yml", "modle: {class: A}\nepcohs: 3\nxyz: 1\n")

    message = resolving.message({"config": "top.yml"})

    assert "modle (top.yml:1): unknown key. Did you mean 'model'?" in message
    assert "epcohs (top.yml:2): unknown key. Did you mean 'epochs'?" in message
    assert "xyz (top.yml:3): unknown key. Known are the sections model, data" in message


def test_modules_can_be_several_folders_with_variables(project, resolving):
    project.write("more/extra.py", "class Extra: pass\n")

    resolved = resolving({"modules": ["modules", "$MORE"]}, environ={"MORE": "more"})

    assert [root.name for root in resolved.index.roots] == ["modules", "more"]


def test_modules_are_found_from_any_working_directory(project, resolving, monkeypatch):  # K4
    monkeypatch.chdir("/")
    files = {key: str(project.root / name) for key, name in FILES.items()}

    assert resolving(files=files).model.target.__name__ == "LineTrainer"


def test_everything_wrong_is_in_one_message(project, resolving):
    project.write("model.yml", "class: LineTrainer\nparams: {lr: fast, foo: 1}\n")
    project.write("data.yml", "train: {class: Pints}\ntest: {class: Points, params: {n: $UNSET}}\n")

    message = resolving.message({"keep_last": "x", "eval.Error.foo": 1})

    assert message.startswith("6 problems:")
    assert "UNSET for data.test.params.n (data.yml:2)" in message


# Variables


def test_only_variables_are_missing_is_a_variable_error(project, resolving):  # C7, T36
    project.write(
        "data.yml", "train: {class: Points, params: {n: $A, seed: '${B}'}}\ntest: {class: Points}\n"
    )

    with pytest.raises(VariableError) as caught:
        resolving({"run_name": "$C"})

    message = str(caught.value)
    assert "A for data.train.params.n (data.yml:1)" in message
    assert "B for data.train.params.seed (data.yml:1)" in message
    assert "C for run_name (argument --run_name)" in message


def test_variables_in_comments_are_not_looked_at(project, resolving):  # C7, T30
    project.write("model.yml", "# ${NOT_SET}\nclass: LineTrainer # $NOT_SET\n")

    assert resolving().model.params["lr"] == 0.1


def test_configuration_is_kept_in_both_forms(project, resolving):  # C8
    project.write("data.yml", "train: {class: Points, params: {n: $N}}\ntest: {class: Points}\n")
    project.write(
        "eval.yml", "E: {class: SquaredError, evaluate_every: $N, params: {evaluate_on: test}}\n"
    )

    resolved = resolving({"run_name": "$SECRET"}, environ={"N": "7", "SECRET": "hidden"})

    assert resolved.frozen["data"]["train"]["params"]["n"] == "$N"
    assert resolved.frozen["run_name"] == "$SECRET"
    assert "hidden" not in render(resolved.frozen)
    assert resolved.expanded["data"]["train"]["params"]["n"] == 7
    assert resolved.expanded["eval"]["E"]["evaluate_every"] == 7
    assert resolved.expanded["run_name"] == "hidden"
    assert parse(render(resolved.expanded), "x").values == resolved.expanded


def test_expanded_configuration_keeps_how_classes_were_named(project, resolving):
    project.write(
        "data.yml", "train: {class: modules/data/points.py:Points}\ntest: {class: Points}\n"
    )

    assert resolving().expanded["data"]["train"]["class"] == "modules/data/points.py:Points"


def test_missing_variable_of_evaluate_every_is_noted(project, resolving):
    project.write(
        "eval.yml", "E: {class: SquaredError, evaluate_every: $N, params: {evaluate_on: test}}\n"
    )

    assert "N for eval.E.evaluate_every (eval.yml:1)" in resolving.message()


# Sections


def test_evaluate_every_among_the_params_is_understood(project, resolving):  # T21
    project.write(
        "eval.yml",
        "E:\n  class: SquaredError\n  params:\n    evaluate_on: test\n    evaluate_every: 3\n",
    )

    resolved = resolving()

    assert resolved.evaluate_every == {"E": 3}
    assert "evaluate_every" not in resolved.values["eval"]["E"]["params"]
    assert str(resolved.origin_of(("eval", "E", "evaluate_every"))) == "eval.yml:5"


def test_evaluate_every_in_both_places_is_refused(project, resolving):  # T21
    project.write(
        "eval.yml",
        "E:\n  class: SquaredError\n  evaluate_every: 2\n  params: {evaluate_on: test, evaluate_every: 3}\n",
    )

    assert (
        "eval.E.params.evaluate_every (eval.yml:4): eval.E.evaluate_every (eval.yml:3) is given, too"
        in resolving.message()
    )


def test_loggers_of_the_user_are_checked(project, resolving):
    project.write(
        "modules/logs.py",
        """
        from jade.loggers.base import Logger

        class Mine(Logger):
            def __init__(self, path: str): ...
            def start(self, info): ...
            def log(self, metrics, step): ...
            def finish(self, exit_code): ...
        """,
    )
    project.write("top.yml", "loggers: {mine: {class: Mine, params: {path: here}}}\n")

    resolved = resolving({"config": "top.yml"})

    assert resolved.loggers["mine"].params == {"path": "here"}


def test_strict_false_drops_and_says_so(project, resolving):  # C10
    project.write("model.yml", "class: LineTrainer\nstrict: false\nparams: {lr: 0.5, extra: 1}\n")

    resolved = resolving()

    assert "extra" not in resolved.model.params
    assert resolved.configuration.warnings == [
        "model.params.extra (model.yml:3): dropped, LineTrainer.initialize has no 'extra'."
    ]


def test_broken_file_that_is_not_used_is_only_a_warning(project, resolving, caplog):  # K4
    project.write("modules/data/broken.py", "def x(:\n")

    resolving()

    assert "Left out, no class of it is used: modules/data/broken.py:1" in caplog.text


def test_warnings_of_files_reach_the_configuration(project, resolving):
    project.write(
        "eval.yml", "E: {class: SquaredError, params: {evaluate_on: test, n_samples: None}}\n"
    )

    assert "None is read as null" in resolving().configuration.warnings[0]
