"""Facts about the in-memory loader."""

import collections
import gc
import random
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from nested import assert_same
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from jade.errors import ComponentError, ConfigError
from jade.in_memory import TensorLoader, reading, table

META = torch.device("meta")


class Point(NamedTuple):
    x: Any
    y: Any


class Samples(Dataset):
    """A dataset given by a function from index to sample."""

    def __init__(self, sample, length=10):
        self.sample = sample
        self.length = length
        self.reads = []

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.reads.append(index)
        return self.sample(index)


class Hooked(Dataset):
    def __init__(self, tensors, sample=None):
        self.tensors = tensors
        self.sample = sample or (lambda index: {key: t[index] for key, t in tensors.items()})

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return self.sample(index)

    def as_tensors(self):
        return self.tensors


SAMPLES = {
    "tensor": lambda i: torch.full((2, 3), float(i)),
    "pair": lambda i: (torch.full((3,), i), i),
    "list": lambda i: [torch.tensor(i), float(i)],
    "dict": lambda i: {"x": torch.full((3,), float(i)), "y": i},
    "ordered": lambda i: collections.OrderedDict(b=i, a=torch.tensor([i])),
    "default": lambda i: collections.defaultdict(int, b=i),
    "point": lambda i: Point(torch.tensor([i]), float(i)),
    "nested": lambda i: {"a": (i, [torch.tensor([i]), {"b": str(i)}]), "c": np.float32(i)},
    "numbers": lambda i: (i, float(i), i % 2 == 0),
    "arrays": lambda i: (np.full((2, 2), i, dtype=np.uint8), np.float64(i), np.int32(i)),
    "bare number": lambda i: i,
    "bare text": lambda i: f"text {i}",
    "texts": lambda i: (f"text {i}", b"bytes", i),
    "text in dict": lambda i: {"text": str(i), "x": torch.tensor(i)},
    "uint16": lambda i: np.full(3, i, dtype=np.uint16),
    "not contiguous": lambda i: torch.arange(6).reshape(2, 3).add(i).t(),
}


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_loader_gives_the_batches_of_dataloader(kind, shuffle, drop_last):
    dataset = Samples(SAMPLES[kind], 11)
    options = {"shuffle": shuffle, "drop_last": drop_last}

    assert_equals_dataloader(dataset, 4, **options)


def assert_equals_dataloader(dataset, batch_size, *, epochs=3, seeds=(None, 5), **options):
    """Compare some epochs, for the global generator and for one of one's own."""
    for seed in seeds:
        results = []
        for kind in (TensorLoader, DataLoader):
            torch.manual_seed(3)
            generator = None if seed is None else torch.Generator().manual_seed(seed)
            loader = kind(dataset, batch_size, generator=generator, **options)
            data = [list(loader) for _ in range(epochs)]
            own = None if generator is None else generator.get_state()
            results.append((len(loader), data, torch.get_rng_state(), own))
        ours, theirs = results
        assert ours[0] == theirs[0]
        assert_same(ours[1], theirs[1])
        assert torch.equal(ours[2], theirs[2])
        assert seed is None or torch.equal(ours[3], theirs[3])


@pytest.mark.parametrize("batch_size", [1, 3, 16, 40, 64])
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"shuffle": True, "drop_last": True}])
def test_loader_of_a_tensor_dataset_gives_the_batches_of_dataloader(batch_size, options):
    dataset = TensorDataset(torch.randn(40, 8), torch.arange(40), torch.arange(40) > 20)

    assert_equals_dataloader(dataset, batch_size, **options)


def test_loader_with_many_chunks_gives_the_batches_of_dataloader(monkeypatch):
    monkeypatch.setattr(table, "_CHUNK_BYTES", 2048)
    dataset = TensorDataset(torch.randn(300, 16), torch.arange(300, dtype=torch.uint8))

    assert_equals_dataloader(dataset, 16, shuffle=True)
    assert_equals_dataloader(dataset, 7)


def test_loader_of_transposed_tensors_gives_the_batches_of_dataloader():
    assert_equals_dataloader(TensorDataset(torch.randn(3, 40).t()), 16)
    assert_equals_dataloader(TensorDataset(torch.randn(3, 40).t()), 16, shuffle=True)


