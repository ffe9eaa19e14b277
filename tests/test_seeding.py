"""Facts about seeds and the states of random number generators."""

import contextlib
import io
import logging
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from jade.errors import ConfigError
from jade.seeding import (
    derive,
    draw_seed,
    isolated_rng,
    rng_state,
    seed_everything,
    set_deterministic,
    set_rng_state,
)


@pytest.fixture(autouse=True)
def _restored_generators():
    with isolated_rng():
        yield


def draw():
    """Draw from every generator, so that the states differ afterwards."""
    normal = random.gauss(0, 1), float(np.random.randn()), torch.randn(3).tolist()
    return (random.random(), np.random.rand(2).tolist(), torch.rand(2).tolist(), normal)


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**63 - 1])
def test_seed_everything_decides_all_generators(seed):
    seed_everything(seed)
    first = draw()
    seed_everything(seed)

    assert draw() == first


def test_seed_everything_gives_what_each_library_gives_for_a_small_seed():
    seed_everything(7)

    assert random.random() == random.Random(7).random()
    assert np.random.rand() == np.random.RandomState(7).rand()
    assert torch.equal(torch.rand(2), torch.rand(2, generator=torch.Generator().manual_seed(7)))


def test_seed_everything_differs_between_seeds():
    seed_everything(0)
    first = draw()
    seed_everything(1)

    assert all(one != other for one, other in zip(first, draw(), strict=True))


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "3", None, True])
def test_seed_that_is_no_seed_raises(seed):
    with pytest.raises(ConfigError, match="seed must be an integer from 0"):
        seed_everything(seed)


def test_rng_state_restores_every_generator_exactly():
    draw()
    state = rng_state()
    expected = [draw() for _ in range(3)]

    set_rng_state(state)

    assert [draw() for _ in range(3)] == expected


def test_rng_state_survives_a_checkpoint_loaded_with_weights_only():
    draw()
    file = io.BytesIO()
    torch.save(rng_state(), file)
    expected = draw()

    file.seek(0)
    set_rng_state(torch.load(file, weights_only=True))

    assert draw() == expected


def test_rng_state_does_not_change_afterwards():
    state = rng_state()
    expected = draw()
    draw()
    set_rng_state(state)
    draw()

    set_rng_state(state)

    assert draw() == expected


def test_rng_state_restores_another_bit_generator_of_numpy():
    original = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        state = rng_state()
        expected = np.random.rand(3).tolist()

        set_rng_state(state)

        assert np.random.rand(3).tolist() == expected
    finally:
        np.random.set_bit_generator(original)


def test_rng_state_of_devices_that_are_not_here_is_reported(caplog):
    state = {**rng_state(), "cuda": [torch.get_rng_state()] * (torch.cuda.device_count() + 1)}
    if torch.cuda.is_available():
        pytest.skip("the states would have to be those of the real devices")

    with caplog.at_level(logging.WARNING):
        set_rng_state(state)

    assert "1 CUDA devices was saved, but only 0 are here" in caplog.text


@pytest.mark.parametrize("seed", [None, 0, 5])
def test_isolated_rng_leaves_no_trace(seed):
    state = rng_state()
    expected = draw()
    set_rng_state(state)

    with isolated_rng(seed):
        draw()

    assert draw() == expected


def test_isolated_rng_leaves_no_trace_of_what_failed():
    state = rng_state()
    expected = draw()
    set_rng_state(state)

    with contextlib.suppress(KeyError), isolated_rng(3):
        draw()
        raise KeyError

    assert draw() == expected


def test_isolated_rng_seeds_inside():
    results = []
    for _ in range(2):
        with isolated_rng(0):
            results.append(draw())
        draw()

    seed_everything(0)
    assert results == [draw()] * 2


def test_isolated_rng_without_a_seed_continues_the_stream():
    seed_everything(3)
    expected = draw()
    seed_everything(3)

    with isolated_rng():
        assert draw() == expected


def test_isolated_rng_with_a_bad_seed_raises():
    with pytest.raises(ConfigError, match="seed must be"), isolated_rng(-1):
        pass


def test_derive_gives_known_numbers():
    assert derive(0) == 7210762507766007076
    assert derive(7, "evaluation", 3) == 2473620236870333122
    assert derive(7, "evaluation", 3, bits=32) == 1151869183


def test_derive_distinguishes_seeds_and_parts():
    seeds = [
        derive(0),
        derive(1),
        derive(0, 1),
        derive(0, "1"),
        derive(0, "a", "b"),
        derive(0, "ab"),
    ]

    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("bits", [32, 63])
def test_derive_stays_below_its_number_of_bits(bits):
    seeds = [derive(3, number, bits=bits) for number in range(200)]

    assert 2 ** (bits - 2) < max(seeds) < 2**bits
    np.random.RandomState(derive(3, bits=32))
    seed_everything(max(seeds))


def test_draw_seed_differs_each_time_and_suits_every_library():
    seeds = [draw_seed() for _ in range(50)]

    assert len(set(seeds)) > 45
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_draw_seed_does_not_depend_on_the_seed_of_the_run():
    seed_everything(0)
    first = draw_seed()
    seed_everything(0)

    assert draw_seed() != first


class Draws(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([random.random(), np.random.rand(), float(torch.rand(()))])


# A worker that runs no line of JADE makes the measurement of coverage warn.
@pytest.mark.filterwarnings("ignore:No data was collected")
def test_workers_of_a_dataloader_draw_distinct_and_reproducible_numbers():
    runs = []
    for _ in range(2):
        seed_everything(4)
        loader = DataLoader(Draws(), batch_size=4, num_workers=2, multiprocessing_context="fork")
        runs.append(torch.cat(list(loader)))

    assert torch.equal(*runs)
    assert all(len(set(column)) == 8 for column in runs[0].T.tolist())


@pytest.fixture
def _default_determinism(monkeypatch):
    for name in ("TORCHINDUCTOR_DETERMINISTIC", "CUBLAS_WORKSPACE_CONFIG"):
        # Setting first makes monkeypatch remove it in the end, whoever set it.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    benchmark = torch.backends.cudnn.benchmark
    yield
    set_deterministic(enabled=False)
    torch.backends.cudnn.benchmark = benchmark


@pytest.mark.usefixtures("_default_determinism")
def test_set_deterministic_makes_torch_refuse_what_is_not():
    set_deterministic(enabled=True)

    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.backends.cudnn.deterministic
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


@pytest.mark.usefixtures("_default_determinism")
def test_set_deterministic_off_undoes_it():
    set_deterministic(enabled=True)

    set_deterministic(enabled=False)

    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.deterministic


@pytest.mark.usefixtures("_default_determinism")
def test_set_deterministic_keeps_a_workspace_that_the_user_chose(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")

    set_deterministic(enabled=True)

    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "import torch._inductor.config; "])
def test_set_deterministic_reaches_the_compiler_imported_later_or_before(first):
    code = (
        f"import sys; {first}from jade.seeding import set_deterministic; "
        "before = 'torch._inductor.config' in sys.modules; "
        "set_deterministic(enabled=True); "
        "assert before == ('torch._inductor.config' in sys.modules); "
        "import torch._inductor.config as config; print(config.deterministic)"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "True"
