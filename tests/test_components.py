import logging

import pytest

from jade.class_index import ClassIndex
from jade.components import (
    Architectures,
    Blueprint,
    LazyComponents,
    describe_size,
    find_architecture_file,
    is_description,
    size_of,
)
from jade.errors import ComponentError


class Counted:
    built = 0

    def __init__(self, *, size=3, inner=None):
        type(self).built += 1
        self.size = size
        self.inner = inner

    def __len__(self):
        return self.size


class Raising:
    def __init__(self):
        raise RuntimeError("this must never be built")


@pytest.fixture(autouse=True)
def nothing_built():
    Counted.built = 0


@pytest.mark.parametrize(
    ("value", "described"),
    [
        ({"class": "A"}, True),
        ({"class": "A", "params": {}, "strict": False}, True),
        ({"class": 3}, False),
        ({"class": "A", "other": 1}, False),
        ({"params": {}}, False),
        ("A", False),
    ],
)
def test_description_names_a_class_and_nothing_else(value, described):
    assert is_description(value) is described


def test_blueprint_builds_descriptions_within_parameters():  # K8
    inner = Blueprint(Counted, "inner", {"size": 5})
    blueprint = Blueprint(
        Counted, "outer", {"inner": {"list": [inner, 1], "tuple": (inner,), "plain": "x"}}
    )

    built = blueprint.build()

    assert built.inner["list"][0].size == 5
    assert built.inner["list"][1] == 1
    assert isinstance(built.inner["tuple"][0], Counted)
    assert built.inner["plain"] == "x"
    # Each place gets an object of its own.
    assert built.inner["list"][0] is not built.inner["tuple"][0]


def test_lazy_components_are_built_on_first_access_and_kept(caplog):  # K6
    datasets = LazyComponents(
        {"train": Blueprint(Counted, "a"), "test": Blueprint(Raising, "b")}, "dataset"
    )
    assert Counted.built == 0

    with caplog.at_level(logging.INFO):
        first = datasets["train"]

    assert datasets["train"] is first
    assert Counted.built == 1
    assert caplog.messages == ["dataset train: Counted, 3 samples"]  # K6: sizes are logged


def test_lazy_components_answer_questions_without_building():  # K6
    datasets = LazyComponents({"broken": Blueprint(Raising, "b")}, "dataset")

    assert "broken" in datasets
    assert "train" not in datasets
    assert list(datasets) == ["broken"]
    assert list(datasets.keys()) == ["broken"]
    assert len(datasets) == 1
    assert datasets.sizes() == {}


def test_lazy_components_know_the_sizes_of_what_is_built():  # K6
    class Endless:
        pass

    datasets = LazyComponents(
        {"a": Blueprint(Counted, "a"), "b": Blueprint(Endless, "b"), "c": Blueprint(Raising, "c")},
        "dataset",
    )
    assert datasets["a"]
    assert datasets["b"]

    assert datasets.sizes() == {"a": 3, "b": None}


def test_unknown_component_suggests_the_known_ones():
    datasets = LazyComponents({"train": Blueprint(Counted, "a")}, "dataset")

    with pytest.raises(ComponentError, match=r"no dataset 'trian' .* Did you mean 'train'\?"):
        datasets["trian"]


def test_own_exception_of_a_dataset_passes_unchanged():  # K16
    with pytest.raises(RuntimeError, match="never be built"):
        LazyComponents({"x": Blueprint(Raising, "x")}, "dataset")["x"]


def test_size_of_something_without_a_length_is_none():
    assert size_of(iter([])) is None
    assert describe_size(iter([])) == "list_iterator, no length"


@pytest.fixture
def architectures(project):
    index = ClassIndex([project.root / "modules"])
    return Architectures(index, project.root / "modules/architectures/small.py")


def test_architecture_is_built_from_its_file(architectures):
    assert architectures.build("Net", {"n_out": 5}).layer.out_features == 5


def test_architecture_without_a_file_names_the_flag():
    with pytest.raises(ComponentError, match=r"'Net', but no file was given: add --arch_impl"):
        Architectures(ClassIndex([]), None).build("Net", {})


def test_architecture_file_without_the_class_lists_what_it_has(architectures):
    with pytest.raises(ComponentError, match=r"small\.py has no class 'Nets'\. Did you mean 'Net'"):
        architectures.build("Nets", {})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_outs": 3}, r"Net\(n_out\) does not take .*'n_out.*Did you mean 'n_out'\?"),
        ({}, r"Net\(n_out\) does not take these parameters: missing a required argument: 'n_out'"),
    ],
)
def test_wrong_keyword_of_an_architecture_shows_its_signature(
    architectures, params, message
):  # K16
    with pytest.raises(ComponentError, match=message):
        architectures.build("Net", params)


def test_own_type_error_of_an_architecture_passes_unchanged(project, architectures):  # K16
    project.write(
        "modules/architectures/small.py",
        "class Net:\n    def __init__(self, n_out):\n        n_out + 'x'\n",
    )

    with pytest.raises(TypeError, match="unsupported operand"):
        architectures.build("Net", {"n_out": 1})


OTHER = """
    from torch import nn


    class Net(nn.Linear):
        def __init__(self, n_out):
            super().__init__(7, n_out)
"""


def test_architecture_file_is_found_by_path_or_name(project):  # K5
    roots = [project.root / "modules"]
    full = project.root / "modules/architectures/small.py"
    for name in (str(full), "modules/architectures/small.py", "small", "small.py"):
        assert find_architecture_file(name, roots).resolve() == full


def test_architecture_file_may_be_absent(project):  # K5
    assert find_architecture_file(None, []) is None


def test_missing_architecture_file_suggests_the_known_ones(project):  # K5
    with pytest.raises(ComponentError, match=r"no file smal\. Did you mean 'small'"):
        find_architecture_file("smal", [project.root / "modules"])


def test_other_file_with_the_same_names_changes_the_network_only(project):  # K5
    project.write("modules/architectures/other.py", OTHER)
    index = ClassIndex([project.root / "modules"])
    folder = project.root / "modules/architectures"

    small = Architectures(index, folder / "small.py").build("Net", {"n_out": 5})
    other = Architectures(index, folder / "other.py").build("Net", {"n_out": 5})

    assert type(small).__name__ == type(other).__name__ == "Net"
    assert type(small) is not type(other)
    assert other.in_features == 7
