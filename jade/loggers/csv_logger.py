"""Write metrics to a CSV file, one row per step, that survives being killed at any moment."""

import contextlib
import csv
import io
import os
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from jade.errors import ConfigError
from jade.loggers.base import Logger, RunInfo
from jade.run_dir import ASIDE

_STEP = "iteration"

_Row = tuple[int, dict[str, str]]


class CsvLogger(Logger):
    """Rows of metrics in ``metrics.csv``: `iteration`, then each metric in order of appearance.

    Each row is in the file when ``log`` returns. A metric that appears late gets a new column, and
    the rows before it an empty cell. A file that exists is continued.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._file: io.FileIO | None = None
        self._columns: dict[str, None] = {}
        self._num_columns_in_file = 0
        # The rows that stand, or should stand, from ``_offset`` on: the last one, because its step
        # may bring more metrics, and those that a full disk has refused so far.
        self._rows: list[_Row] = []
        self._offset = 0
        self._end = 0
        self._size = 0

    def start(self, run: RunInfo) -> None:
        self._path = self._path or run.directory / "metrics.csv"
        if run.resumed_at is not None:
            self.cut_after(run.resumed_at)
        self._open(self._path)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        cells = {name: _render(value) for name, value in metrics.items() if name != _STEP}
        if self._rows and self._rows[-1][0] == step:
            self._rows[-1][1].update(cells)
        else:
            if self._end > self._offset:
                self._rows.clear()
                self._offset = self._end
            self._rows.append((step, cells))
        if not cells.keys() <= self._columns.keys():
            self._columns.update(dict.fromkeys(cells))
        # Should writing fail, this makes the next call write these rows again.
        self._end = self._offset
        if self._offset and len(self._columns) > self._num_columns_in_file:
            self._widen()
        else:
            self._write_rows()

    def finish(self, exit_code: int) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def cut_after(self, step: int) -> None:
        """Drop every row with an iteration above ``step``, all at once."""
        if self._path is None:
            raise ValueError("CsvLogger.cut_after needs a path, or a logger that was started.")
        is_open = self._file is not None
        self.finish(0)
        if self._path.is_file():
            _cut(self._path, step)
        if is_open:
            self._open(self._path)

    def _open(self, path: Path) -> None:
        """Open the file behind the rows that it has, without what was half written after them."""
        path.parent.mkdir(parents=True, exist_ok=True)
        columns, self._rows, self._offset = _read(path) if path.is_file() else ([], [], 0)
        self._columns = dict.fromkeys(columns)
        self._num_columns_in_file = len(columns)
        self._file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")
        self._size = self._file.seek(0, os.SEEK_END)
        self._end = 0
        if self._columns:
            self._write_rows()

    def _write_rows(self) -> None:
        """Write the rows from ``_offset`` on, behind the header if nothing stands before them."""
        if self._file is None:
            raise RuntimeError("CsvLogger: log was called before start or after finish.")
        header = b"" if self._offset else _encode_header(self._columns)
        block, file = header + self._encode_rows(), self._file
        file.seek(self._offset)
        written = 0
        try:
            # The operating system may take a part of it, and only then say that the disk is full.
            while written < len(block):
                written += file.write(block[written:]) or 0
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(self._offset)
            self._size = max(self._size, self._offset + written)
            raise
        self._end = self._offset + written
        if self._end < self._size:
            file.truncate(self._end)
        self._size = self._end
        self._num_columns_in_file = len(self._columns)

    def _widen(self) -> None:
        """Put a file that has all columns in the place of the one that lacks the latest."""
        path = Path(str(self._path))
        filler = b"," * (len(self._columns) - self._num_columns_in_file) + b"\n"
        with path.open("rb") as old:
            position = len(_read_header(old))
            settled = old.read(self._offset - position)
        padded = settled.replace(b"\n", filler)
        _replace(path, [_encode_header(self._columns), padded, self._encode_rows()])
        self.finish(0)
        self._open(path)

    def _encode_rows(self) -> bytes:
        names = self._columns
        lines = [
            ",".join([str(step), *[cells.get(name, "") for name in names]]) + "\n"
            for step, cells in self._rows
        ]
        return "".join(lines).encode()


def _render(value: Any) -> str:
    """Return a number as the shortest text that reads back as the same number."""
    if type(value) is float or type(value) is int:
        return repr(value)
    number = value.item() if hasattr(value, "item") else value
    return repr(int(number)) if isinstance(number, int) else repr(float(number))


def _encode_header(columns: Iterable[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_STEP, *columns])
    return text.getvalue().encode()


def _read_header(file: BinaryIO) -> bytes:
    """Read the header, which has several lines if a metric has a line break in its name."""
    header = file.readline()
    while header.count(b'"') % 2 and (line := file.readline()):
        header += line
    return header


def _read(path: Path) -> tuple[list[str], list[_Row], int]:
    """Return the columns of the file, its last whole row, and where that row begins."""
    with path.open("rb") as file:
        header = _read_header(file)
        columns = _parse_header(header, path)
        offset, last_lines = len(header), deque[tuple[int, bytes]](maxlen=2)
        for line in file:
            last_lines.append((offset, line))
            offset += len(line)
    for offset, line in reversed(last_lines):
        if row := _parse_row(line, columns):
            return columns, [row], offset
    return columns, [], 0


def _parse_header(header: bytes, path: Path) -> list[str]:
    """Return the columns, or none when not even the header was written whole."""
    if not header.endswith(b"\n"):
        return []
    step_name, *columns = next(csv.reader(io.StringIO(header.decode(), newline="")), [""])
    if step_name != _STEP:
        raise ConfigError(f"{path} is not a table of metrics: its first column is not {_STEP!r}.")
    return columns


def _parse_row(line: bytes, columns: list[str]) -> _Row | None:
    """Return a row, or None for one that was cut while it was written."""
    step, *cells = line.decode(errors="replace").rstrip("\n").split(",")
    if not line.endswith(b"\n") or len(cells) != len(columns) or not step.isdigit():
        return None
    return int(step), {name: cell for name, cell in zip(columns, cells, strict=True) if cell}


def _cut(path: Path, step: int) -> None:
    with path.open("rb") as file:
        header = _read_header(file)
        lines = file.readlines()
    columns = _parse_header(header, path)
    kept = [line for line in lines if (row := _parse_row(line, columns)) and row[0] <= step]
    if len(kept) < len(lines):
        _replace(path, [header, *kept])


def _replace(path: Path, content: Iterable[bytes]) -> None:
    """Write ``content`` aside, then put it in the place of ``path`` in one step."""
    aside = path.with_name(f".{path.name}.{os.getpid()}{ASIDE}")
    try:
        with aside.open("wb") as file:
            file.writelines(content)
            file.flush()
            # Without it, a machine that crashes may keep the new name and not the content.
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
