"""Break what can break, and see that nothing is lost: ``python -m benchmarks.faults --help``."""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.faults import (
    change,
    cluster,
    cut_log,
    damage,
    full_disk,
    hostile,
    kill,
    stop,
    sweep_kill,
)
from benchmarks.faults.bench import Bench
from benchmarks.faults.verdict import Verdict, print_table

FAULTS: dict[str, Callable[[Bench], Verdict]] = {
    "kill": kill.run,
    "stop": stop.run,
    "disk": full_disk.run,
    "damage": damage.run,
    "hostile": hostile.run,
    "log": cut_log.run,
    "change": change.run,
    "sweep": sweep_kill.run,
    "cluster": cluster.run,
}


def main() -> int:
    """Try the faults that the arguments name; return 1 if something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--only", metavar="A,B", help=f"some of: {', '.join(FAULTS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the cases")
    parser.add_argument("--seed", type=int, default=0, help="decides the instants")
    parser.add_argument("--json", metavar="FILE", help="write the verdicts to a file, too")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else list(FAULTS)
    unknown = [name for name in chosen if name not in FAULTS]
    if unknown:
        parser.error(f"no fault {unknown[0]!r}; there are {', '.join(FAULTS)}")
    # Processes are forked from this one, so it must have no threads.
    torch.set_num_threads(1)
    root = Path(tempfile.mkdtemp(prefix="jade-faults-"))
    verdicts = [
        _try(name, Bench(root / name, arguments.seed, quick=arguments.quick)) for name in chosen
    ]
    print_table(verdicts)
    if arguments.json:
        values = [{**asdict(verdict), "has_held": verdict.has_held} for verdict in verdicts]
        Path(arguments.json).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    if all(verdict.has_held for verdict in verdicts):
        shutil.rmtree(root)
        return 0
    return 1


def _try(name: str, bench: Bench) -> Verdict:
    print(f"trying {name} ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    verdict = FAULTS[name](bench)
    verdict.seconds = time.monotonic() - started
    return verdict


if __name__ == "__main__":
    sys.exit(main())