def test_loaders_zipped_give_the_batches_of_dataloaders_zipped():
    first, second = TensorDataset(torch.arange(12)), TensorDataset(torch.arange(30))
    results = []
    for kind in (TensorLoader, DataLoader):
        torch.manual_seed(3)
        loaders = kind(first, 4, shuffle=True), kind(second, 5, shuffle=True)
        results.append((list(zip(*loaders, strict=False)), torch.get_rng_state()))

    assert_same(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_loader_epoch_left_early_leaves_the_state_that_dataloader_leaves():
    dataset = TensorDataset(torch.arange(12))
    states = []
    for kind in (TensorLoader, DataLoader):
        generator = torch.Generator().manual_seed(5)
        next(iter(kind(dataset, 4, shuffle=True, generator=generator)))
        states.append(generator.get_state())

    assert torch.equal(*states)


@pytest.mark.parametrize("indices", [range(5), [7, 3, 3, 0], [-1, 2], np.array([4, 1])])
@pytest.mark.parametrize("base", ["tensors", "read", "hook"])
def test_loader_of_a_subset_gives_the_batches_of_dataloader(indices, base):
    whole = {
        "tensors": TensorDataset(torch.arange(10), torch.randn(10, 2)),
        "read": [(i, float(i)) for i in range(10)],
        "hook": Hooked({"x": torch.arange(10)}),
    }[base]

    assert_equals_dataloader(Subset(whole, indices), 2, shuffle=True)
    assert_equals_dataloader(Subset(Subset(whole, range(1, 10)), indices[:2]), 2)


def test_loader_of_a_subset_copies_no_tensor():
    tensor = torch.arange(10)
    loader = TensorLoader(Subset(TensorDataset(tensor), [1, 2]), 2)

    assert loader._entry.table.columns[0].tensor is tensor


def test_loader_of_a_subset_reads_only_its_own_samples():
    dataset = Samples(lambda i: torch.zeros(3 if i < 5 else 4))

    assert next(iter(TensorLoader(Subset(dataset, range(5)), 5))).shape == (5, 3)


def test_loader_continues_an_epoch_at_any_batch():
    dataset = TensorDataset(torch.randn(45, 3), torch.arange(45))
    loader = TensorLoader(dataset, 8, shuffle=True)
    torch.manual_seed(1)
    start = torch.get_rng_state()
    straight = []
    for data in loader:
        straight.append((data, torch.rand(1)))
        if len(straight) == 3:
            interruption = torch.get_rng_state()
    end = torch.get_rng_state()

    torch.set_rng_state(start)
    epoch = loader.iterate(3)
    torch.set_rng_state(interruption)
    continued = [(data, torch.rand(1)) for data in epoch]

    assert_same(continued, straight[3:])
    assert torch.equal(torch.get_rng_state(), end)


@pytest.mark.parametrize("chunk_bytes", [1, 2000])
def test_loader_continues_an_epoch_in_order(monkeypatch, chunk_bytes):
    monkeypatch.setattr(table, "_CHUNK_BYTES", chunk_bytes)
    loader = TensorLoader([(str(i), torch.full((8,), i)) for i in range(45)], 8)

    assert_same(list(loader.iterate(2)), list(loader)[2:])
    assert loader.dataset[17][0] == next(loader.iterate(2))[0][1]


def test_loader_continued_at_the_end_gives_nothing():
    assert list(TensorLoader(TensorDataset(torch.arange(4)), 2).iterate(2)) == []


@pytest.mark.parametrize("start", [-1, 3])
def test_loader_continued_outside_the_epoch_raises(start):
    with pytest.raises(ConfigError, match=f"start_batch must be from 0 to 2, not {start}"):
        TensorLoader(TensorDataset(torch.arange(4)), 2).iterate(start)


@pytest.mark.parametrize("batch_size", [2, 16])
@pytest.mark.parametrize("shuffle", [False, True])
def test_loader_batch_changed_in_place_changes_nothing_else(batch_size, shuffle):
    tensor = torch.ones(32, 16, dtype=torch.float32)
    loader = TensorLoader(TensorDataset(tensor), batch_size, shuffle=shuffle)

    for (data,) in loader:
        assert data.eq(1).all()
        data.zero_()

    assert tensor.eq(1).all()


def test_loader_batch_changed_in_place_does_not_invalidate_the_graph_of_another():
    weight = torch.ones(16, requires_grad=True)
    (first,), (second,) = TensorLoader(TensorDataset(torch.ones(32, 16)), 16)
    loss = (first * weight).sum()
    second.zero_()

    loss.backward()

    assert weight.grad.eq(16).all()


@pytest.mark.parametrize("batch_size", [3, 7, 16, 32])
def test_loader_batches_are_aligned_as_if_each_was_alone(batch_size):
    dataset = TensorDataset(torch.randn(100, 5), torch.arange(100) > 3)

    for data in TensorLoader(dataset, batch_size, shuffle=True):
        assert [tensor.data_ptr() % 64 for tensor in data] == [0, 0]


def test_loaders_of_one_dataset_read_it_once():
    dataset = Samples(lambda i: torch.tensor(i))
    TensorLoader(dataset, 2)
    num_reads = len(dataset.reads)

    TensorLoader(dataset, 3, shuffle=True)
    list(TensorLoader(Subset(dataset, [3, 4]), 2))

    assert len(dataset.reads) == num_reads


def test_loader_keeps_tensors_no_longer_than_the_dataset():
    dataset = Samples(lambda i: torch.tensor(i))
    key = id(dataset)
    TensorLoader(dataset, 2)
    assert key in reading._loaded

    del dataset
    gc.collect()

    assert key not in reading._loaded


@pytest.mark.parametrize(
    "wrap", [lambda dataset: dataset, lambda dataset: Subset(dataset, range(10))]
)
def test_loader_of_a_dataset_with_a_replaced_attribute_reads_it_again(wrap):
    dataset = Samples(lambda i: torch.tensor(i))
    loader = TensorLoader(wrap(dataset), 10)
    list(loader)

    dataset.sample = lambda i: torch.tensor(-i)

    assert_same(list(loader), [-torch.arange(10)])


def test_loader_of_samples_with_nan_works():
    dataset = Samples(lambda i: torch.tensor([float("nan"), i]))

    assert next(iter(TensorLoader(dataset, 10)))[:, 1].tolist() == list(range(10))


def test_loader_of_a_list_works():
    assert_equals_dataloader([(i, str(i)) for i in range(9)], 4, shuffle=True)


def test_loader_fetches_many_samples_at_once_where_the_dataset_can():
    class Many(Dataset):
        def __len__(self):
            return 300

        def __getitems__(self, indices):
            return [torch.tensor(index) for index in indices]

        def __getitem__(self, index):
            raise AssertionError("read one by one")

    assert_same(torch.cat(list(TensorLoader(Many(), 7))), torch.arange(300))


def test_loader_takes_the_whole_dataset_from_as_tensors_without_copying():
    tensors = {"x": torch.randn(10, 3), "y": torch.arange(10)}
    dataset = Hooked(tensors)

    loader = TensorLoader(dataset, 4)

    assert loader._entry.table.columns[0].tensor is tensors["x"]
    assert_equals_dataloader(dataset, 4, shuffle=True)


def test_loader_reads_a_tuple_of_arrays_from_as_tensors_as_a_list():
    array = np.arange(10.0)
    dataset = Hooked((array, torch.arange(10)), lambda i: (array[i], i))

    assert_equals_dataloader(dataset, 4)


def test_loader_needs_no_getitem_beside_as_tensors():
    class Whole(Dataset):
        def __len__(self):
            return 3

        def as_tensors(self):
            return torch.arange(3)

    assert_same(list(TensorLoader(Whole(), 2)), [torch.arange(2), torch.tensor([2])])


@pytest.mark.parametrize(
    "tensors",
    [
        {"x": torch.arange(10) + 1},
        {"x": torch.arange(10.0)},
        {"x": torch.zeros(10, 1)},
        {"y": torch.arange(10)},
        [torch.arange(10)],
        {"x": ["a"] * 10},
    ],
)
def test_loader_refuses_as_tensors_that_disagrees_with_the_samples(tensors):
    with pytest.raises(ComponentError, match=r"as_tensors\(\) of dataset Hooked disagrees"):
        TensorLoader(Hooked(tensors, lambda i: {"x": i}), 4)


def test_loader_refuses_as_tensors_of_another_length():
    with pytest.raises(ComponentError, match=r"must give 10 rows, as len\(\) says, not 9, 10"):
        TensorLoader(Hooked([torch.arange(10), torch.arange(9)]), 4)


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda: torch.rand(1), "torch"),
        (lambda: torch.tensor(random.random()), "random"),
        (lambda: torch.tensor(np.random.rand()), "numpy.random"),
    ],
)
def test_loader_refuses_a_dataset_that_draws_random_numbers(draw, name):
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()

    with pytest.raises(
        ComponentError, match=rf"Samples draws random numbers \({name}\).*DataLoader"
    ):
        TensorLoader(Samples(lambda i: draw()), 4)

    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert states[2] == np.random.get_state()[1].tolist()


