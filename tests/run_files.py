"""Write the directories of runs that never ran, for tests of what reads them."""

import json
import socket
import time

from jade.run_dir import RunDir


def write_run(root, run_id, status="finished", **details):
    """Write a run directory with a status, as a run leaves it behind."""
    run = RunDir.create(root, run_id)
    now = time.time()
    record = {
        "status": status,
        "updated": now,
        "pid": 2**22 + 1,
        "host": socket.gethostname(),
        "started": now - 90,
        **details,
    }
    run.status_file.write_text(json.dumps(record))
    return run
