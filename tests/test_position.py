"""Facts about the place in an epoch."""

import torch
from torch.utils.data import DataLoader, RandomSampler

from jade.position import Position
from jade.schedule import Clock


def test_state_holds_the_generators_of_a_loader_between_epochs_too():
    own = torch.Generator().manual_seed(3)
    loader = DataLoader(range(8), 2, shuffle=True, generator=own)
    position = Position(Clock())
    position.start_epoch(loader)
    at_start = own.get_state()
    list(loader)
    position.end_epoch()
    state = position.state_dict(loader)
    assert torch.equal(state["generators"]["loader"], own.get_state())
    assert not torch.equal(state["generators"]["loader"], at_start)
    assert state["generators_at_epoch_start"] is None


def test_state_holds_the_generator_of_a_sampler():
    own = torch.Generator().manual_seed(3)
    loader = DataLoader(range(8), 2, sampler=RandomSampler(range(8), generator=own))
    state = Position(Clock()).state_dict(loader)
    assert torch.equal(state["generators"]["sampler"], own.get_state())
