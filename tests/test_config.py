import copy
import os

import pytest

from jade.config import SWEEP, Configuration, Sources, freeze, load, read_sweep
from jade.errors import ConfigError, VariableError
from jade.origin import Origin
from jade.overrides import Override


def load_with(environ=None, sections=None, **arguments):
    overrides = [Override(k, v, Origin(f"argument --{k}")) for k, v in arguments.items()]
    return load(Sources(arguments=overrides, environ=environ or {}, sections=sections or {}))


def message_of(**arguments):
    with pytest.raises(ConfigError) as caught:
        load_with(**arguments)
    return str(caught.value)


def test_section_files_and_one_file_give_the_same_values(project):  # C3
    project.write(
        "all.yml",
        """
        model:
          class: LineTrainer
          params: {lr: 0.1, batch_size: 4}
        data:
          train: {class: Points}
          test: {class: Points, params: {seed: 1}}
        """,
    )

    single = load_with(config=["all.yml"])
    several = load_with(model_conf="model.yml", data_conf="data.yml")

    assert single.values == several.values


def test_later_file_wins_and_says_so(project):  # C3, C5
    project.write("one.yml", "model: {class: A, params: {lr: 1, beta: 1}}\nseed: 1\n")
    project.write("two.yml", "model: {params: {lr: 2, beta: 1}}\n")

    configuration = load_with(config=["one.yml", "two.yml"])

    assert configuration.values["model"]["params"] == {"lr": 2, "beta": 1}
    assert configuration.notices == ["model.params.lr = 2 (two.yml:1) replaces 1 (one.yml:1)"]


def test_files_can_name_the_files_of_sections(project):  # C3
    project.write("top.yml", "model_conf: model.yml\ndata_conf: $WHERE/data.yml\n")

    configuration = load_with(config="top.yml", environ={"WHERE": str(project.root)})

    assert configuration.values["model"]["class"] == "LineTrainer"
    assert "train" in configuration.values["data"]


def test_older_names_of_sections_are_understood(project):  # C3
    project.write("old.yml", "trainer: {class: LineTrainer}\narchitectures: nets.py\nseed: 3\n")

    configuration = load_with(config="old.yml")

    assert configuration.values == {
        "model": {"class": "LineTrainer"},
        "arch_impl": "nets.py",
        "seed": 3,
    }
    assert configuration.origins[("model", "class")] == Origin("old.yml", 1)


def test_environment_wins_over_files_and_says_so(project):  # C5, C9
    project.write("top.yml", "device: cpu\nexperiments_root: here\n")

    configuration = load_with(config="top.yml", environ={"DEVICE": "mps", "EXPERIMENTS_ROOT": ""})

    assert configuration.values == {"device": "mps", "experiments_root": "here"}
    assert configuration.notices == [
        "device = 'mps' (environment variable DEVICE) replaces 'cpu' (top.yml:1)"
    ]


def test_env_file_is_read_below_the_environment(project):  # C9
    project.write("my.env", "A=file\nB=file\nDEVICE=mps\n")

    configuration = load_with(env_file="my.env", environ={"B": "real"})

    assert configuration.environ == {"A": "file", "B": "real", "DEVICE": "mps"}
    assert configuration.values == {"device": "mps"}


def test_env_file_can_be_named_in_a_file(project):  # nothing is silently ignored
    project.write("my.env", "A=file\n")
    project.write("top.yml", "env_file: ${NAME:-my}.env\n")

    assert load_with(config="top.yml").environ == {"A": "file"}


def test_sections_of_python_code_are_copied_and_have_an_origin(project):  # C14
    model = {"class": "LineTrainer", "params": {"layers": (1, 2), "opt": {"a": 1}}}
    unchanged = copy.deepcopy(model)

    configuration = load_with(sections={"model": model})
    configuration.values["model"]["params"]["opt"]["a"] = 2

    assert model == unchanged
    assert configuration.values["model"]["params"]["layers"] == [1, 2]
    assert str(configuration.origin(("model", "params", "opt", "a"))) == "argument model="
    assert configuration.where(("model", "params")) == "model.params (argument model=)"


def test_object_in_a_section_of_python_code_is_refused(project):
    with pytest.raises(
        ConfigError, match=r"model\.params\.loss: an object of class object cannot be written down"
    ):
        load_with(sections={"model": {"class": "A", "params": {"loss": object()}}})


def test_section_of_python_code_that_is_no_mapping_is_refused(project):
    with pytest.raises(ConfigError, match="The section 'model' must be a mapping, not 3"):
        load_with(sections={"model": 3})


def test_mappings_and_dashes_of_overrides_become_dotted_keys(project):  # C6
    configuration = load_with(
        **{"trainer": {"params": {"beta": 0.1, "opt": {}}}, "log-level": "debug", "a.b": 1}
    )

    assert {o.key: o.value for o in configuration.overrides} == {
        "model.params.beta": 0.1,
        "model.params.opt": {},
        "log_level": "debug",
        "a.b": 1,
    }


