"""T4, T8, T18: frequent mistakes are explained behind the user's own traceback."""

import pytest
from torch.utils.data import DataLoader, Dataset, default_collate

from jade.hints import explain


def raised(action):
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


class NoLength(Dataset):
    def __getitem__(self, index):
        return index


class Picture:
    pass


def net(hidden, layers=1):
    """Stand for something of the user's."""


def test_wrong_keyword_of_a_class_is_matched_with_its_signature_t4():
    error = raised(lambda: DataLoader([1, 2], n_workers=2))
    assert "DataLoader takes no 'n_workers'. Did you mean 'num_workers'?" in explain(error)


def test_wrong_keyword_of_a_function_is_matched_with_its_signature():
    assert "net takes no 'layer'. Did you mean 'layers'?" in explain(
        raised(lambda: net(1, layer=2))
    )


def test_wrong_keyword_of_something_out_of_sight_is_left_alone():
    assert explain(TypeError("f() got an unexpected keyword argument 'x'")) is None


def test_wrong_keyword_of_something_without_signature_is_left_alone():
    def call():
        f = type("f", (), {"__call__": None, "__signature__": 3})
        raise TypeError(f"{f.__name__}() got an unexpected keyword argument 'x'")

    assert explain(raised(call)) is None


@pytest.mark.parametrize("options", [{"shuffle": True}, {}])
def test_dataset_without_length_is_told_what_to_write_t8(options):
    error = raised(lambda: list(DataLoader(NoLength(), **options)))
    assert "NoLength needs a method __len__(self)" in explain(error)


def test_dataset_without_samples_is_told():
    assert "has no samples" in explain(raised(lambda: DataLoader([], shuffle=True)))


def test_samples_that_make_no_batch_are_told_of_transforms_t18():
    hint = explain(raised(lambda: default_collate([Picture(), Picture()])))
    assert "A batch cannot be made of" in hint
    assert "transform: {class: ToTensor}" in hint


@pytest.mark.parametrize(
    "error", [RuntimeError("something else"), ValueError(), KeyError("x"), raised(lambda: len(5))]
)
def test_other_errors_are_left_alone(error):
    assert explain(error) is None


def test_import_of_a_wrong_name_is_corrected_t7():
    import jade.eval  # noqa: F401

    error = ImportError("cannot import name 'Evaluaiton' from 'jade.eval' (eval.py)")
    assert "Did you mean 'Evaluation'?" in explain(error)


def test_import_of_a_name_from_a_module_that_is_not_there_is_left_alone():
    assert explain(ImportError("cannot import name 'x' from 'no.such.module'")) is None


@pytest.mark.parametrize("module", ["core", "core.trainer", "jade.trainers"])
def test_import_from_an_old_place_is_corrected_t7(module):
    hint = explain(ModuleNotFoundError(f"No module named '{module}'"))
    assert "from jade.trainer import Trainer" in hint
