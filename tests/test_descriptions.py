import pytest

from jade.class_index import ClassIndex
from jade.components import Blueprint
from jade.config import Configuration
from jade.descriptions import DescriptionChecker
from jade.errors import ConfigError
from jade.fitter import Fitter
from jade.problems import Problems


class Checked:
    """A description with what checking it gave."""

    def __init__(self, project, path, description, environ=None):
        self.configuration = Configuration(environ=environ or {})
        self.problems = Problems(self.configuration)
        index = ClassIndex([project.root / "modules"])
        fitter = Fitter(self.configuration, self.problems)
        checker = DescriptionChecker(self.configuration, index, self.problems, fitter)
        self.description = description
        self.blueprint = checker.check(path, description)

    @property
    def message(self):
        with pytest.raises(ConfigError) as caught:
            self.problems.raise_all()
        return str(caught.value)


@pytest.fixture
def check(project):
    def check(description, path=("data", "train"), **environ):
        return Checked(project, path, description, environ)

    return check


def test_defaults_are_filled_in(check):  # C11
    checked = check({"class": "Points", "params": {"seed": 3}})

    assert checked.description["params"] == {"seed": 3, "n": 10}
    assert checked.blueprint.params == {"seed": 3, "n": 10}
    assert not checked.problems


def test_parameters_are_fitted_while_the_description_stays_unexpanded(check):  # C7, C8
    checked = check({"class": "${KIND}ts", "params": {"n": "$N", "seed": 3.0}}, KIND="Poin", N="7")

    assert checked.blueprint.params == {"n": 7, "seed": 3}
    assert checked.description["params"]["n"] == "$N"


def test_parameters_may_be_descriptions_anywhere(check):  # K8
    checked = check(
        {
            "class": "Subset",
            "params": {"dataset": {"class": "Points", "params": {"n": 30}}, "indices": [1, 2]},
        }
    )

    subset = checked.blueprint.build()

    assert len(subset) == 2
    assert len(subset.dataset) == 30


def test_descriptions_in_lists_are_built(check):  # K8
    checked = check(
        {
            "class": "ConcatDataset",
            "params": {"datasets": [{"class": "Points"}, {"class": "Points", "params": {"n": 3}}]},
        }
    )

    assert len(checked.blueprint.build()) == 13


def test_values_beside_descriptions_are_expanded(project, check):
    project.write("modules/data/open.py", "class Open:\n    def __init__(self, **more): ...\n")

    checked = check(
        {"class": "Open", "params": {"sets": {"a": {"class": "Points"}, "b": ["$B"]}}}, B="5"
    )

    sets = checked.blueprint.params["sets"]
    assert isinstance(sets["a"], Blueprint)
    assert sets["b"] == [5]


def test_unknown_parameter_shows_the_signature(check):  # C10, K16, T5
    assert check({"class": "Points", "params": {"sed": 1}}).message == (
        "data.train.params.sed: Points(n: int = 10, seed: int = 0) takes no 'sed'. "
        "Did you mean 'seed'?"
    )


def test_setting_among_the_parameters_is_recognised(check):
    message = check({"class": "Points", "params": {"epochs": 1}}).message

    assert "It is a setting of the run: give it with --epochs" in message


def test_method_without_self_is_recognised(project, check):
    project.write(
        "modules/models/selfless.py",
        "from jade import Trainer\nclass Selfless(Trainer):\n    def initialize(lr): ...\n",
    )

    message = check({"class": "Selfless", "params": {"lr": 1}}, ("model",)).message

    assert message.endswith("takes no 'lr'. The first parameter of a method must be self.")


def test_missing_parameters_are_all_named_with_the_signature(check):  # C10
    message = check({"class": "SquaredError"}, ("eval", "Error")).message

    assert message.startswith("eval.Error.params: SquaredError.initialize(evaluate_on: str, ")
    assert message.endswith("needs 'evaluate_on'.")
    assert check({"class": "Subset"}).message.endswith("needs 'dataset', 'indices'.")


def test_not_strict_drops_unknown_parameters_and_says_so(check):  # C10
    checked = check({"class": "Points", "strict": False, "params": {"sed": 1, "n": 3}})

    assert checked.blueprint.params == {"n": 3, "seed": 0}
    assert checked.description["params"] == {"n": 3, "seed": 0}
    assert checked.configuration.warnings == [
        "data.train.params.sed: dropped, Points has no 'sed'."
    ]
    assert not checked.problems


@pytest.mark.parametrize(
    ("description", "text"),
    [
        (3, "data.train: expected a description (class: ..., params: ...), not 3."),
        (None, "not None."),
        ({}, "'class' must name a class."),
        ({"class": None}, "'class' must name a class, not None."),
        ({"class": ["Points"]}, "'class' must name a class, not ['Points']."),
        ({"class": "Nowhere"}, "data.train.class: There is no class 'Nowhere'"),
        ({"class": "$UNSET"}, "UNSET for data.train.class"),
        ({"class": "Points", "parms": {}}, "unknown key. Did you mean 'params'?"),
        ({"class": "Points", "n": 3}, "It is a parameter: put it below data.train.params."),
        ({"class": "Points", "epochs": 3}, "It is a setting of the run"),
        ({"class": "Points", "evaluate_every": 3}, "data.train.evaluate_every: unknown key."),
        (
            {"class": "Points", "strict": "no"},
            "data.train.strict: expected true or false, not 'no'",
        ),
        ({"class": "Points", "params": [1]}, "expected a mapping (name: value), not [1]."),
        ({"class": "Points", "params": "n:3"}, "not 'n:3'. A blank must follow the colon."),
        ({"class": "Points", "params": {"n": "many"}}, "data.train.params.n: expected int"),
        ({"class": "LineTrainer"}, "is a subclass of jade.Trainer, which belongs into model."),
        ({"class": "SquaredError"}, "is a subclass of jade.Evaluation, which belongs into eval."),
    ],
)
def test_wrong_description_says_what_is_wrong(check, description, text):  # C10
    assert text in check(description).message


@pytest.mark.parametrize(
    ("path", "base"),
    [(("model",), "Trainer"), (("eval", "X"), "Evaluation"), (("loggers", "X"), "Logger")],
)
def test_class_of_a_section_must_have_its_base(check, path, base):
    message = check({"class": "Points"}, path).message

    article = "an" if base == "Evaluation" else "a"
    told = f"Points is not {article} {base}: it must be a subclass of jade.{base}."
    assert message == f"{'.'.join(path)}.class: {told}"


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        (
            {"class": "Points", "n": 3},
            "params.dataset.n: unknown key. It is a parameter: put it below",
        ),
        (
            {"class": "Odd", "parms": {}},
            "params.dataset.parms: unknown key. Did you mean 'params'?",
        ),
    ],
)
def test_nested_mapping_that_names_a_class_is_taken_for_a_description(check, inner, text):
    message = check({"class": "Subset", "params": {"dataset": inner, "indices": []}}).message

    assert text in message


def test_nested_mapping_that_names_no_class_stays_a_mapping(check):
    checked = check(
        {"class": "Subset", "params": {"dataset": {"class": "dog", "size": 3}, "indices": []}}
    )

    assert checked.blueprint.params["dataset"] == {"class": "dog", "size": 3}


def test_class_without_a_known_signature_takes_what_it_is_given(project, check):
    project.write("modules/data/meta.py", "class Meta(type): pass\n")

    assert check({"class": "Meta", "params": {"x": "1"}}).blueprint.params == {"x": "1"}
