"""Something that stands for a dataset which is not here."""

import pickle

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset

from jade.errors import MissingDataError
from jade.in_memory import TensorLoader
from jade.missing_dataset import MissingDataset


@pytest.fixture
def missing():
    return MissingDataset("train", 10, FileNotFoundError("no such file: /data/x.npz"))


@pytest.mark.parametrize(
    "make",
    [
        lambda data: DataLoader(data, 4, shuffle=True),
        lambda data: DataLoader(data, 4, sampler=torch.utils.data.RandomSampler(data)),
        lambda data: TensorLoader(data, 4, shuffle=True),
    ],
)
def test_loader_is_made_and_complains_when_it_is_read(missing, make):
    loader = make(missing)
    assert len(loader) == 3
    with pytest.raises(
        MissingDataError, match=r"'train' cannot be built.*FileNotFoundError: no such"
    ):
        next(iter(loader))


@pytest.mark.parametrize("wrap", [lambda d: Subset(d, range(8)), lambda d: ConcatDataset([d, d])])
def test_loader_of_a_part_is_made_too(missing, wrap):
    loader = TensorLoader(wrap(missing), 4)
    assert len(loader) in (2, 5)
    with pytest.raises(MissingDataError):
        next(iter(loader))


def test_attribute_that_the_data_would_have_is_explained(missing):
    with pytest.raises(MissingDataError, match=r"its attribute 'classes' was asked for") as caught:
        missing.classes  # noqa: B018
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_missing_dataset_is_shown_and_copied_like_anything_else(missing):
    assert repr(missing) == "MissingDataset('train', size 10)"
    assert len(pickle.loads(pickle.dumps(missing))) == 10
