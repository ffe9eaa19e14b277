import pytest

from jade.class_index import ClassIndex
from jade.errors import ConfigError
from jade.known_keys import KnownKeys
from jade.origin import Origin
from jade.overrides import Override, join_key

TRAINER = """
    from jade.trainer import Trainer

    class Open(Trainer):
        def initialize(self, lr=0.1, **more): ...

    class Optional(Trainer):
        def initialize(self, opts=None, table={}, full={"a": 1}): ...
"""


@pytest.fixture
def known(project):
    project.write("modules/models/open.py", TRAINER)

    def known(**sections):
        values = {
            "model": {"class": "LineTrainer", "params": {"lr": 0.1}},
            "data": {"train": {"class": "Points"}, "test": {"class": "Points"}},
            "eval": {"Error": {"class": "SquaredError", "params": {"evaluate_on": "test"}}},
            **sections,
        }
        return KnownKeys(values, ClassIndex([project.root / "modules"]))

    return known


def locate(known, key, origin="sweep"):
    return join_key(known.locate(Override(key, 1, Origin(origin))))


def message(known, key, origin="sweep"):
    with pytest.raises(ConfigError) as caught:
        locate(known, key, origin)
    return str(caught.value)


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("model.batch_size", "model.params.batch_size"),  # T1
        ("model.params.batch_size", "model.params.batch_size"),
        ("model.lr", "model.params.lr"),
        ("data.train.seed", "data.train.params.seed"),
        ("eval.Error.n_samples", "eval.Error.params.n_samples"),
        ("eval.n_samples", "eval.Error.params.n_samples"),
        ("eval.evaluate_every", "eval.Error.evaluate_every"),
        ("eval.Error.evaluate_every", "eval.Error.evaluate_every"),
        ("model.strict", "model.strict"),
    ],
)
def test_short_form_means_the_one_parameter_that_fits(known, short, full):  # C6, T1
    assert locate(known(), short) == full


def test_ambiguous_short_form_lists_the_candidates(known):  # C6
    assert message(known(), "data.seed") == (
        "Override 'data.seed' (sweep) fits more than one parameter: data.test.params.seed, "
        "data.train.params.seed. Write which one."
    )


def test_params_without_a_section_name_the_datasets_that_have_it(known):  # T2
    assert message(known(), "params.seed") == (
        "Override 'params.seed' (sweep) stands in no section: write one of "
        "data.test.params.seed, data.train.params.seed."
    )


def test_bare_parameter_names_its_full_key(known):
    assert message(known(), "lr") == (
        "Override 'lr' (sweep) stands in no section: write model.params.lr."
    )
    assert "Argument --lr stands in no section: write --model.params.lr." in message(
        known(), "lr", "argument --lr"
    )


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("model.params.batchsize", "Did you mean 'model.params.batch_size'?"),
        ("model.batchsize", "Did you mean 'model.params.batch_size'?"),
        ("model.params.xyz", "no 'xyz' in model.params. Known: model.params.batch_size, "),
        ("data.trian.params.seed", "Did you mean 'data.train.params.seed'?"),
        ("data.train.parms.n", "Did you mean 'data.train.params.n'?"),
        ("eval.Error.params.n_sample", "Did you mean 'eval.Error.params.n_samples'?"),
        ("model.params.lr.x", "no 'x' in model.params.lr. Known: model.params.lr."),
        ("model.params.lr[0]", "An item of a list is written lr.0."),
        ("model.params.tags", "It is a setting of the run: --tags."),
        ("modl.class", "there is no section 'modl'. Did you mean 'model'?"),
        ("epcohs", "is no setting. Did you mean 'epochs'?"),
    ],
)
def test_unknown_key_suggests_what_was_meant(known, key, text):  # C6, C10
    assert text in message(known(), key)


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("epoch", "There is no flag --epoch. Did you mean --epochs?"),
        ("log-loss", "There is no flag --log-loss. Did you mean --log_loss_every?"),
        ("qqq", "There is no flag --qqq. `jade train --help` lists them"),
    ],
)
def test_unknown_flag_is_called_a_flag(known, flag, text):  # L7
    assert text in message(known(), flag, f"argument --{flag}")
    assert text in message(known(), flag, f"argument --{flag} without a value")


def test_class_with_open_parameters_takes_any_key(known):
    keys = known(model={"class": "Open"})

    assert locate(keys, "model.params.anything") == "model.params.anything"
    assert locate(keys, "model.params.deep.er") == "model.params.deep.er"
    assert "no 'anything' in model" in message(keys, "model.anything")


def test_parameter_that_is_a_mapping_takes_new_keys(known):
    keys = known(model={"class": "LineTrainer", "params": {"lr": {"a": 1}}})

    assert locate(keys, "model.params.lr.b") == "model.params.lr.b"
    assert locate(keys, "model.params.lr.c.d") == "model.params.lr.c.d"


def test_parameter_without_a_value_may_become_a_mapping(known):
    keys = known(model={"class": "Optional"})

    assert locate(keys, "model.params.opts.a") == "model.params.opts.a"
    assert locate(keys, "model.params.table.a.b") == "model.params.table.a.b"
    assert "no 'b' in model.params.full" in message(keys, "model.params.full.b")


def test_nested_descriptions_are_known_also_in_lists(known):  # K8
    data = {
        "train": {
            "class": "ConcatDataset",
            "params": {"datasets": [{"class": "Points"}, {"x": {"class": "Points"}}]},
        },
        "test": {"class": "Subset", "params": {"dataset": {"class": "Points"}}},
    }
    keys = known(data=data)

    assert locate(keys, "data.test.dataset.n") == "data.test.params.dataset.params.n"
    assert locate(keys, "data.train.params.datasets.0.class")
    assert "data.train.params.datasets.[1].x.params.n" in message(keys, "data.train.n")


def test_existing_value_needs_no_signature(known):
    keys = known(model={"class": "Nowhere", "params": {"x": [5]}}, data={"train": 3}, eval=None)

    assert locate(keys, "model.params.x.0") == "model.params.x.0"
    assert locate(keys, "model.x") == "model.params.x"
    assert "no 'y' in model.params" in message(keys, "model.params.y")


def test_list_has_only_the_places_that_it_has(known):
    keys = known(model={"class": "LineTrainer", "params": {"lr": [5]}})

    assert locate(keys, "model.params.lr.0") == "model.params.lr.0"
    assert "no '7' in model.params.lr" in message(keys, "model.params.lr.7")
