import pytest

from jade import errors
from jade.errors import ComponentError, ConfigError, closest, raise_all, suggest


def test_every_error_is_a_jade_error():
    own = [
        item for item in vars(errors).values() if getattr(item, "__module__", "") == "jade.errors"
    ]
    classes = [item for item in own if isinstance(item, type)]

    assert len(classes) == 15
    assert all(issubclass(item, errors.JadeError) for item in classes)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError, 2),
        (errors.VariableError, 2),
        (errors.ComponentError, 2),
        (errors.DeviceError, 2),
        (errors.CheckpointError, 1),
        (errors.MisfitError, 2),
        (errors.TrainingError, 1),
        (errors.NonFiniteLossError, 1),
    ],
)
def test_exit_code_belongs_to_the_class(error, code):  # C18
    assert error("text").exit_code == code


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("epcohs", ["epochs", "seed"], "epochs"),
        ("LINETRAINER", ["LineTrainer"], "LineTrainer"),
        ("zzz", ["epochs"], None),
        ("Variational", ["VariationalAutoencoderTrainer", "Net"], "VariationalAutoencoderTrainer"),
        ("of", ["online", "offline"], "offline"),
        ("o", ["online"], None),
        ("", ["online"], None),
        ("di", ["disabled", "distributed"], None),
    ],
)
def test_closest_finds_typing_errors_and_shortened_names_only(name, known, meant):
    assert closest(name, known) == meant


def test_closest_with_more_likeness_finds_less():
    assert closest("hourly", ["hours"]) == "hours"
    assert closest("hourly", ["hours"], likeness=0.8) is None


def test_suggest_lists_the_known_in_order():
    assert suggest("bta", ["z_dim", "beta"]) == " Did you mean 'beta'? Known: beta, z_dim."


def test_suggest_without_a_likely_name_only_lists():
    assert suggest("xyz", ["beta"]) == " Known: beta."


def test_suggest_with_nothing_known_says_nothing():
    assert suggest("xyz", []) == ""


def test_suggest_shows_the_text_behind_names_but_no_objects():
    assert suggest("x", {"Net": "nets.py"}) == " Known: Net (nets.py)."
    assert suggest("x", {"Net": object()}) == " Known: Net."


def test_suggest_cuts_long_lists_and_tells_how_many_there_are():
    text = suggest("zzz", [f"name{index:02d}" for index in range(20)])

    assert text.endswith("name11, ... (20 in all).")


def test_raise_all_without_problems_does_nothing():
    raise_all([])


def test_raise_all_with_one_problem_is_that_problem():
    with pytest.raises(ComponentError, match=r"^it is wrong$"):
        raise_all(["it is wrong", "it is wrong"], ComponentError)


def test_raise_all_numbers_several_problems_and_indents_their_lines():
    with pytest.raises(ConfigError) as caught:
        raise_all(["first\nmore", "second"])

    assert str(caught.value) == "2 problems:\n  1. first\n     more\n  2. second"
