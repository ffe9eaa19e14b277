"""Write metrics and media as TensorBoard events into the run directory."""

import importlib
import importlib.util
import json
import wave
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.errors import ConfigError
from jade.loggers.base import Logger, RunInfo

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from jade.media import Media

# A killed process loses what was not flushed; left alone, the writer waits two minutes.
_FLUSH_EVERY_S = 10


def require_tensorboard() -> None:
    """Raise a `ConfigError` that names the cure when tensorboard is not installed."""
    spec = importlib.util.find_spec("tensorboard")
    # A mere folder of that name counts as a package without an origin.
    if spec is None or spec.origin is None:
        raise ConfigError(
            "Logging to TensorBoard needs the package tensorboard: "
            "pip install 'jade-trainer[tensorboard]'."
        )


class TensorboardLogger(Logger):
    """Events under ``<run directory>/tensorboard``; see them with ``tensorboard --logdir``."""

    def __init__(self) -> None:
        self._run: RunInfo | None = None
        self._writer: SummaryWriter | None = None
        self._step: int | None = None

    def start(self, run: RunInfo) -> None:
        require_tensorboard()
        # Loaded now, not in the middle of the first steps.
        importlib.import_module("torch.utils.tensorboard")
        _directory(run).mkdir(parents=True, exist_ok=True)
        self._run = run

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        writer = self._writer_at(step)
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)

    def log_media(self, name: str, media: "Media", path: Path, step: int) -> None:
        writer = self._writer_at(step)
        if media.kind in ("figure", "image", "images"):
            _add_picture(writer, name, path, step)
        elif media.kind == "audio":
            _add_sound(writer, name, path, step)
        elif media.kind == "histogram":
            _add_histogram(writer, name, media.value, step)
        else:
            text = _render_table(media.value) if media.kind == "table" else str(media.value)
            writer.add_text(name, text, step)

    def summarize(self, values: Mapping[str, Any]) -> None:
        self._writer_at(self._step).add_text("summary", _render_json(values), self._step)

    def finish(self, exit_code: int) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _writer_at(self, step: int | None) -> "SummaryWriter":
        """Return the writer, opened on first use: a resumed run learns its step only then."""
        self._step = step
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            if self._run is None:
                raise RuntimeError("TensorboardLogger: used before start.")
            directory = _directory(self._run)
            # What was written beyond the checkpoint of a resumed run comes again: hide it.
            purge_step = step if any(directory.iterdir()) else None
            self._writer = SummaryWriter(
                str(directory), purge_step=purge_step, flush_secs=_FLUSH_EVERY_S
            )
            self._writer.add_text("config", _render_json(self._run.config), step)
        return self._writer


def _directory(run: RunInfo) -> Path:
    return run.directory / "tensorboard"


def _add_picture(writer: "SummaryWriter", name: str, path: Path, step: int) -> None:
    """Add a picture as the file is, without decoding and encoding it again."""
    from PIL import Image
    from tensorboard.compat.proto.summary_pb2 import Summary

    with Image.open(path) as picture:
        width, height = picture.size
    image = Summary.Image(
        width=width, height=height, colorspace=3, encoded_image_string=path.read_bytes()
    )
    _add(writer, Summary(value=[Summary.Value(tag=name, image=image)]), step)


def _add_sound(writer: "SummaryWriter", name: str, path: Path, step: int) -> None:
    """Add sound as the file is; ``add_audio`` of the writer refuses more than one channel."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    with wave.open(str(path)) as file:
        audio = Summary.Audio(
            sample_rate=file.getframerate(),
            num_channels=file.getnchannels(),
            length_frames=file.getnframes(),
            encoded_audio_string=path.read_bytes(),
            content_type="audio/wav",
        )
    _add(writer, Summary(value=[Summary.Value(tag=name, audio=audio)]), step)


def _add_histogram(writer: "SummaryWriter", name: str, value: Any, step: int) -> None:
    from jade.media import finite_numbers

    numbers = finite_numbers(value)
    if numbers.size:
        writer.add_histogram(name, numbers, step)


def _add(writer: "SummaryWriter", summary: Any, step: int) -> None:
    file_writer: Any = writer.file_writer
    file_writer.add_summary(summary, step)


def _render_table(value: Any) -> str:
    """Render a table in Markdown, which TensorBoard shows as a table."""
    from jade.media import to_table

    columns, rows = to_table(value)
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(_render_cell, line)) + " |" for line in lines)


def _render_cell(cell: Any) -> str:
    return "" if cell is None else str(cell).replace("|", "\\|").replace("\n", " ")


def _render_json(values: Mapping[str, Any]) -> str:
    """Render nested values as a Markdown code block, which keeps their indentation."""
    text = json.dumps(values, indent=2, default=_to_json, ensure_ascii=False)
    return "\n".join("    " + line for line in text.splitlines())


def _to_json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
