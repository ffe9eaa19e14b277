"""A process that claims points which do nothing, and finishes them."""

import json
import sys
from typing import Any


def open_study(path: str) -> Any:
    """Open the study that all processes share."""
    from jade.launch.sweep_storage import open_storage
    from jade.launch.sweep_study import SweepStudy
    from jade.launch.sweep_worker import Worker

    return SweepStudy(open_storage(path), "claims", "minimize", Worker())


def main(path: str) -> None:
    """Claim until nothing is left, and print what was claimed."""
    study = open_study(path)
    study.beat()
    claimed = []
    while (claim := study.claim()) is not None:
        claimed.append(claim.number)
        study.finish(claim, "COMPLETE", 0.0, {"runs": [{"id": claim.key[:10], "value": 0.0}]})
    study.beat(has_ended=True)
    print(json.dumps(claimed))


if __name__ == "__main__":
    main(sys.argv[1])
