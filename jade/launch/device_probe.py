"""Try the GPUs of this machine, in a process that ends at once and keeps none of them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from jade.errors import DeviceError, suggest
from jade.launch.slots import ALL, parse_devices

TIMEOUT_S = 120.0


def probe(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return ``{"count": 2, "problems": {"cuda:1": "out of memory"}}``, as a new process has it."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "jade.launch.device_probe"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"count": 0, "problems": {"cuda": f"no answer in {TIMEOUT_S:.0f} s"}}
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"count": 0, "problems": {"cuda": last}}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def find_devices(text: str, environ: Mapping[str, str]) -> list[str]:
    """Parse ``cpu``, ``cuda:0,cuda:1`` or ``all``, and see that there are such GPUs.

    Raises:
        ConfigError: A device is unknown, or given twice.
        DeviceError: It is not here: a training would quietly take the CPU instead.
    """
    num_cuda = probe(environ)["count"] if text == ALL or "cuda" in text.lower() else 0
    devices = parse_devices(text, num_cuda)
    known = [f"cuda:{index}" for index in range(num_cuda)]
    for device in devices:
        if device.startswith("cuda") and device not in known:
            raise DeviceError(f"--devices: {device} is not here.{suggest(device, ['cpu', *known])}")
    return devices


def _try_all() -> dict[str, Any]:
    import torch

    problems = {}
    count = torch.cuda.device_count()
    for index in range(count):
        try:
            torch.zeros(8, device=f"cuda:{index}").sum().item()
        except (RuntimeError, AssertionError) as error:
            problems[f"cuda:{index}"] = str(error).splitlines()[0]
    return {"count": count, "problems": problems}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_try_all()) + "\n")
