"""R7, K5, K6, K17: from a configuration to objects."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from toy import Toy, build

from jade.assemble import (
    Datasets,
    available,
    build_trainer,
    choose_device,
    count_parameters,
    make_loggers,
)
from jade.components import Architectures, Blueprint, ClassIndex, find_architecture_file
from jade.config import Sources, load
from jade.errors import ComponentError, DeviceError
from jade.origin import Origin
from jade.overrides import Override
from jade.resolve import resolve

# The part about devices, R7


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.fixture
def two_gpus(monkeypatch, no_gpu):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def test_device_auto_without_gpu_is_the_cpu_with_a_notice_r7(no_gpu, caplog):
    with caplog.at_level(logging.INFO):
        assert choose_device("auto") == torch.device("cpu")
    assert "there is no GPU" in caplog.text


def test_device_auto_takes_the_gpu_r7(two_gpus):
    assert choose_device("auto") == torch.device("cuda")


def test_device_auto_takes_apples_gpu_r7(no_gpu, monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto") == choose_device("mps") == torch.device("mps")
    assert "mps" in available()


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:0", "cuda:1"])
def test_device_that_is_there_is_taken_r7(two_gpus, name):
    assert choose_device(name) == torch.device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "meta"])
def test_device_that_is_not_there_is_refused_r7(no_gpu, name):
    with pytest.raises(
        DeviceError, match=f"device: '{name}' is not available here; this machine has auto, cpu"
    ):
        choose_device(name)


def test_device_number_that_is_not_there_is_refused_r7(two_gpus):
    with pytest.raises(DeviceError, match=r"'cuda:2' is not available here.*cuda:0, cuda:1"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", ""])
def test_device_that_is_none_is_refused_r7(no_gpu, name):
    with pytest.raises(DeviceError, match=r"is no device.*Known: auto, cpu"):
        choose_device(name)


# The file of architectures (K5)


@pytest.fixture
def modules(tmp_path):
    (tmp_path / "modules/architectures").mkdir(parents=True)
    (tmp_path / "modules/architectures/small.py").touch()
    (tmp_path / "modules/other.py").touch()
    return tmp_path / "modules"


@pytest.mark.parametrize("name", ["small", "small.py"])
def test_architecture_file_is_found_by_name_k5(modules, name):
    assert find_architecture_file(name, [modules]) == modules / "architectures/small.py"


def test_architecture_file_is_found_by_path_k5(modules):
    path = str(modules / "other.py")
    assert find_architecture_file(path, []) == Path(path)


def test_architecture_file_may_be_absent_k5():
    assert find_architecture_file(None, []) is None


def test_architecture_file_that_is_missing_is_refused_with_a_suggestion_k5(modules):
    with pytest.raises(ComponentError, match=r"no file smal\.py.*Did you mean 'small'\?"):
        find_architecture_file("smal.py", [modules])


# The part about datasets, K6


class Random:
    """Draws its samples when it is built."""

    built = 0

    def __init__(self, n=3):
        Random.built += 1
        self.values = [*torch.rand(n).tolist(), *np.random.rand(n).tolist()]

    def __len__(self):
        return len(self.values)


def datasets(seed=0):
    return Datasets({name: Blueprint(Random, f"data.{name}") for name in "abc"}, seed)


def test_datasets_are_built_on_first_access_once_and_told_with_their_sizes_k6(caplog):
    Random.built = 0
    found = datasets()
    assert (len(found), list(found), "a" in found, "x" in found) == (
        3,
        ["a", "b", "c"],
        True,
        False,
    )
    assert Random.built == 0
    with caplog.at_level(logging.INFO):
        assert found["a"] is found["a"]
    assert Random.built == 1
    assert "dataset a: Random, 6 samples" in caplog.text
    assert found.sizes() == {"a": 6}


def test_dataset_that_is_misspelt_is_suggested_k6():
    with pytest.raises(ComponentError, match="There is no dataset 'd' in the configuration"):
        datasets()["d"]


def test_datasets_are_the_same_whoever_asks_first():
    one, two = datasets(), datasets()
    torch.manual_seed(1)
    values = one["a"].values, one["b"].values
    torch.rand(5)
    assert (two["b"].values, two["a"].values) == values[::-1]
    assert values[0] != values[1]
    assert datasets(seed=1)["a"].values != values[0]


def test_datasets_take_no_random_numbers_from_training():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    datasets()["a"]
    assert torch.equal(torch.rand(3), expected)


# The part about networks, K17


def test_parameters_are_counted_for_each_network_and_each_once_k17():
    class Several(Toy):
        def initialize(self):
            super().initialize()
            self.frozen = nn.Linear(3, 2).requires_grad_(False)
            self.shared = nn.Sequential(self.net)
            self.loose = [nn.Linear(1, 1)]
            self.lazy = nn.LazyLinear(5)
            self.scale = nn.Parameter(torch.ones(4))
            self.nothing = None

    assert count_parameters(build(Several)) == [
        ("net", "Linear", 3, 0),
        ("frozen", "Linear", 0, 8),
        ("shared", "Sequential", 0, 0),
        ("lazy", "LazyLinear", 0, 0),
        ("loose[0]", "Linear", 2, 0),
        ("scale", "Parameter", 4, 0),
    ]


class Loose(Toy):
    def initialize(self):
        super().initialize()
        self.train_loader = []
        self.nets = {"a": nn.Linear(2, 2)}


def test_networks_in_plain_mappings_are_moved_to_the_device_too(monkeypatch):
    moved = []
    monkeypatch.setattr(nn.Linear, "to", lambda self, device: moved.append((self, device)))
    device = torch.device("cpu")
    trainer = build_trainer(
        Blueprint(Loose, "model"), {}, Architectures(ClassIndex([]), None), device
    )
    assert moved == [(trainer.nets["a"], device)]


@pytest.mark.parametrize(("helper", "expected"), [("import wandb", "WandbLogger"), ("", "Relay")])
def test_wandb_is_in_this_process_if_a_helper_of_the_project_imports_it(project, helper, expected):
    """Also where a warm server has imported wandb before, so that nothing else tells."""
    project.write("modules/models/helper.py", f"{helper}\n")
    project.write(
        "modules/models/helped.py",
        """
        from modules.models import helper
        from modules.models.line import LineTrainer


        class HelpedTrainer(LineTrainer):
            pass
        """,
    )
    project.write("model.yml", "class: HelpedTrainer\n")
    given = {
        "model_conf": "model.yml",
        "data_conf": "data.yml",
        "arch_impl": "modules/architectures/small.py",
        "epochs": 1,
    }
    overrides = [Override(key, value, Origin("here")) for key, value in given.items()]
    environ = {**os.environ, "WANDB_MODE": "offline"}
    resolved = resolve(load(Sources(arguments=overrides, environ=environ)))
    assert type(make_loggers(resolved)[-1]).__name__ == expected
