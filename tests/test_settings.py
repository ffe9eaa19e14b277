import dataclasses

import pytest

from jade.settings import FIELDS, FILES, TYPES, Settings, canonical, fit, from_values


def test_every_setting_has_help_and_a_group():
    assert all(field.metadata["help"] and field.metadata["group"] for field in FIELDS.values())
    assert set(FILES) < set(FIELDS)


def test_every_default_fits_its_own_type():
    for name, field in FIELDS.items():
        assert fit(name, field.default) == (field.default, None)


@pytest.mark.parametrize(
    ("name", "value", "fitted"),
    [
        ("epochs", 3, 3),
        ("epochs", 3.0, 3),
        ("epochs", None, None),
        ("device", None, "auto"),  # null is the default where nothing is no value
        ("seed", 0, 0),
        ("seed", -1, -1),
        ("tags", "a, b", ("a", "b")),
        ("tags", ["a"], ("a",)),
        ("modules", "my modules, old", ("my modules, old",)),
        ("checkpoint_every", 1234567, "1234567"),
        ("log_loss_every", 0.5, "0.5"),
        ("run_name", 42, "42"),
        ("min_delta", 1, 1.0),
        ("wandb", "offline", "offline"),
    ],
)
def test_value_is_fitted_to_its_setting(name, value, fitted):
    assert fit(name, value) == (fitted, None)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("epochs", "ten", "expected int or null, not 'ten'. For a part of an epoch"),
        ("epochs", 1.5, "there is --train_for '0.5 epochs'."),
        ("epochs", True, "expected int or null, not True."),
        ("wandb", "of", "Did you mean 'offline'?"),
        ("deterministic", "yes", "expected true or false, not 'yes'. Write true."),
        ("tags", 3, "expected list of text, not 3. Write [3]."),
        ("device", 1.5, "expected text"),
    ],
)
def test_value_that_does_not_fit_is_a_problem(name, value, problem):
    assert problem in fit(name, value)[1]


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        (("arch-impl",), ("arch_impl",)),
        (("trainer", "params", "lr"), ("model", "params", "lr")),
        (("architectures",), ("arch_impl",)),
        (("model", "params", "a-b"), ("model", "params", "a-b")),
        (("un-known",), ("un-known",)),
        ((3,), ("3",)),
    ],
)
def test_first_part_of_a_key_has_one_spelling(path, spelled):  # C1: `_` and `-`, C3: trainer
    assert canonical(path) == spelled


def test_settings_are_made_of_the_values_that_are_settings():
    settings = from_values({"epochs": 3, "model": {}})

    assert settings == Settings(epochs=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.epochs = 4


def test_types_and_fields_agree():
    assert TYPES.keys() == FIELDS.keys()
