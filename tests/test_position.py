"""Facts about the place in an epoch."""

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler

from jade.errors import CheckpointError
from jade.position import Position
from jade.schedule import Clock


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


def test_sampler_that_counts_epochs_goes_on_counting():
    class Counting(RandomSampler):
        epoch = 0

    loader = DataLoader(range(4), 2, sampler=Counting(range(4)))
    loader.sampler.epoch = 5
    state = Position(Clock(), loader, 0).state_dict(loader)
    loader.sampler.epoch = 0
    Position(Clock(), loader, 0).load_state_dict(state, loader)
    assert loader.sampler.epoch == 5
