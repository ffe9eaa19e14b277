"""Try the GPUs of this machine, in a process that ends at once and keeps none of them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

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
