"""The places that trials run in: devices, and how many trials share one."""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jade.errors import ConfigError

AUTO, CPU, ALL = "auto", "cpu", "all"
VISIBLE = "CUDA_VISIBLE_DEVICES"
THREADS = "OMP_NUM_THREADS"
DEVICE = re.compile(r"(?P<kind>cpu|mps|auto|cuda)(?::(?P<index>\d+))?")


@dataclass(frozen=True)
class Slot:
    """A place for one trial at a time.

    Attributes:
        name: What people call it.
        device: Its device; ``auto`` leaves the choice to the trial.
        environ: What a trial that runs here has in its environment.
        cores: Which cores it may use; empty means all.
    """

    name: str
    device: str
    environ: Mapping[str, str]
    cores: tuple[int, ...] = ()


def parse_devices(text: str, num_cuda: int = 0) -> list[str]:
    """Parse ``cpu``, ``cuda:0,cuda:1`` or ``all``; ``num_cuda`` says how many GPUs there are.

    Raises:
        ConfigError: A device is unknown, or given twice.
    """
    if text == ALL:
        return [f"cuda:{index}" for index in range(num_cuda)] or [CPU]
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    devices = ["cuda:0" if name == "cuda" else name for name in names]
    for name in devices:
        match = DEVICE.fullmatch(name)
        if match is None or (match["index"] and match["kind"] != "cuda"):
            raise ConfigError(
                f"--devices: there is no device {name!r}. Write cpu, cuda:0,cuda:1 or all."
            )
    if not devices or len(set(devices)) < len(devices):
        what = "names no device" if not devices else "names a device twice"
        raise ConfigError(f"--devices {text!r} {what}. Several trials on one: --per_device K.")
    return devices


def make_slots(
    devices: Sequence[str],
    per_device: int,
    environ: Mapping[str, str],
    num_threads: int | None = None,
) -> list[Slot]:
    """Make the slots; trials that run beside each other share the cores, unless told otherwise."""
    num_slots = len(devices) * per_device
    if num_threads is None and num_slots > 1 and THREADS not in environ:
        num_threads = max(1, num_cores() // num_slots)
    threads = {} if num_threads is None else {THREADS: str(num_threads)}
    return [
        Slot(
            device if per_device == 1 else f"{device}/{number}",
            device,
            {**threads, **_device_variables(device, environ)},
        )
        # All devices first: a few trials spread over them.
        for number in range(1, per_device + 1)
        for device in devices
    ]


def share_cores(slots: Sequence[Slot], environ: Mapping[str, str]) -> list[Slot]:
    """Give each slot cores of its own, if there are enough: threads then keep their caches.

    No slot has more threads than its share of the cores, whatever the environment says: two runs
    with two threads each on two cores are many times slower than with one.
    """
    if len(slots) < 2:
        return list(slots)
    each = num_cores() // len(slots)
    given = environ.get(THREADS, "")
    if given.isdecimal():
        capped = {THREADS: str(min(int(given), max(each, 1)))}
        slots = [dataclasses.replace(slot, environ={**slot.environ, **capped}) for slot in slots]
    if each == 0 or not hasattr(os, "sched_getaffinity"):
        return list(slots)
    cores = sorted(os.sched_getaffinity(0))
    return [
        dataclasses.replace(slot, cores=tuple(cores[place * each : (place + 1) * each]))
        for place, slot in enumerate(slots)
    ]


def num_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _device_variables(device: str, environ: Mapping[str, str]) -> dict[str, str]:
    if device == AUTO:
        return {}
    if not device.startswith("cuda"):
        return {"DEVICE": device, VISIBLE: ""} if device == CPU else {"DEVICE": device}
    index = int(device.partition(":")[2])
    visible = [name for name in environ.get(VISIBLE, "").split(",") if name]
    # What is cuda:1 here is what the second name of the list says, whatever that is. Whoever does
    # not find it must not take the CPU instead.
    return {"DEVICE": "cuda", VISIBLE: visible[index] if index < len(visible) else str(index)}
