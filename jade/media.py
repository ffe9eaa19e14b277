"""Describe pictures, tables, histograms, text and sound, and write each to a file."""

import contextlib
import csv
import functools
import json
import logging
import math
import os
import sys
import wave
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jade.errors import ConfigError, suggest
from jade.whole_file import ASIDE

if TYPE_CHECKING:
    from PIL.Image import Image

KINDS = ("figure", "image", "images", "histogram", "table", "text", "audio")

_LOG = logging.getLogger(__name__)
_CHANNELS = (1, 3, 4)
_GRID_WIDTH = 256
_GRID_GAP = 2
_GRID_COLOR = (128, 128, 128)
_HISTOGRAM_BINS = 64
_MOST_AUDIO_CHANNELS = 32


@dataclass(frozen=True)
class Media:
    """One thing to look at or listen to.

    ::

        Media("figure", figure)                       matplotlib Figure, closed once written
        Media("image", array)                         HxW, CxHxW or HxWxC, floats in 0..1 or uint8
        Media("images", batch)                        NxCxHxW or a sequence: one grid
        Media("histogram", weights)                   numbers of any shape
        Media("table", [{"class": "cat", "n": 3}])    or {"columns": [...], "rows": [[...]]}
        Media("text", "any text")
        Media("audio", waveform, sample_rate=16000)   n or channels x n, floats in -1..1 or int16
    """

    kind: str
    value: Any
    caption: str | None = None
    sample_rate: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"Media: no kind {self.kind!r}.{suggest(self.kind, KINDS)}")
        if self.kind == "audio" and not self.sample_rate:
            raise ConfigError("Media: audio needs a sample_rate, in samples per second.")