def test_sweep_can_choose_files_with_either_spelling(project, sweep):
    project.write("other.yml", "class: Other\n")
    environ = sweep({"model-conf": {"value": "other.yml"}})

    configuration = load_with(model_conf="model.yml", environ=environ)

    assert configuration.values["model"]["class"] == "Other"


@pytest.fixture
def sweep(tmp_path):
    """Write what ``wandb agent`` writes for a run, by wandb's own function."""
    from wandb.sdk.lib.config_util import save_config_file_from_dict

    def sweep(arguments):
        path = tmp_path / "wandb" / "sweep-x" / "config-y.yaml"
        save_config_file_from_dict(str(path), arguments)
        return {"WANDB_SWEEP_PARAM_PATH": str(path)}

    return sweep


def test_sweep_values_are_read_from_the_file_of_the_agent(sweep):
    environ = sweep(
        {
            "model.params.beta": {"value": 1e-05},
            "model": {"value": {"params": {"z_dim": 32}}},
            "text": {"value": "1e-5"},
            "none": {"value": None},
            "flag": {"value": True},
            "_wandb": {"value": {"desc": None}},
        }
    )

    assert read_sweep(environ) == [
        Override("model.params.beta", 1e-05, SWEEP, swept=True),
        Override("model", {"params": {"z_dim": 32}}, SWEEP, swept=True),
        Override("text", 1e-05, SWEEP, swept=True),
        Override("none", None, SWEEP, swept=True),
        Override("flag", True, SWEEP, swept=True),
    ]


def test_sweep_without_values_is_empty(sweep):
    assert read_sweep(sweep({})) == []
    assert read_sweep({}) == []


def test_sweep_value_without_wrapping_is_taken_as_it_is(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("wandb_version: 1\nseed: 3\n")

    assert read_sweep({"WANDB_SWEEP_PARAM_PATH": str(path)}) == [
        Override("seed", 3, SWEEP, swept=True)
    ]


def test_sweep_file_that_is_missing_is_named_by_its_variable():
    with pytest.raises(ConfigError, match=r"WANDB_SWEEP_PARAM_PATH: /no/file\.yaml does not exist"):
        read_sweep({"WANDB_SWEEP_PARAM_PATH": "/no/file.yaml"})


def test_what_wandb_adds_to_arguments_is_ignored(project):
    assert load_with(**{"_wandb": {"x": 1}, "_wandb.y": 2, "wandb_version": 1}).overrides == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class: LineTrainer\n", "is it a file for --model_conf?"),
        ("config: x.yml\n", "f.yml:1: a file includes others by default_configs"),
        ("model: {}\ntrainer: {}\n", "f.yml has both 'trainer' and 'model'"),
        (
            "seed: 1\nmodel: m.yml\n",
            "f.yml:2: the section 'model' must be a mapping, not 'm.yml'. A",
        ),
        ("loggers: 3\n", "f.yml:1: the section 'loggers' must be a mapping, not 3."),
        ("method: grid\nparameters: {}\n", "f.yml is a sweep: check it with `jade check`"),
    ],
)
def test_file_that_is_no_configuration_is_refused(project, text, message):
    project.write("f.yml", text)

    assert message in message_of(config="f.yml")


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        ("model_conf", "model: {class: A}\n", "has a section 'model' of its own"),
        ("data_conf", "data: {train: {class: A}}\n", "give it with --config"),
        ("data_conf", "class: A\n", "train:\n      class: A"),
        ("eval_conf", "class: A\n", "MyName:\n      class: A"),
        ("model_conf", "train: {class: A}\ntest: {class: B}\n", "is it a file for --data_conf"),
    ],
)
def test_file_for_another_flag_is_recognised(project, flag, text, message):
    project.write("f.yml", text)

    assert message in message_of(**{flag: "f.yml"})


def test_dataset_may_be_called_like_its_section(project):
    project.write("f.yml", "data: {class: Points}\n")

    assert load_with(data_conf="f.yml").values["data"] == {"data": {"class": "Points"}}


def test_file_flag_that_is_no_path_is_refused(project):
    assert message_of(model_conf=3) == "--model_conf takes the path of a file, not 3."


def test_file_name_with_a_missing_variable_is_refused(project):
    with pytest.raises(VariableError, match=r"--model_conf: .* needs the variable NOWHERE"):
        load_with(model_conf="$NOWHERE/model.yml")


def test_where_names_the_nearest_known_place():
    configuration = Configuration(origins={("model",): Origin("m.yml", 3)})

    assert configuration.where(("model", "params", "x")) == "model.params.x (m.yml:3)"
    assert configuration.where(("seed",)) == "seed"


def test_frozen_values_are_copies_without_the_files():
    values = {"model": {"class": "A"}, "model_conf": "m.yml", "config": [], "seed": 1}

    frozen = freeze(values)
    frozen["model"]["class"] = "B"

    assert frozen == {"model": {"class": "B"}, "seed": 1}
    assert values["model"]["class"] == "A"


def test_loading_leaves_the_environment_alone(project):  # C14
    project.write(".env", "FROM_FILE=1\n")

    configuration = load_with(environ=dict(os.environ))

    assert configuration.environ["FROM_FILE"] == "1"
    assert "FROM_FILE" not in os.environ
