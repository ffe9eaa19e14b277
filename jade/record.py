"""Keep the record of one run: its configuration, code, log file, status and summary."""

import json
import logging
import logging.handlers
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from jade import provenance, yaml_file
from jade.resolve import Resolved
from jade.run_dir import RUNNING, RunDir, write_whole

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
BUFFERED_RECORDS = 10_000


class RunLog:
    """Collect log records from the start, and write them to ``run.log`` once there is a run."""

    def __init__(self, level: str) -> None:
        self._level = getattr(logging, level.upper())
        self._buffer = logging.handlers.MemoryHandler(BUFFERED_RECORDS, logging.CRITICAL + 1)
        self._file: logging.FileHandler | None = None
        self._jade = logging.getLogger("jade")
        self._previous = logging.NOTSET

    def __enter__(self) -> "RunLog":
        self._previous = self._jade.level
        self._jade.setLevel(min(self._level, logging.INFO))
        self._buffer.setLevel(self._level)
        logging.getLogger().addHandler(self._buffer)
        return self

    def write_to(self, path: Path) -> None:
        """Write what was collected, and everything from now on, to a file."""
        self._file = logging.FileHandler(path, encoding="utf-8")
        self._file.setLevel(self._level)
        self._file.setFormatter(logging.Formatter(LOG_FORMAT))
        root = logging.getLogger()
        root.removeHandler(self._buffer)
        self._buffer.setTarget(self._file)
        self._buffer.flush()
        root.addHandler(self._file)

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        root.removeHandler(self._buffer)
        self._buffer.setTarget(None)
        self._buffer.close()
        if self._file is not None:
            root.removeHandler(self._file)
            self._file.close()
        self._jade.setLevel(self._previous)


class Record:
    """The directory of a run, filled as the run goes on."""

    def __init__(self, directory: RunDir) -> None:
        self.directory = directory
        self._started = time.time()

    @classmethod
    def start(
        cls, resolved: Resolved, root: Path, *, command: Sequence[str], seed: int
    ) -> "Record":
        """Create the directory, with everything in it that is known before training."""
        record = cls(RunDir.create(root, resolved.configuration.environ.get("WANDB_RUN_ID")))
        record.write_status(RUNNING)
        record._write_configuration(resolved)
        record._write_code(resolved)
        values = provenance.collect(command, seed, {"hardware": _hardware()})
        provenance.write_json(record.directory.provenance, values)
        return record

    def _write_configuration(self, resolved: Resolved) -> None:
        header = (f"Run it again: jade train --config {self.directory.config}",)
        text = yaml_file.render(resolved.frozen, header=header)
        write_whole(self.directory.config, text.encode())
        expanded = yaml_file.render(resolved.expanded, header=("With variables expanded.",))
        write_whole(self.directory.expanded_config, expanded.encode())

    def _write_code(self, resolved: Resolved) -> None:
        used = [Path(sys.modules[m].__file__ or "") for m in _user_modules(resolved.index.roots)]
        files = sorted({path.resolve() for path in (*resolved.index.used, *used)})
        provenance.snapshot_code(files, self.directory.code, Path.cwd())

    def write_status(self, status: str, **details: Any) -> None:
        """Record how the run stands."""
        self.directory.write_status(status, started=self._started, **details)

    def write_summary(self, values: Mapping[str, Any]) -> None:
        """Record what is to be said of the run as a whole."""
        text = json.dumps(values, indent=1) + "\n"
        write_whole(self.directory.summary, text.encode())


def _user_modules(roots: Sequence[Path]) -> list[str]:
    """List the imported modules whose files are below the given folders."""
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and any(root in Path(file).parents for root in roots):
            found.append(name)
    return found


def _hardware() -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"machine": platform.machine(), "gpus": gpus, "torch_threads": torch.get_num_threads()}
