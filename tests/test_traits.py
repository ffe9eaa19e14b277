"""What training changes in networks besides weights, and what must stay as it is built."""

import torch
from torch import nn

from jade.traits import Traits


class Growing(nn.Module):
    """A table that grows on demand, and is not worth the room in a checkpoint."""

    def __init__(self):
        super().__init__()
        self.length = 2
        self.register_buffer("table", torch.zeros(2), persistent=False)

    def forward(self, number):
        if number > self.length:
            self.length, self.table = number, torch.zeros(number)
        return self.table[:number]


class Lazy(nn.Module):
    """A tensor that is made when it is first needed."""

    def __init__(self):
        super().__init__()
        self.is_made, self.values = False, None

    def forward(self):
        if not self.is_made:
            self.is_made, self.values = True, torch.ones(3)
        return self.values


def load_after(build, change, excluded=""):
    """Build networks, let training change them, and build them again with what is kept of that."""
    old, new = build(), build()
    is_excluded = (lambda path: path.startswith(excluded)) if excluded else (lambda path: False)
    kept = [Traits({"net": network}, is_excluded) for network in (old, new)]
    change(old)
    kept[1].load(kept[0].changed())
    return new


def test_number_that_training_has_changed_comes_back():
    net = load_after(lambda: nn.Dropout(0.5), lambda net: setattr(net, "p", 0.25))
    assert net.p == 0.25


def test_table_that_grows_on_demand_comes_back_as_it_is_built():
    assert load_after(Growing, lambda net: net(8))(8).shape == (8,)


def test_tensor_that_is_made_on_demand_is_made_again():
    assert load_after(Lazy, lambda net: net())().tolist() == [1.0, 1.0, 1.0]


def test_mode_comes_back_also_beside_a_tensor_that_does_not():
    def change(net):
        net(8)
        net.eval()

    assert load_after(Growing, change).training is False


def test_device_where_training_was_is_not_restored():
    def build():
        net = nn.Identity()
        net.where, net.phase = "cpu", "warm-up"
        return net

    def change(net):
        net.where, net.phase = "cuda:0", "main"

    net = load_after(build, change)
    assert (net.where, net.phase) == ("cpu", "main")


def test_networks_that_are_left_out_of_checkpoints_stay_as_they_are_built():
    net = load_after(lambda: nn.Dropout(0.5), lambda net: setattr(net, "p", 0.25), excluded="net")
    assert net.p == 0.5
