"""Facts about the place in an epoch."""

import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, Sampler

from jade.errors import CheckpointError
from jade.position import Position
from jade.schedule import Clock
from jade.seeding import seed_everything


def test_state_holds_the_generators_of_a_loader_between_epochs_too():
    own = torch.Generator().manual_seed(3)
    loader = DataLoader(range(8), 2, shuffle=True, generator=own)
    position = Position(Clock(), loader, 0)
    at_start = own.get_state()
    list(position.start_epoch(loader))
    position.end_epoch()
    state = position.state_dict(loader)
    assert torch.equal(state["samplers"]["loader"]["generators"]["generator"], own.get_state())
    assert not torch.equal(state["samplers"]["loader"]["generators"]["generator"], at_start)
    assert state["beginning"] is None


def test_state_holds_the_generator_of_a_sampler():
    own = torch.Generator().manual_seed(3)
    loader = DataLoader(range(8), 2, sampler=RandomSampler(range(8), generator=own))
    state = Position(Clock(), loader, 0).state_dict(loader)
    assert torch.equal(state["samplers"]["sampler"]["generators"]["generator"], own.get_state())


def test_epoch_of_another_length_cannot_be_continued():
    loader = DataLoader(range(8), 2)
    clock = Clock()
    position = Position(clock, loader, 0)
    next(position.start_epoch(loader))
    clock.iterations = 1
    state = position.state_dict(loader)
    shorter = DataLoader(range(4), 2)
    with pytest.raises(CheckpointError, match="had 4 batches per epoch and has 2 now"):
        Position(clock, shorter, 0).load_state_dict(state, shorter)


def test_epoch_of_another_length_is_named_when_it_begins_anew(caplog):
    state = Position(Clock(), DataLoader(range(8), 2), 0).state_dict(DataLoader(range(8), 2))
    shorter = DataLoader(range(4), 2)
    Position(Clock(), shorter, 0).load_state_dict(state, shorter)
    assert "had 4 batches per epoch and has 2 now" in caplog.text


def test_sampler_that_counts_epochs_goes_on_counting():
    class Counting(RandomSampler):
        epoch = 0

    loader = DataLoader(range(4), 2, sampler=Counting(range(4)))
    loader.sampler.epoch = 5
    state = Position(Clock(), loader, 0).state_dict(loader)
    loader.sampler.epoch = 0
    Position(Clock(), loader, 0).load_state_dict(state, loader)
    assert loader.sampler.epoch == 5


class Drawn(Sampler):
    """Draws the order of an epoch by a function of any library."""

    def __init__(self, draw):
        self.draw = draw

    def __iter__(self):
        return iter(self.draw())


@pytest.mark.parametrize(
    "make_sampler",
    [
        lambda: Drawn(lambda: np.random.permutation(8).tolist()),
        lambda: Drawn(lambda: random.sample(range(8), 8)),
        lambda: Drawn(lambda: torch.randperm(8).tolist()),
        lambda: RandomSampler(range(8)),
    ],
    ids=["numpy", "python", "torch", "torch's own"],
)
def test_epoch_goes_on_whatever_its_sampler_draws_from(make_sampler):
    def make(clock):
        loader = DataLoader(range(8), 2, sampler=make_sampler())
        return loader, Position(clock, loader, 0)

    seed_everything(3)
    clock = Clock()
    loader, position = make(clock)
    # The second epoch: what the first one has found out decides how it is read.
    list(position.start_epoch(loader))
    position.end_epoch()
    batches = position.start_epoch(loader)
    next(batches)
    clock.iterations = 1
    state = position.state_dict(loader)
    rest = [batch.tolist() for batch in batches]

    seed_everything(4)
    loader, position = make(clock)
    position.load_state_dict(state, loader)
    assert [batch.tolist() for batch in position.start_epoch(loader)] == rest


class Endless(Sampler):
    """Draws a new order whenever it has come to the end of one, and counts them."""

    def __init__(self, draw):
        self.draw, self.rounds = draw, 0

    def __iter__(self):
        while True:
            self.rounds += 1
            for index in self.draw():
                yield (index + self.rounds) % 8


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.randperm(8).tolist(),
        lambda: np.random.permutation(8).tolist(),
        lambda: random.sample(range(8), 8),
    ],
    ids=["torch", "numpy", "python"],
)
@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 2), (2, 0)])
def test_sampler_that_draws_anew_goes_on_where_it_was(draw, before, after):
    def make(num_workers, clock):
        loader = DataLoader(range(8), 2, sampler=Endless(draw), num_workers=num_workers)
        return loader, Position(clock, loader, 0)

    def go_on(batches, number):
        listed = []
        for _ in range(number):
            listed.append(next(batches).tolist())
            # What training draws in between must decide nothing.
            torch.rand(3), np.random.rand(), random.random()
        return listed

    seed_everything(3)
    clock = Clock()
    loader, position = make(before, clock)
    batches = position.start_epoch(loader)
    go_on(batches, 6)
    clock.iterations = 6
    state = position.state_dict(loader)
    rest = go_on(batches, 9)
    position.close()
    assert sorted(rest[2] + rest[3] + rest[4] + rest[5]) == list(range(8))

    seed_everything(4)
    loader, position = make(after, clock)
    position.load_state_dict(state, loader)
    assert go_on(position.start_epoch(loader), 9) == rest
    position.close()


def test_counter_of_a_sampler_is_kept_and_what_was_configured_is_not():
    class Counting(RandomSampler):
        def __init__(self, data, hardness):
            super().__init__(data)
            self.hardness, self.rounds = hardness, 0

    def make(hardness):
        loader = DataLoader(range(4), 2, sampler=Counting(range(4), hardness))
        return loader, Position(Clock(), loader, 0)

    loader, position = make(1)
    loader.sampler.rounds = 3
    state = position.state_dict(loader)
    loader, position = make(2)
    position.load_state_dict(state, loader)
    assert (loader.sampler.rounds, loader.sampler.hardness) == (3, 2)


def test_epoch_that_torch_orders_does_not_look_at_other_generators():
    def beginning(sampler):
        loader, clock = DataLoader(range(8), 2, sampler=sampler), Clock()
        position = Position(clock, loader, 0)
        next(position.start_epoch(loader))
        return position.state_dict(loader)["beginning"]["rng"]

    assert "numpy" not in beginning(RandomSampler(range(8)))
    assert "numpy" in beginning(Drawn(lambda: np.random.permutation(8).tolist()))
