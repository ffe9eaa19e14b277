"""Seed every random number generator, and save, restore and isolate their states.

Workers of a ``DataLoader`` need nothing from here: torch seeds its own generator, Python's and
NumPy's in each worker, from a number that the loader draws, so one seed decides them all.
"""

import contextlib
import hashlib
import logging
import os
import random
import sys
from collections.abc import Iterator
from typing import Any, Final

import torch

from jade.errors import ConfigError

_NUMPY_BITS: Final = 32
_SEED_BITS: Final = 63
CUBLAS_VARIABLE: Final = "CUBLAS_WORKSPACE_CONFIG"

logger = logging.getLogger(__name__)


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch on all devices, also devices that are initialised later."""
    _check_seed(seed)
    if torch.accelerator.current_accelerator() is None:
        # No device can come later; torch would note the whole call stack in case one does.
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
    _seed_python_and_numpy(seed)


def draw_seed() -> int:
    """Draw a seed from the operating system.

    It has 32 bits: NumPy takes no more, and a web page shows no integer above 2**53 exactly.
    """
    return int.from_bytes(os.urandom(_NUMPY_BITS // 8), "big")


def derive(seed: int, *parts: str | int, bits: int = _SEED_BITS) -> int:
    """Derive from ``seed`` a seed for what ``parts`` name: the same on every machine and version.

    Args:
        seed: The seed of the run.
        parts: What it is for; ``1`` and ``"1"`` differ.
        bits: Size of the result, at most 63; NumPy's ``seed`` needs 32.
    """
    digest = hashlib.blake2b(repr((seed, *parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - bits)


def rng_state() -> dict[str, Any]:
    """Return the state of all generators, in types that ``torch.load(weights_only=True)`` reads."""
    state = base_rng_state()
    if _has_numpy():
        state["numpy"] = _numpy_state()
    if _has_cuda_state():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def base_rng_state() -> dict[str, Any]:
    """Return the state of Python's and torch's generators only: NumPy takes ten times as long."""
    return {"python": random.getstate(), "torch": torch.get_rng_state()}


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore what one of these returned, on as many CUDA devices as there are here."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        _set_numpy_state(state["numpy"])
    _set_cuda_states(state.get("cuda", []))


@contextlib.contextmanager
def isolated_rng(seed: int | None = None) -> Iterator[None]:
    """Leave all generators at the end as they were at the start; seed them inside, if asked to."""
    if seed is not None:
        _check_seed(seed)
    state = rng_state()
    try:
        if seed is not None:
            _seed_without_later_effect(seed)
        yield
    finally:
        set_rng_state(state)


def set_deterministic(*, enabled: bool) -> None:
    """Let torch refuse or replace algorithms whose results vary from run to run, or allow them."""
    # torch.use_deterministic_algorithms would import the compiler (over a second) for one flag.
    torch.set_deterministic_debug_mode("error" if enabled else "default")
    inductor = sys.modules.get("torch._inductor.config")
    if inductor is not None:
        inductor.deterministic = enabled  # type: ignore[attr-defined]
    os.environ["TORCHINDUCTOR_DETERMINISTIC"] = str(int(enabled))
    torch.backends.cudnn.deterministic = enabled
    if enabled:
        torch.backends.cudnn.benchmark = False
        # cuBLAS reads it when it starts, and is deterministic with no other setting.
        os.environ.setdefault(CUBLAS_VARIABLE, ":4096:8")


def _check_seed(seed: object) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**_SEED_BITS:
        raise ConfigError(f"seed must be an integer from 0 to 2**{_SEED_BITS} - 1, not {seed!r}.")


def _has_numpy() -> bool:
    # torch imports NumPy where it is installed; where nobody did, nobody draws from it.
    return "numpy" in sys.modules


def _has_cuda_state() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _seed_python_and_numpy(seed: int) -> None:
    random.seed(seed)
    if _has_numpy():
        import numpy as np

        np.random.seed(seed % 2**_NUMPY_BITS)


def _seed_without_later_effect(seed: int) -> None:
    """Seed the generators that exist; torch.manual_seed would also seed CUDA when it starts."""
    torch.default_generator.manual_seed(seed)
    if _has_cuda_state():
        torch.cuda.manual_seed_all(seed)
    _seed_python_and_numpy(seed)


def _numpy_state() -> dict[str, Any]:
    import numpy as np

    state: dict[str, Any] = np.random.get_state(legacy=False)
    inner = {
        name: torch.from_numpy(value.astype(np.int64)) if isinstance(value, np.ndarray) else value
        for name, value in state["state"].items()
    }
    return {**state, "state": inner}


def _set_numpy_state(state: dict[str, Any]) -> None:
    import numpy as np

    inner = {
        name: value.numpy() if isinstance(value, torch.Tensor) else value
        for name, value in state["state"].items()
    }
    np.random.set_state({**state, "state": inner})


def _set_cuda_states(states: list[torch.Tensor]) -> None:
    present = torch.cuda.device_count() if states else 0
    for device, device_state in enumerate(states[:present]):
        torch.cuda.set_rng_state(device_state, device)
    if len(states) > present:
        logger.warning(
            "The random state of %d CUDA devices was saved, but only %d are here: "
            "random numbers drawn on the others will differ.",
            len(states),
            present,
        )
