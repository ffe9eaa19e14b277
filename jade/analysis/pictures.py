"""The pictures of runs, small enough to be embedded in a page."""

import base64
import io
from pathlib import Path

from jade.run_dir import RunDir

# What one picture, and all of them together, may take.
MOST_BYTES, MOST_BYTES_IN_ALL = 250_000, 8_000_000
MOST_PIXELS = 900
MOST_OF_A_RUN = 4


class Album:
    """Embeds pictures until there is no more room."""

    def __init__(self, room: int = MOST_BYTES_IN_ALL) -> None:
        self._room = room

    def embed(self, directory: RunDir) -> list[dict[str, str]]:
        """Return the newest picture of each evaluation of a run, as addresses that hold them."""
        try:
            found = directory.pictures()
        except OSError:
            return []
        images = []
        for path in found[:MOST_OF_A_RUN]:
            data = _load(path)
            if data is not None and len(data[1]) <= self._room:
                self._room -= len(data[1])
                text = base64.b64encode(data[1]).decode()
                name = path.parent.relative_to(directory.evaluations).as_posix()
                images.append({"name": name, "data": f"data:{data[0]};base64,{text}"})
        return images


def _load(path: Path) -> tuple[str, bytes] | None:
    """Load a picture, made smaller if it is too large; None if it cannot be read."""
    from PIL import Image

    try:
        data = path.read_bytes()
        with Image.open(io.BytesIO(data)) as image:
            if len(data) <= MOST_BYTES and max(image.size) <= 2 * MOST_PIXELS:
                image.verify()
                return "image/png", data
            image.thumbnail((MOST_PIXELS, MOST_PIXELS))
            smaller = io.BytesIO()
            image.convert("RGB").save(smaller, "WEBP", quality=82)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return "image/webp", smaller.getvalue()
