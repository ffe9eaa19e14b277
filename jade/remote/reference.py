"""Name runs, sweeps and projects on W&B, as somebody writes them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from jade.errors import ConfigError
from jade.loggers import wandb_account as account
from jade.run_dir import RUN_ID

RUN_PREFIX, SWEEP_PREFIX = "wandb:", "sweep:"
BEST, NEWEST = "best", "last"
FORMS = (
    "entity/project/run_id, project/run_id (with WANDB_ENTITY), wandb:run_id (with WANDB_PROJECT), "
    "the address of a run in a browser, or sweep:entity/project/sweep_id:best"
)
_NAME = re.compile(r"\w[\w.\- ]*")


@dataclass(frozen=True)
class ProjectReference:
    """A project; without an entity it is one of the account that is logged in."""

    entity: str | None
    project: str

    def __str__(self) -> str:
        return f"{self.entity}/{self.project}" if self.entity else self.project


@dataclass(frozen=True)
class RunReference(ProjectReference):
    """A run."""

    run_id: str

    def __str__(self) -> str:
        return f"{super().__str__()}/{self.run_id}"


@dataclass(frozen=True)
class SweepReference(ProjectReference):
    """A sweep, and which of its runs is meant: the best one, the newest, or that with an id."""

    sweep_id: str
    which: str = BEST

    def __str__(self) -> str:
        return f"{super().__str__()}/{self.sweep_id}"


Reference = RunReference | SweepReference


def is_explicit(text: str) -> bool:
    """Tell whether a text can only mean something on W&B."""
    return text.startswith((RUN_PREFIX, SWEEP_PREFIX, "https://", "http://"))


def parse_reference(text: str, environ: Mapping[str, str]) -> Reference | None:
    """Parse what may be the name of a run on W&B, or of a sweep and one of its runs.

    Args:
        text: One of `FORMS`.
        environ: Says which entity and project are meant where a name leaves them out.

    Returns:
        The reference, or None for what is not like one, such as the path of a file.

    Raises:
        ConfigError: It begins as a reference, but is none.
    """
    if text.startswith(SWEEP_PREFIX):
        return parse_sweep(text, environ)
    if text.startswith(("https://", "http://")):
        return _parse_address(text)
    if text.startswith(RUN_PREFIX):
        parts = text.removeprefix(RUN_PREFIX).split("/")
        return RunReference(*_complete(parts, "run", text, environ))
    parts = text.split("/")
    if len(parts) == 4 and parts[2] == "runs":
        del parts[2]
    if len(parts) == 2 and account.entity(environ):
        parts = [str(account.entity(environ)), *parts]
    if len(parts) != 3 or not all(map(_NAME.fullmatch, parts)) or not RUN_ID.fullmatch(parts[2]):
        return None
    return RunReference(*parts)


def parse_sweep(text: str, environ: Mapping[str, str]) -> SweepReference:
    """Parse the name of a sweep: ``[sweep:][[entity/]project/]id[:best|:last|:run_id]``."""
    if text.startswith(("https://", "http://")):
        found = _parse_address(text)
        if isinstance(found, SweepReference):
            return found
        raise ConfigError(f"{text!r} is the address of a run, not of a sweep.")
    name, _, which = text.removeprefix(SWEEP_PREFIX).partition(":")
    parts = name.split("/")
    if len(parts) == 4 and parts[2] == "sweeps":
        del parts[2]
    entity, project, sweep_id = _complete(parts, "sweep", text, environ)
    if which and not RUN_ID.fullmatch(which):
        raise ConfigError(f"{text!r}: behind the sweep stands best, last or the id of a run.")
    return SweepReference(entity, project, sweep_id, which or BEST)


def parse_project(text: str, environ: Mapping[str, str]) -> ProjectReference | None:
    """Parse ``entity/project``, or ``wandb:project``; None for what is not like it."""
    parts = text.removeprefix(RUN_PREFIX).split("/")
    if not all(map(_NAME.fullmatch, parts)):
        return None
    if len(parts) == 1 and text.startswith(RUN_PREFIX):
        return ProjectReference(account.entity(environ), parts[0])
    return ProjectReference(*parts) if len(parts) == 2 else None


def _parse_address(text: str) -> Reference:
    """Parse an address of W&B's pages; the host is not asked, but the one that is logged in to."""
    parts = [unquote(part) for part in urlsplit(text).path.split("/") if part]
    for kind, reference in (("runs", RunReference), ("sweeps", SweepReference)):
        if kind in parts[2:-1]:
            place = parts.index(kind, 2)
            return reference(parts[place - 2], parts[place - 1], parts[place + 1])
    raise ConfigError(
        f"{text!r} is not the address of a run or a sweep: .../entity/project/runs/run_id is one."
    )


def _complete(
    parts: list[str], kind: str, text: str, environ: Mapping[str, str]
) -> tuple[str | None, str, str]:
    """Return entity, project and id; what is left out comes from the environment."""
    given = [account.entity(environ), account.project(environ)]
    entity, project, name = [*given[: max(0, 3 - len(parts))], *parts][:3]
    is_named = all(map(_NAME.fullmatch, parts)) and RUN_ID.fullmatch(parts[-1])
    if len(parts) > 3 or not is_named:
        raise ConfigError(f"{text!r} does not name a {kind} on W&B. Known forms: {FORMS}.")
    if project is None:
        raise ConfigError(
            f"{text!r} does not say in which project: set WANDB_PROJECT, or write "
            f"entity/project/{name}."
        )
    return entity, project, str(name)