def write(media: Media, stem: Path) -> Path:
    """Write the file of ``media`` whole or not at all; return ``stem`` with the extension added."""
    extension, write_to = _WRITERS[media.kind]
    # Not with_suffix: a name such as "accuracy@0.5" has no extension to replace.
    path = stem.with_name(stem.name + extension)
    aside = stem.with_name(f".{path.name}.{os.getpid()}{ASIDE}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_to(media, aside)
        aside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    finally:
        if media.kind == "figure":
            _close(media.value)
    return path


def portable(media: Media) -> Media:
    """Return what another process needs besides the file of ``media``, as plain values."""
    if media.kind == "table":
        columns, rows = to_table(media.value)
        return replace(media, value={"columns": columns, "rows": rows})
    return replace(media, value=str(media.value) if media.kind == "text" else None)


def to_array(value: Any) -> NDArray[Any]:
    """Return a tensor (any device or dtype), array, PIL image or nested list as a numpy array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        # numpy has no bfloat16.
        value = (value.float() if value.is_floating_point() else value).numpy()
    return np.asarray(value)


def to_histogram(value: Any) -> tuple[list[int], list[float]]:
    """Count the finite numbers of ``value`` in equal bins; return counts and edges."""
    numbers = finite_numbers(value)
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        # Equal numbers have no width of their own to divide into bins.
        margin = max(abs(low) * 1e-3, 0.5)
        low, high = low - margin, high + margin
    counts, edges = np.histogram(numbers, bins=_HISTOGRAM_BINS, range=(low, high))
    return [int(count) for count in counts], [float(edge) for edge in edges]


def finite_numbers(value: Any) -> NDArray[np.float64]:
    """Return the numbers of ``value`` in one dimension, without NaN and infinities."""
    numbers = to_array(value).astype(np.float64).ravel()
    return numbers[np.isfinite(numbers)]


def to_table(value: Any) -> tuple[list[str], list[list[Any]]]:
    """Return columns and rows of a table, each row as long as there are columns."""
    if isinstance(value, Mapping):
        if set(value) != {"columns", "rows"}:
            keys = ", ".join(map(str, value))
            raise ConfigError(f"Media: a table has the keys columns and rows, not {keys}.")
        columns, rows = [str(name) for name in value["columns"]], list(map(list, value["rows"]))
    else:
        records = [_by_text(record) for record in value]
        columns = list(dict.fromkeys(name for record in records for name in record))
        rows = [[record.get(name) for name in columns] for record in records]
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            wanted = f"{len(columns)} columns ({', '.join(columns)})"
            raise ConfigError(f"Media: row {number} of a table has {len(row)} cells for {wanted}.")
    return columns, [[_plain(cell) for cell in row] for row in rows]


def to_picture(value: Any) -> "Image":
    """Return one image (HxW, CxHxW or HxWxC) as a PIL image, pixel for pixel."""
    from PIL import Image

    if isinstance(value, Image.Image):
        return value if value.mode in ("L", "RGB", "RGBA") else value.convert("RGB")
    pixels = _channels_last(to_array(value), channels_first=hasattr(value, "detach"))
    return Image.fromarray(np.ascontiguousarray(_to_bytes(pixels)))


def to_grid(value: Iterable[Any]) -> "Image":
    """Return many images as one, in reading order, enlarged until a person can see them."""
    from PIL import Image

    pictures = [to_picture(item) for item in value]
    if not pictures:
        raise ConfigError("Media: images needs at least one image.")
    mode = "L" if all(picture.mode == "L" for picture in pictures) else "RGB"
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    width = max(picture.width for picture in pictures)
    height = max(picture.height for picture in pictures)
    scale = max(1, math.ceil((_GRID_WIDTH / columns - _GRID_GAP) / width))
    step_x, step_y = width * scale + _GRID_GAP, height * scale + _GRID_GAP
    size = (columns * step_x + _GRID_GAP, rows * step_y + _GRID_GAP)
    grid = Image.new(mode, size, _GRID_COLOR if mode == "RGB" else _GRID_COLOR[0])
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        large = picture.convert(mode).resize(
            (picture.width * scale, picture.height * scale), Image.Resampling.NEAREST
        )
        grid.paste(large, (_GRID_GAP + column * step_x, _GRID_GAP + row * step_y))
    return grid


def to_samples(value: Any) -> NDArray[np.int16]:
    """Return sound (n, or channels x n) as 16-bit samples of shape n x channels."""
    samples = np.atleast_2d(to_array(value))
    if samples.ndim > 2 or samples.shape[0] > _MOST_AUDIO_CHANNELS:
        raise ConfigError(f"Media: audio has the shape n or channels x n, not {samples.shape}.")
    if samples.dtype != np.int16:
        if samples.dtype.kind != "f":
            raise ConfigError(f"Media: audio is floats in -1..1 or int16, not {samples.dtype}.")
        samples = np.nan_to_num(np.clip(samples, -1, 1)) * np.iinfo(np.int16).max
    rounded: NDArray[np.int16] = samples.round().astype("<i2").T
    return rounded


def _by_text(record: Any) -> dict[str, Any]:
    if not isinstance(record, Mapping):
        kind = type(record).__name__
        raise ConfigError(f"Media: a table is a list of mappings, but holds a {kind}.")
    return {str(name): cell for name, cell in record.items()}


def _plain(cell: Any) -> Any:
    """Unwrap a numpy scalar or one-element tensor, which would print as ``tensor(3)``."""
    return cell.item() if hasattr(cell, "item") and np.size(to_array(cell)) == 1 else cell


def _channels_last(pixels: NDArray[Any], *, channels_first: bool) -> NDArray[Any]:
    """Return HxW, HxWx3 or HxWx4; ``channels_first`` decides when both readings are possible."""
    if pixels.ndim == 3:
        first, last = pixels.shape[0] in _CHANNELS, pixels.shape[2] in _CHANNELS
        if first and (channels_first or not last):
            pixels = np.moveaxis(pixels, 0, 2)
        if pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
    if not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in _CHANNELS)):
        shape = "x".join(map(str, pixels.shape)) or "a single number"
        raise ConfigError(f"Media: an image is HxW, CxHxW or HxWxC with C 1, 3 or 4, not {shape}.")
    if not pixels.size:
        raise ConfigError("Media: an image has no pixels.")
    return pixels


def _to_bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype.kind not in "fbiu":
        raise ConfigError(f"Media: an image is floats in 0..1 or uint8, not {pixels.dtype}.")
    top = 1 if pixels.dtype.kind in "fb" else 255
    values = np.nan_to_num(pixels.astype(np.float64), nan=0.0, posinf=top, neginf=0.0)
    if values.min() < -0.01 * top or values.max() > 1.01 * top:
        _warn_clipped(top)
    colors: NDArray[np.uint8] = (np.clip(values / top, 0, 1) * 255).round().astype(np.uint8)
    return colors


@functools.cache
def _warn_clipped(top: int) -> None:
    """Say once that colours are lost: an image in -1..1 would otherwise just look dark."""
    _LOG.warning("An image has values outside 0..%d; they were clipped (said once).", top)


def _write_figure(media: Media, path: Path) -> None:
    if not hasattr(media.value, "savefig"):
        kind = type(media.value).__name__
        raise ConfigError(f"Media: a figure is a matplotlib Figure, not {kind}.")
    media.value.savefig(path, format="png")


def _write_image(media: Media, path: Path) -> None:
    to_picture(media.value).save(path, format="PNG")


def _write_images(media: Media, path: Path) -> None:
    to_grid(media.value).save(path, format="PNG")


def _write_histogram(media: Media, path: Path) -> None:
    counts, edges = to_histogram(media.value)
    # What is left out of the bins is still counted: NaN in the weights is the news.
    num_non_finite = to_array(media.value).size - sum(counts)
    content = {"edges": edges, "counts": counts, "non_finite": num_non_finite}
    path.write_text(json.dumps(content), encoding="utf-8")


def _write_table(media: Media, path: Path) -> None:
    columns, rows = to_table(media.value)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def _write_text(media: Media, path: Path) -> None:
    path.write_text(str(media.value), encoding="utf-8")


def _write_audio(media: Media, path: Path) -> None:
    samples = to_samples(media.value)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(media.sample_rate or 0)
        file.writeframes(samples.tobytes())


def _close(figure: Any) -> None:
    """Let pyplot forget ``figure``; it would otherwise keep every figure of a run in memory."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    # What other libraries make of several plots can be saved and has a figure, but is none.
    inner = getattr(figure, "figure", figure)
    if pyplot is not None and isinstance(inner, pyplot.Figure):
        pyplot.close(inner)


_WRITERS: dict[str, tuple[str, Callable[[Media, Path], None]]] = {
    "figure": (".png", _write_figure),
    "image": (".png", _write_image),
    "images": (".png", _write_images),
    "histogram": (".json", _write_histogram),
    "table": (".csv", _write_table),
    "text": (".txt", _write_text),
    "audio": (".wav", _write_audio),
}
