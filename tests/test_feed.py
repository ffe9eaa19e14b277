"""S2, S5: an epoch goes on from any batch, with the batches it would have had."""

import random
import signal
import sys
import time

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from jade.feed import make_feed
from jade.feed.feeds import Feed, MemoryFeed, NumberedFeed, StatefulFeed, WorkerFeed
from jade.in_memory import TensorLoader
from jade.seeding import rng_state, seed_everything, set_rng_state


class Noisy(Dataset):
    """Draws from every generator there is, and from one of its own."""

    def __init__(self, seed=0):
        self.own = random.Random(seed)
        self.reads = 0

    def __len__(self):
        return 12

    def __getitem__(self, index):
        self.reads += 1
        noise = torch.rand(()) + random.random() + np.random.rand()
        return torch.stack([torch.tensor(float(index)), noise + self.own.random()])


class Quiet(Noisy):
    def __getitem__(self, index):
        self.reads += 1
        return torch.tensor(float(index))


def noisy_collate(samples):
    return torch.stack(samples) + torch.rand(())


def drawing_loop(batches):
    """Use batches as training does: it draws, too, between one batch and the next."""
    used = []
    for batch in batches:
        used.append(batch)
        torch.rand(3)
        random.random()
    return used


def epochs(loader, num=2):
    """Return all batches, and for each epoch the generators at its start."""
    seed_everything(5)
    feed = make_feed(loader, 7)
    used, starts = [], []
    for epoch in range(num):
        starts.append(rng_state())
        used.append(drawing_loop(feed.start(epoch)))
    feed.close()
    return used, starts


def continued(loader, start, epoch, batch):
    set_rng_state(start)
    feed = make_feed(loader, 7)
    rest = list(feed.start(epoch, batch))
    feed.close()
    return rest


def same(one, other):
    return len(one) == len(other) and all(
        torch.equal(a, b) for a, b in zip(one, other, strict=True)
    )


LOADERS = {
    "plain": {},
    "two workers": {"num_workers": 2},
    "workers that stay": {"num_workers": 2, "persistent_workers": True},
    "spawned": {"num_workers": 1, "multiprocessing_context": "spawn"},
}


def make(dataset=Noisy, **options):
    return DataLoader(dataset(), 5, shuffle=True, collate_fn=noisy_collate, **options)


@pytest.fixture(scope="module")
def reference():
    return epochs(make())


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.slow
def test_batches_do_not_depend_on_who_makes_them(reference, name):
    used, _ = epochs(make(**LOADERS[name]))
    assert all(same(a, b) for a, b in zip(used, reference[0], strict=True))


