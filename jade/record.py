"""Keep the record of one run: its configuration, code, log file, status and summary."""

import json
import logging
import logging.handlers
import math
import platform
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from jade import provenance, yaml_file
from jade.code_copy import CodeCopy
from jade.errors import JadeError
from jade.progress import ConsoleHandler
from jade.provenance import Provenance
from jade.resolve import Resolved
from jade.run_dir import RUNNING, RunDir
from jade.saved_runs import read_json
from jade.whole_file import whole_file, write_whole

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
BUFFERED_RECORDS = 10_000
# What is remembered of earlier starts of a run.
REMEMBERED = ("started", "command", "host", "python", "ids")


class RunLog:
    """Collect log records from the start, and write them to ``run.log`` once there is a run."""

    def __init__(self, level: str) -> None:
        self._level = getattr(logging, level.upper())
        self._buffer = logging.handlers.MemoryHandler(BUFFERED_RECORDS, logging.CRITICAL + 1)
        self._file: logging.FileHandler | None = None
        self._jade = logging.getLogger("jade")
        self._previous = logging.NOTSET
        self._console: logging.Handler | None = None

    def __enter__(self) -> "RunLog":
        self._previous = self._jade.level
        if not self._jade.hasHandlers():
            # Python shows warnings where nobody set up logging, until somebody adds a handler.
            self._console = ConsoleHandler(level=logging.WARNING)
            self._jade.addHandler(self._console)
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

    def write_failure(self, error: BaseException) -> None:
        """Write why the run failed to the file only: on the console it is shown by who catches it.

        The message of a `JadeError` says it all; anything else needs its traceback.
        """
        if self._file is not None:
            is_known = isinstance(error, JadeError)
            text = str(error) if is_known else "The run failed."
            trace = None if is_known else (type(error), error, error.__traceback__)
            record = self._jade.makeRecord("jade", logging.ERROR, "", 0, text, (), trace)
            self._file.handle(record)

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        root.removeHandler(self._buffer)
        self._buffer.setTarget(None)
        self._buffer.close()
        if self._file is not None:
            root.removeHandler(self._file)
            self._file.close()
        if self._console is not None:
            self._jade.removeHandler(self._console)
        self._jade.setLevel(self._previous)


class Record:
    """The directory of a run, filled as the run goes on.

    Args:
        directory: The directory.
        constant: What every status says, besides how the run stands.
        former: What the status said when the run was left, if it is continued.
    """

    def __init__(
        self,
        directory: RunDir,
        constant: Mapping[str, Any] = MappingProxyType({}),
        former: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.directory = directory
        self._is_new = not former
        self._constant = {
            **constant,
            "started": former.get("started", time.time()),
            "attempts": former.get("attempts", 0) + 1,
        }
        kept = ("iterations", "epochs", "fraction", "total_epochs", "best", "latest")
        self.write_status(RUNNING, **{key: former[key] for key in kept if key in former})

    @classmethod
    def reopen(cls, directory: RunDir, constant: Mapping[str, Any]) -> "Record":
        """Enter the directory of a run that is continued."""
        for folder in (directory.checkpoints, directory.evaluations):
            folder.mkdir(exist_ok=True)
        former = read_json(directory.status_file) or {"attempts": 0}
        return cls(directory, constant, former)

    def describe(
        self,
        resolved: Resolved,
        origin: Provenance,
        sizes: Mapping[str, int | None] = MappingProxyType({}),
    ) -> None:
        """Write down everything that is known before training.

        Args:
            resolved: The configuration of the run.
            origin: Where the run comes from.
            sizes: The numbers of samples of the datasets that have been built.
        """
        self._write_configuration(resolved)
        former = {} if self._is_new else read_json(self.directory.provenance)
        code = self._keep_code(former) or self._write_code(resolved)
        values = {**origin.result(), "hardware": _hardware(), "code": code, "samples": sizes}
        if former:
            values["before"] = [*former.get("before", []), {k: former.get(k) for k in REMEMBERED}]
        provenance.write_json(self.directory.provenance, values)

    def _keep_code(self, former: Mapping[str, Any]) -> dict[str, Any] | None:
        """Leave a copy of the code that is still up to date; put one that is not aside."""
        notes = former.get("code")
        if not notes:
            return None
        copy = CodeCopy(self.directory.code, notes)
        if copy.files() and not copy.changes(Path.cwd()):
            return dict(notes)
        if copy.files():
            self.directory.code.replace(self.directory.former_code(self._constant["attempts"] - 1))
        return None

    def _write_configuration(self, resolved: Resolved) -> None:
        header = (f"Run it again: jade train --config {self.directory.config}",)
        text = yaml_file.render(resolved.frozen, header=header)
        # Durable: without it, a run that was cut off cannot be continued.
        with whole_file(self.directory.config, durable=True) as file:
            file.write(text.encode())
        expanded = yaml_file.render(resolved.expanded, header=("With variables expanded.",))
        write_whole(self.directory.expanded_config, expanded.encode())

    def _write_code(self, resolved: Resolved) -> dict[str, Any]:
        """Copy the code, and return where in the copy the settings that name code would point."""
        roots, files = resolved.index.roots, resolved.code_files()
        provenance.snapshot_code(sorted(files), self.directory.code, Path.cwd(), roots)
        return provenance.find_in_snapshot(
            provenance.place_code(files, Path.cwd(), roots), roots, resolved.architecture_file
        )

    def make_status(self, status: str, **details: Any) -> dict[str, Any]:
        """Say how the run stands, as ``write_status`` would record it."""
        return self.directory.make_status(status, **self._constant, **_finite(details))

    def write_status(self, status: str, **details: Any) -> None:
        """Record how the run stands."""
        self.directory.write_status(status, **self._constant, **_finite(details))

    def write_summary(self, values: Mapping[str, Any]) -> None:
        """Record what is to be said of the run as a whole."""
        text = json.dumps(_finite(values), indent=1, allow_nan=False) + "\n"
        write_whole(self.directory.summary, text.encode())

    def remove(self) -> None:
        """Remove the directory again: the run could not even begin."""
        shutil.rmtree(self.directory.root)


def _finite(value: Any) -> Any:
    """Write NaN and infinity as text: JSON has no numbers for them."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _hardware() -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"machine": platform.machine(), "gpus": gpus, "torch_threads": torch.get_num_threads()}