def test_loader_refuses_a_dataset_with_a_generator_of_its_own():
    generator = np.random.default_rng(0)

    with pytest.raises(ComponentError, match=r"Samples differ each time they are read.*DataLoader"):
        TensorLoader(Samples(lambda i: generator.random()), 4)


def test_loader_refuses_a_tensor_dataset_that_augments():
    class Augmented(TensorDataset):
        def __getitem__(self, index):
            return self.tensors[0][index] + torch.rand(1)

    with pytest.raises(ComponentError, match="draws random numbers"):
        TensorLoader(Augmented(torch.zeros(5)), 2)


@pytest.mark.parametrize(
    "sample",
    [
        lambda i: torch.zeros(3 if i < 9 else 4),
        lambda i: torch.zeros(3 if i < 200 else 4),
        lambda i: torch.zeros(3, dtype=torch.float32 if i < 200 else torch.float64),
        lambda i: {"x": 1} if i < 200 else {"y": 1},
        lambda i: (1, 2) if i < 9 else (1, 2, 3),
        lambda i: 1 if i < 128 else "a",
        lambda i: "a" if i < 128 else 1,
    ],
)
def test_loader_refuses_samples_that_differ_in_kind(sample):
    message = (
        "Samples do not make a batch|Samples: samples from number 128 on differ from the first"
    )
    with pytest.raises(ComponentError, match=message):
        TensorLoader(Samples(sample, 300), 4)