class RarelyNoisy(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        rare = np.random.randn() + random.random() if index == 19 else 0.0
        return torch.randn(()) + rare


def test_dataset_that_draws_from_a_library_for_some_samples_only_does_not_depend_on_workers():
    used, _ = epochs(DataLoader(RarelyNoisy(), 5))
    others, _ = epochs(DataLoader(RarelyNoisy(), 5, num_workers=2))
    assert all(same(a, b) for a, b in zip(used, others, strict=True))


@pytest.mark.parametrize("name", [name for name in LOADERS if name != "spawned"])
@pytest.mark.parametrize(("epoch", "batch"), [(0, 1), (1, 2), (1, 3)])
def test_epoch_goes_on_from_any_batch_with_any_number_of_workers(reference, name, epoch, batch):
    used, starts = reference
    rest = continued(make(**LOADERS[name]), starts[epoch], epoch, batch)
    assert same(rest, used[epoch][batch:])


def test_batches_differ_from_epoch_to_epoch_and_with_the_seed(reference):
    used, _ = reference
    noise = [torch.cat(epoch)[:, 1] for epoch in used]
    assert not set(noise[0].tolist()) & set(noise[1].tolist())
    seed_everything(5)
    other = torch.cat(list(make_feed(make(), 8).start(0)))[:, 1]
    assert not set(noise[0].tolist()) & set(other.tolist())


def test_dataset_that_was_seeded_otherwise_gives_other_batches(reference):
    seed_everything(5)
    loader = DataLoader(Noisy(seed=1), 5, shuffle=True, collate_fn=noisy_collate)
    [first, *_] = make_feed(loader, 7).start(0)
    assert torch.equal(first[:, 0], reference[0][0][0][:, 0])
    assert not torch.equal(first[:, 1], reference[0][0][0][:, 1])


def test_nothing_is_read_to_find_a_place():
    loader = make(Quiet)
    rest = list(make_feed(loader, 0).start(0, 2))
    assert [len(batch) for batch in rest] == [2]
    assert loader.dataset.reads == 2


def test_random_numbers_of_batches_are_not_those_of_training():
    states = []
    for dataset in (Noisy(), Quiet()):
        seed_everything(5)
        list(make_feed(DataLoader(dataset, 5, shuffle=True), 0).start(0))
        states.append(rng_state())
    assert torch.equal(states[0]["torch"], states[1]["torch"])
    assert states[0]["python"] == states[1]["python"]


def test_order_is_that_of_the_loader_itself():
    orders = []
    for wrap in (lambda loader: loader, lambda loader: make_feed(loader, 0).start(0)):
        seed_everything(5)
        orders.append(list(wrap(DataLoader(Quiet(), 5, shuffle=True))))
        orders.append(torch.get_rng_state())
    assert same(orders[0], orders[2])
    assert torch.equal(orders[1], orders[3])


def test_user_keeps_the_loader_as_it_was():
    loader = DataLoader(Quiet(), 5)
    before = dict(vars(loader))
    list(make_feed(loader, 0).start(0, 1))
    assert vars(loader) == before


@pytest.mark.parametrize("options", [{"batch_size": None}, {"batch_sampler": [[3, 1], (0, 2)]}])
def test_samples_and_custom_batches_are_fed_too(options):
    loader = DataLoader(Quiet(), **options)
    assert same(list(make_feed(loader, 0).start(0)), list(loader))
    assert same(list(make_feed(loader, 0).start(0, 1)), list(loader)[1:])


def test_dataset_that_reads_whole_batches_is_asked_for_them():
    class Whole(Quiet):
        def __getitems__(self, indices):
            return [torch.tensor(10.0 * index) for index in indices]

    assert next(make_feed(DataLoader(Whole(), 12), 0).start(0))[1] == 10


class Stream(IterableDataset):
    """Shuffles in a buffer: what comes next depends on all that was drawn before."""

    def __iter__(self):
        buffer = list(range(6))
        for item in range(6, 30):
            place = random.randrange(6)
            buffer[place], chosen = item, buffer[place]
            yield torch.tensor(chosen)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.slow
def test_stream_is_read_up_to_its_place(num_workers):
    loader = DataLoader(Stream(), 4, num_workers=num_workers)
    used, starts = epochs(loader)
    assert same(continued(loader, starts[1], 1, 3), used[1][3:])


def test_loader_of_a_users_own_is_read_up_to_its_place():
    class Own:
        def __iter__(self):
            return iter(torch.randperm(9))

    used, starts = epochs(Own())
    assert same(continued(Own(), starts[1], 1, 4), used[1][4:])


def test_loader_in_memory_begins_at_its_place():
    loader = TensorLoader(TensorDataset(torch.arange(9)), 2, shuffle=True)
    used, starts = epochs(loader)
    rest = continued(loader, starts[1], 1, 2)
    assert [b[0].tolist() for b in rest] == [b[0].tolist() for b in used[1][2:]]


class Subclass(DataLoader):
    def __iter__(self):
        return super().__iter__()


class Stateful(list):
    def state_dict(self):
        return {"at": 3}

    def load_state_dict(self, state):
        self[:] = [state["at"]]


@pytest.mark.parametrize(
    ("loader", "kind"),
    [
        (DataLoader(Quiet()), NumberedFeed),
        (DataLoader(Stream()), WorkerFeed),
        (Subclass(Quiet()), Feed),
        ([1, 2], Feed),
        (Stateful(), StatefulFeed),
        (TensorLoader(TensorDataset(torch.arange(3)), 1), MemoryFeed),
    ],
)
def test_each_kind_of_loader_is_known(loader, kind):
    assert type(make_feed(loader, 0)) is kind


def test_loader_that_knows_its_place_is_asked():
    feed = make_feed(Stateful(), 0)
    assert feed.state_dict() == {"own": {"at": 3}}
    feed.load_state_dict({"own": {"at": 8}})
    assert list(feed.start(0, 5)) == [8]


def started(worker_id):
    info = torch.utils.data.get_worker_info()
    info.dataset.offset = 100.0


class Shifted(Quiet):
    offset = 0.0

    def __getitem__(self, index):
        handlers = [signal.getsignal(s) is signal.SIG_IGN for s in (signal.SIGINT, signal.SIGUSR1)]
        return torch.tensor([self.offset, *handlers])


@pytest.mark.slow
def test_worker_starts_as_its_user_wants_and_lets_signals_pass():
    loader = DataLoader(Shifted(), 12, num_workers=1, worker_init_fn=started)
    [batch] = make_feed(loader, 0).start(0)
    assert batch[0].tolist() == [100, 1, 1]


class Slow(Quiet):
    """Leaves a file behind once it has made a sample that takes long."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __getitem__(self, index):
        if index > 0:
            time.sleep(2)
            (self.folder / f"made {index}").touch()
        return torch.tensor(float(index))


def test_workers_that_take_long_are_not_waited_for(tmp_path):
    feed = make_feed(DataLoader(Slow(tmp_path), 1, num_workers=1), 0)
    batches = feed.start(0)
    next(batches)
    [worker] = batches._workers
    feed.close()
    assert not worker.is_alive()
    assert not list(tmp_path.iterdir())


class Asked(Dataset):
    """Knows which modules have read it."""

    def __init__(self):
        self.readers = set()

    def __len__(self):
        return 12

    def __getitem__(self, index):
        self.readers.add(sys._getframe(1).f_globals["__name__"].partition(".")[0])
        return index


def test_dataset_that_draws_nothing_is_left_to_torch_after_the_first_epoch():
    loader = DataLoader(Asked(), 3, shuffle=True)
    seed_everything(5)
    expected = [[batch.tolist() for batch in loader] for _ in range(3)]

    seed_everything(5)
    feed = make_feed(loader, 7)
    used, readers = [], []
    for epoch in range(3):
        loader.dataset.readers.clear()
        used.append([batch.tolist() for batch in feed.start(epoch)])
        readers.append(set(loader.dataset.readers))
    assert used == expected
    assert readers == [{"jade"}, {"torch"}, {"torch"}]
