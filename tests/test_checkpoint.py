"""S1, S3 and A7: checkpoints are whole, run no code when loaded, and hold what they were given."""

import collections
import contextlib
import enum
import itertools
import os
import random
import resource
from typing import NamedTuple

import numpy as np
import pytest
import torch

from jade import checkpoint
from jade.errors import CheckpointError
from jade.run_dir import RunDir
from jade.seal import SealedFile, read_iteration


class Colour(enum.IntEnum):
    RED = 3


def same(one, two):
    if isinstance(one, (torch.Tensor, np.ndarray)):
        return type(one) is type(two) and one.dtype == two.dtype and bool((one == two).all())
    if isinstance(one, dict):
        return (
            type(one) is type(two)
            and one.keys() == two.keys()
            and all(same(one[k], two[k]) for k in one)
        )
    if isinstance(one, (list, tuple)):
        return type(one) is type(two) and len(one) == len(two) and all(map(same, one, two))
    return type(one) is type(two) and one == two


@contextlib.contextmanager
def full_disk(limit=50_000):
    """Let no file grow beyond ``limit`` bytes, as on a disk that has no more room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2**200,
        0.1,
        1j,
        "text",
        b"bytes",
        torch.arange(3),
        torch.float16,
        torch.device("cpu"),
        {1, 2},
        {"a": [1, (2.0, None)], 3: {"b": torch.ones(2)}},
        collections.Counter({4: 2}),
        np.arange(6).reshape(2, 3),
        {"deep": [np.array([1.5], dtype=np.float32)]},
        np.array([True, False]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_content_comes_back_as_it_was_s3(tmp_path, value):
    checkpoint.save({"value": value}, tmp_path / "a.pt")
    assert same(checkpoint.load(tmp_path / "a.pt")["value"], value)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (np.float64(0.5), 0.5),
        (np.int32(7), 7),
        (np.bool_(True), True),
        (np.array(2.5), 2.5),
        (Colour.RED, 3),
        (collections.OrderedDict(a=1), {"a": 1}),
        (torch.Size([2, 3]), (2, 3)),
        (collections.deque([1], maxlen=2), [1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_numbers_and_mappings_become_plain_ones(tmp_path, value, stored):
    checkpoint.save({"value": value}, tmp_path / "a.pt")
    assert same(checkpoint.load(tmp_path / "a.pt")["value"], stored)


@pytest.mark.parametrize("value", [object(), lambda: 0, iter([1]), np.array(["a"])])
def test_content_that_cannot_be_held_is_refused_with_its_place(tmp_path, value):
    with pytest.raises(CheckpointError, match=r"checkpoint\['a'\]\[1\] is a .*cannot hold") as info:
        checkpoint.save({"a": [0, value]}, tmp_path / "a.pt")
    assert "state_dict" in str(info.value)
    assert list(tmp_path.iterdir()) == []


class Pair(NamedTuple):
    mean: object
    count: int


class Queue(list):
    limit = 0


def refit(tmp_path, old, value):
    """Store a value, load it, and fit it to the one that stands in its place."""
    checkpoint.save({"value": value}, tmp_path / "a.pt")
    return checkpoint.fit_to(old, checkpoint.load(tmp_path / "a.pt")["value"], "it")


@pytest.mark.parametrize(
    ("old", "value"),
    [
        (collections.OrderedDict(), collections.OrderedDict(b=1, a=2)),
        (collections.Counter(), collections.Counter("aab")),
        (Pair(0.0, 0), Pair(1.5, 3)),
        (torch.Size([]), torch.Size([2, 3])),
        (Queue(), Queue([1, 2])),
        ([Pair(0.0, 0)], [Pair(0.5, 1)]),
        ({"a": collections.OrderedDict()}, {"a": collections.OrderedDict(b=1)}),
        (Pair(collections.OrderedDict(), 0), Pair(collections.OrderedDict(b=1), 3)),
    ],
    ids=repr,
)
def test_value_becomes_again_what_it_was(tmp_path, old, value):
    fitted = refit(tmp_path, old, value)
    assert fitted == value
    assert repr(fitted) == repr(value)
    assert type(fitted) is type(value)


def test_mapping_with_defaults_goes_on_making_them(tmp_path):
    def make():
        return collections.defaultdict(lambda: collections.defaultdict(int))

    value = make()
    value["a"]["b"] = 3
    fitted = refit(tmp_path, make(), value)
    fitted["a"]["b"] += 1
    fitted["a"]["c"] += 1
    fitted["d"]["e"] += 1
    assert fitted == {"a": {"b": 4, "c": 1}, "d": {"e": 1}}


def test_mapping_that_numbers_its_keys_goes_on_counting(tmp_path):
    numbers = collections.defaultdict(itertools.count(2).__next__)
    fitted = refit(tmp_path, numbers, {"a": 0, "b": 1})
    assert fitted["c"] == 2


def test_queue_keeps_its_length(tmp_path):
    old = collections.deque(maxlen=2)
    fitted = refit(tmp_path, old, collections.deque([1, 2], maxlen=2))
    fitted.append(3)
    assert fitted == collections.deque([2, 3])
    assert list(old) == []


def test_attributes_of_a_list_of_its_own_class_stay(tmp_path):
    old = Queue([0])
    old.limit = 5
    assert refit(tmp_path, old, Queue([1, 2])).limit == 5


def test_set_of_its_own_class_is_rebuilt(tmp_path):
    class Names(set):
        pass

    fitted = refit(tmp_path, Names("a"), Names("bc"))
    assert (type(fitted), fitted) == (Names, {"b", "c"})


@pytest.mark.parametrize(("old", "value"), [(None, {"a": 1}), ([], (1,)), ({}, [1]), (1, "text")])
def test_value_of_another_kind_replaces_what_was_there(tmp_path, old, value):
    fitted = refit(tmp_path, old, value)
    assert (type(fitted), fitted) == (type(value), value)


def test_tensors_inside_go_to_the_devices_of_their_counterparts(tmp_path):
    away = torch.ones(1, device="meta")
    old = {"a": [away, torch.ones(1)], "b": Pair(away, 0)}
    value = {"a": [torch.ones(1)] * 3, "b": Pair(torch.ones(1), 1)}
    fitted = refit(tmp_path, old, value)
    assert [tensor.device.type for tensor in fitted["a"]] == ["meta", "cpu", "cpu"]
    assert fitted["b"].mean.device.type == "meta"


def test_value_that_no_longer_fits_its_class_names_its_place(tmp_path):
    with pytest.raises(CheckpointError, match=r"it\['a'\] cannot become a Pair again: Expected 2"):
        refit(tmp_path, {"a": Pair(0.0, 0)}, {"a": (1.0, 2, 3)})


def test_checkpoint_loads_with_torch_alone_and_without_running_code(tmp_path):
    checkpoint.save({"weights": torch.ones(2), "array": np.ones(2)}, tmp_path / "a.pt")
    content = torch.load(tmp_path / "a.pt", weights_only=True)
    assert content["format"] == checkpoint.FORMAT
    assert torch.equal(content["weights"], torch.ones(2))


def test_checkpoint_saved_loaded_and_saved_again_holds_the_same_s3(tmp_path):
    content = {"a": torch.randn(5), "b": [np.ones(3), {"c": 1}], "d": collections.Counter("aab")}
    checkpoint.save(content, tmp_path / "1.pt")
    checkpoint.save(checkpoint.load(tmp_path / "1.pt"), tmp_path / "2.pt")
    one, two = (torch.load(tmp_path / name, weights_only=True) for name in ("1.pt", "2.pt"))
    assert same(one, two)


def test_checkpoint_keeps_parameters_as_values_only(tmp_path):
    checkpoint.save({"w": torch.nn.Parameter(torch.ones(2))}, tmp_path / "a.pt")
    assert not checkpoint.load(tmp_path / "a.pt")["w"].requires_grad


def test_checkpoint_that_does_not_fit_on_the_disk_leaves_the_old_one_a7(tmp_path):
    checkpoint.save({"a": torch.zeros(10)}, tmp_path / "last.pt")
    with full_disk(), pytest.raises(CheckpointError, match="File too large") as info:
        checkpoint.save({"a": torch.zeros(100_000)}, tmp_path / "last.pt")
    assert info.value.__cause__ is not None
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]
    assert checkpoint.load(tmp_path / "last.pt")["a"].shape == (10,)


def test_checkpoint_in_a_missing_folder_says_so(tmp_path):
    with pytest.raises(CheckpointError, match="No such file or directory"):
        checkpoint.save({}, tmp_path / "missing" / "a.pt")


def test_checkpoint_that_torch_refuses_to_write_gives_its_reason(tmp_path, monkeypatch):
    def refuse(*_):
        raise RuntimeError("the archive is closed")

    monkeypatch.setattr(torch, "save", refuse)
    with pytest.raises(CheckpointError, match="cannot be written: the archive is closed"):
        checkpoint.save({}, tmp_path / "a.pt")


def test_load_of_what_is_not_there_names_the_path(tmp_path):
    with pytest.raises(CheckpointError, match=r"There is no checkpoint .*a\.pt"):
        checkpoint.load(tmp_path / "a.pt")


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04broken"])
def test_load_of_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"a\.pt is damaged: it does not end as a checkpoint"):
        checkpoint.load(tmp_path / "a.pt")


def write_sealed(content, path):
    """Write what torch can write, as a checkpoint is written."""
    with path.open("wb") as file:
        sealed = SealedFile(file)
        torch.save(content, sealed)
        sealed.seal(0)


@pytest.mark.parametrize("content", [{"weights": 1}, [1, 2], {"format": 99}])
def test_load_of_a_foreign_file_names_the_format(tmp_path, content):
    write_sealed(content, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"not a checkpoint of this version .*format 2, got"):
        checkpoint.load(tmp_path / "a.pt")


class Trap:
    """Runs code when it is read back without care."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_load_of_code_is_refused_and_nothing_is_executed(tmp_path):
    write_sealed({"format": 2, "x": Trap(tmp_path / "executed")}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        checkpoint.load(tmp_path / "a.pt")
    assert not (tmp_path / "executed").exists()
    torch.load(tmp_path / "a.pt", weights_only=False)
    assert (tmp_path / "executed").exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "whole.pt"
    checkpoint.save({"clock": {"iterations": 7}, "weights": torch.randn(50, 50)}, path)
    return path.read_bytes()


@pytest.mark.parametrize("share", [i / 20 for i in range(20)])
def test_checkpoint_that_is_cut_anywhere_is_refused_s4(tmp_path, whole, share):
    (tmp_path / "a.pt").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load(tmp_path / "a.pt")


@pytest.mark.parametrize("number", range(50))
def test_checkpoint_with_a_flipped_bit_is_refused_s4(tmp_path, whole, number):
    bit = random.Random(number).randrange(8 * len(whole))
    # The first and the last bits, too: the mark, the iteration and the checksum are at the end.
    bit = [0, 8 * len(whole) - 1, 8 * (len(whole) - 35), 8 * (len(whole) - 45), bit][min(number, 4)]
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << (bit % 8)
    (tmp_path / "a.pt").write_bytes(damaged)
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load(tmp_path / "a.pt")


def test_checkpoint_tells_its_iteration_without_being_loaded(tmp_path, whole):
    (tmp_path / "a.pt").write_bytes(whole)
    (tmp_path / "foreign.pt").write_bytes(b"x" * 100)
    assert read_iteration(tmp_path / "a.pt") == 7
    assert read_iteration(tmp_path / "foreign.pt") is None
    assert read_iteration(tmp_path / "missing.pt") is None


def test_checkpoint_that_is_replaced_stays_under_its_former_name(tmp_path):
    path, former = tmp_path / "last.pt", tmp_path / "former.pt"
    for number in range(3):
        checkpoint.save({"x": number}, path, former)
    assert (checkpoint.load(path)["x"], checkpoint.load(former)["x"]) == (2, 1)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["former.pt", "last.pt"]


@pytest.mark.parametrize(("keep_last", "left"), [(None, [8, 9, 10]), (2, [9, 10]), (5, [8, 9, 10])])
def test_prune_keeps_the_newest_by_iteration_s1(tmp_path, keep_last, left):
    directory = RunDir.create(tmp_path)
    for iteration in (10, 9, 8):
        directory.checkpoint(iteration).touch()
    directory.last_checkpoint.touch()
    (directory.checkpoints / "checkpoint_mine.pt").touch()
    checkpoint.prune(directory, keep_last)
    assert directory.periodic_checkpoints() == [directory.checkpoint(i) for i in left]
    assert directory.last_checkpoint.exists()
    assert (directory.checkpoints / "checkpoint_mine.pt").exists()
