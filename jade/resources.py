"""What a job asks of its cluster: read from files and flags, and checked before it is asked."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jade.errors import ConfigError, raise_all, suggest
from jade.schedule import SECONDS, parse_amount

SECTION = "slurm"
# As SLURM has it: minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes[:seconds].
TIME = re.compile(r"\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2}")
MEMORY = re.compile(r"\d+[KMGT]")
GPUS = re.compile(r"[A-Za-z][\w.\-]*:\d+")
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
WHOLE = {"gpus": 0, "cpus": 1, "warn_s": 1}
LISTS = ("setup", "sbatch_args")


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one job gets, and what its machine must do before it begins.

    Attributes:
        time: How long it may take: ``10:00:00``, ``2-12:00:00``.
        gpus: How many, or ``kind:number``.
        cpus: Cores.
        mem: Memory: ``16G``.
        partition: Which part of the cluster.
        account: Who pays.
        env_file: A shell file of variables, read by the job.
        setup: Shell commands that come first, such as ``module load cuda``.
        sbatch_args: Further arguments of sbatch, as they are.
        scratch: Folder of the machine for temporary files; ``$TMPDIR`` by default.
        warn_s: So many seconds before its time is over a job is told, to write a checkpoint.
    """

    time: str | None = None
    gpus: int | str = 0
    cpus: int | None = None
    mem: str | None = None
    partition: str | None = None
    account: str | None = None
    env_file: str | None = None
    setup: tuple[str, ...] = ()
    sbatch_args: tuple[str, ...] = ()
    scratch: str | None = None
    warn_s: int = 120

    @property
    def num_gpus(self) -> int:
        """How many GPUs, of whatever kind."""
        return int(str(self.gpus).rpartition(":")[2])

    @property
    def time_s(self) -> int | None:
        """How long it may take, in seconds."""
        return None if self.time is None else parse_time(self.time)


KEYS = tuple(field.name for field in dataclasses.fields(Resources))


def read_resources(given: Sequence[tuple[str, Any]]) -> Resources:
    """Read what several places say; the last one wins, lists grow.

    Args:
        given: What is said, each with the place where it is said, for messages.

    Raises:
        ConfigError: Lists all that is wrong.
    """
    problems: list[str] = []
    values: dict[str, Any] = {}
    for where, section in given:
        for key, value in _read_section(where, section, problems):
            values[key] = (*values.get(key, ()), *value) if key in LISTS else value
    raise_all(problems)
    return Resources(**values)


def find_problems(where: str, section: Any) -> list[str]:
    """Say what is wrong with what one place says."""
    problems: list[str] = []
    list(_read_section(where, section, problems))
    return problems


def _read_section(where: str, section: Any, problems: list[str]) -> Iterator[tuple[str, Any]]:
    if section is None:
        return
    if not isinstance(section, Mapping):
        problems.append(f"{where}: it must be a mapping: {{time: '10:00:00'}}, not {section!r}.")
        return
    for key, value in section.items():
        if key not in KEYS:
            problems.append(f"{where}: unknown key {key!r}.{suggest(str(key), KEYS)}")
        elif value is not None:
            try:
                yield str(key), _fit(str(key), value)
            except ConfigError as error:
                problems.append(f"{where}: {error}")


def _fit(key: str, value: Any) -> Any:
    if key == "time":
        return _fit_time(value)
    if key == "mem":
        return _fit_memory(value)
    if key == "gpus" and isinstance(value, str) and GPUS.fullmatch(value):
        return value
    if key in WHOLE:
        return _fit_whole(key, value)
    if key in LISTS:
        return _fit_list(key, value)
    if not isinstance(value, str):
        raise ConfigError(f"{key} must be text, not {value!r}.")
    return value


def _fit_time(value: Any) -> str:
    """Fit a time; a bare number is refused, which SLURM takes for minutes."""
    text = str(value).strip()
    if isinstance(value, bool) or not text:
        raise ConfigError(f"time: {value!r} is no time. Write '10:00:00'.")
    if text.isdecimal():
        number = int(text)
        raise ConfigError(
            f"time: {text} could be seconds (as an unquoted 10:00:00 is 36000 to many readers of "
            f"YAML) or minutes (to SLURM). Write '{render_time(number)}' or "
            f"'{render_time(number * MINUTE_S)}', with the quotes."
        )
    if TIME.fullmatch(text):
        if parse_time(text) == 0:
            raise ConfigError(f"time: {text!r} is no time at all. Write '10:00:00'.")
        return text
    try:
        amount = parse_amount(text, "time")
    except ConfigError:
        amount = None
    if amount is None or amount.unit != SECONDS:
        raise ConfigError(
            f"time: {text!r} is no time. Write hours:minutes:seconds ('10:00:00'), "
            "days-hours:minutes:seconds ('2-12:00:00') or '10 hours'."
        )
    return render_time(amount.number)


def parse_time(text: str) -> int:
    """Return the seconds of a time as SLURM writes it."""
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, minutes, seconds = parts if len(parts) == 3 else (0, *parts)
    return int(days or 0) * DAY_S + hours * HOUR_S + minutes * MINUTE_S + seconds


def render_time(seconds: float) -> str:
    """Render seconds as SLURM reads a time."""
    days, rest = divmod(int(seconds), DAY_S)
    hours, rest = divmod(rest, HOUR_S)
    minutes, second = divmod(rest, MINUTE_S)
    clock = f"{hours:02d}:{minutes:02d}:{second:02d}"
    return f"{days}-{clock}" if days else clock


def _fit_memory(value: Any) -> str:
    text = str(value).strip().upper()
    if MEMORY.fullmatch(text):
        return text
    number = re.match(r"\d+", text)
    unit = re.search(r"[KMGT](?=I?B?$)", text)
    meant = f"{number[0]}{unit[0] if unit else 'G'}" if number else "16G"
    raise ConfigError(f"mem: {value!r} is no amount of memory. Write {meant}: K, M, G or T.")


def _fit_whole(key: str, value: Any) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or int(text) < WHOLE[key]:
        form = " or kind:number" if key == "gpus" else ""
        raise ConfigError(
            f"{key} must be a whole number of at least {WHOLE[key]}{form}, not {value!r}."
        )
    return int(text)


def _fit_list(key: str, value: Any) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise ConfigError(f"{key} must be text, or a list of texts, not {value!r}.")
    for item in items:
        if key == "sbatch_args" and not item.startswith("-"):
            raise ConfigError(f"{key}: {item!r} is no argument of sbatch: --constraint=a100 is.")
        if "\n" in item and key == "sbatch_args":
            raise ConfigError(f"{key}: {item!r} has more than one line.")
    return tuple(items)
