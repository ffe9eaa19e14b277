"""What a progress line shows, and as which text."""

from collections.abc import Mapping
from dataclasses import dataclass

from jade.timespan import render_duration

TRAINING = "training"
PLAIN_WIDTH = 160


@dataclass(frozen=True)
class Snapshot:
    """What the training loop says of itself at one moment.

    Attributes:
        fraction: The share of the training amount that is done; None for endless training.
        losses: The latest value of each loss item.
        phase: "training", or what the loop does instead, such as "writing checkpoint".
    """

    iteration: int
    epoch: int
    fraction: float | None
    losses: Mapping[str, float]
    phase: str
    total_epochs: int | None = None


@dataclass(frozen=True)
class Status:
    """All that a progress line shows; ``snapshot`` is None until the loop could be read once."""

    title: str
    elapsed_s: float
    snapshot: Snapshot | None = None
    rate: float | None = None
    left_s: float | None = None


def render_plain(status: Status, width: int = PLAIN_WIDTH) -> str:
    """Render the status as one line of text for a log file, at most ``width`` long."""
    head = f"{one_line(status.title)}: {', '.join(_facts(status))}"
    losses = _fit_losses(status, width - len(head), separator=", ", ellipsis="...")
    return _cut(head + losses, width, "...")


def render_bar(status: Status, width: int, *, ascii_only: bool = False) -> list[tuple[str, str]]:
    """Render the status as pieces of one line (text and style) that together fit ``width``.

    The losses give way first, then the end of the other facts.
    """
    ellipsis = "..." if ascii_only else "…"
    title = _cut(one_line(status.title), max(width // 4, 8), ellipsis)
    facts = "  ".join(_facts(status))
    pieces = [(title, "bold"), *_bar(status, width // 8, ascii_only=ascii_only)]
    room = width - sum(len(text) for text, _ in pieces) - 1
    facts = _cut(facts, max(room, 0), ellipsis)
    losses = _fit_losses(status, room - len(facts), separator="  ", ellipsis=ellipsis)
    return [*pieces, (f" {facts}", ""), (losses, "cyan")]


def _bar(status: Status, width: int, *, ascii_only: bool) -> list[tuple[str, str]]:
    if status.snapshot is None or status.snapshot.fraction is None or width < 5:
        return []
    width = min(width, 20)
    num_full = _floor_share(status.snapshot.fraction, width)
    full, empty = ("#", "-") if ascii_only else ("━", "─")
    return [(f" {full * num_full}", "green"), (empty * (width - num_full), "bright_black")]


def _floor_share(fraction: float, whole: int) -> int:
    """Return the part of ``whole``, rounded down: a full bar means that training is done."""
    # The smallest trifle more, because 0.29 * 100 is 28.999...
    return int(min(max(0.0, fraction), 1.0) * whole + 1e-9)


def _facts(status: Status) -> list[str]:
    """List what is worth knowing, the losses apart."""
    snapshot = status.snapshot
    if snapshot is None:
        return ["starting", render_duration(status.elapsed_s)]
    facts = []
    if snapshot.fraction is not None:
        facts.append(f"{_floor_share(snapshot.fraction, 100)}%")
    total = "" if snapshot.total_epochs is None else f"/{snapshot.total_epochs}"
    facts += [f"epoch {snapshot.epoch}{total}", f"it {snapshot.iteration:,}"]
    if status.rate is not None:
        facts.append(_rate(status.rate))
    left = f" ({render_duration(status.left_s)} left)" if status.left_s else ""
    facts.append(render_duration(status.elapsed_s) + left)
    if snapshot.phase != TRAINING:
        facts.append(one_line(snapshot.phase))
    return facts


def _fit_losses(status: Status, room: int, *, separator: str, ellipsis: str) -> str:
    """Render as many losses as fit, each with the separator before it, then the ellipsis."""
    losses = status.snapshot.losses if status.snapshot is not None else {}
    shown = ""
    for position, (name, value) in enumerate(losses.items(), start=1):
        item = f"{separator}{one_line(name)} {_number(value)}"
        # Whoever is not the last must leave room to say that there are more.
        reserve = len(separator + ellipsis) if position < len(losses) else 0
        if len(shown + item) + reserve > room:
            return shown + separator + ellipsis if room >= len(shown + separator + ellipsis) else ""
        shown += item
    return shown


def _number(value: float) -> str:
    try:
        return f"{value:.4g}"
    except (TypeError, ValueError):
        return one_line(str(value))


def _rate(rate: float) -> str:
    value, unit = (rate, "it/s") if rate >= 1 else (1 / rate, "s/it")
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def one_line(text: str) -> str:
    """Replace what would break the line or steer the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _cut(text: str, width: int, ellipsis: str) -> str:
    if len(text) <= width:
        return text
    return (text[: max(width - len(ellipsis), 0)] + ellipsis)[:width]