@pytest.mark.parametrize(
    "sample",
    [
        lambda i: object(),
        lambda i: torch.eye(2).to_sparse(),
        lambda i: torch.ones(1).requires_grad_(),
    ],
)
def test_loader_refuses_samples_that_make_no_dense_tensor(sample):
    with pytest.raises(ComponentError, match="Samples"):
        TensorLoader(Samples(sample), 4)


def test_loader_error_of_the_dataset_itself_passes_unchanged():
    def fail(index):
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        TensorLoader(Samples(fail), 4)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


class SizedStream(Stream):
    def __len__(self):
        return 3


class Unsized(Dataset):
    def __getitem__(self, index):
        return index


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (Stream(), "Stream cannot be held in memory: it has no __getitem__"),
        (SizedStream(), "SizedStream cannot be held in memory: it has no __getitem__"),
        (Unsized(), "Unsized cannot be held in memory: it has no __len__"),
        ([], "Dataset list is empty"),
        ([{}, {}], "samples of dataset list are empty"),
    ],
)
def test_loader_refuses_what_is_no_dataset_in_memory(dataset, message):
    with pytest.raises(ComponentError, match=message):
        TensorLoader(dataset, 4)


@pytest.mark.parametrize("batch_size", [0, -1, 2.0, True, None, "8"])
def test_loader_batch_size_that_is_no_positive_integer_raises(batch_size):
    with pytest.raises(ConfigError, match="batch_size must be an integer of at least 1"):
        TensorLoader([1, 2], batch_size)


def test_loader_refuses_a_dataset_above_max_bytes_before_reading_it():
    dataset = Samples(lambda i: torch.zeros(1000), 1000)

    with pytest.raises(ComponentError, match=r"needs 4\.0 MB in memory, more than the 3\.9 MB"):
        TensorLoader(dataset, 4, max_bytes=3_900_000)

    assert len(dataset.reads) == 1
    TensorLoader(dataset, 4, max_bytes=4_000_000)


def test_loader_needs_little_more_memory_than_the_tensors():
    alive = weakref.WeakSet()
    most = 0

    def sample(index):
        nonlocal most
        tensor = torch.zeros(10)
        alive.add(tensor)
        most = max(most, len(alive))
        return tensor

    TensorLoader(Samples(sample, 2000), 100)

    assert most <= 256
