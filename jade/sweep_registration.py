"""Register a sweep with W&B through its own client, and say where agents find it."""

import contextlib
import io
import os
import socket
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from jade.errors import ConfigError, JadeError
from jade.loggers import wandb_account
from jade.sweep import Sweep

# What the client says of a key that the server does not take.
BAD_KEY = ("not logged in", "unauthorized", "api key")
# Statuses of a server that is there and says no; 408 and 429 only ask for patience.
REFUSED = (400, 401, 403, 404, 409, 422)
# How answers of the server begin that are about what was sent.
ABOUT_INPUT = "input:"
PROXIES = ("http_proxy", "https_proxy", "all_proxy")
CONNECT_S = 10.0
# What W&B has no words for.
OURS = ("jade", "slurm")
# The client leaves these behind for whoever comes next in the process.
LEFT_BEHIND = ("WANDB_ENTITY", "WANDB_PROJECT")


@dataclass(frozen=True)
class Registered:
    """A sweep that W&B knows."""

    entity: str
    project: str
    sweep_id: str
    url: str | None = None

    @property
    def path(self) -> str:
        """What agents are given."""
        return f"{self.entity}/{self.project}/{self.sweep_id}"


def require_account(environ: Mapping[str, str]) -> str:
    """Return the address of W&B, if somebody is logged in there and it answers.

    Raises:
        ConfigError: There is no package wandb, no login, or W&B is switched off.
        JadeError: Nothing answers at the address.
    """
    if not wandb_account.is_installed():
        raise ConfigError(f"A sweep is registered by the package wandb: {wandb_account.INSTALL}.")
    mode = wandb_account.requested_mode("auto", environ)
    if mode in ("offline", "disabled"):
        raise ConfigError(
            f"W&B is {mode} here (WANDB_MODE, or `wandb {mode}`), but a sweep lives on its server. "
            "Set WANDB_MODE=online."
        )
    url = wandb_account.base_url(environ)
    if not wandb_account.is_logged_in(environ):
        raise ConfigError(f"There is no login for {url}: run `wandb login`, or set WANDB_API_KEY.")
    _require_answer(url, environ)
    return url


def _require_answer(url: str, environ: Mapping[str, str]) -> None:
    """Connect once: the client itself would try for a while, and then blame the key."""
    if any(environ.get(name) or environ.get(name.upper()) for name in PROXIES):
        return
    parts = urlsplit(url)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=CONNECT_S).close()
    except OSError as error:
        raise JadeError(f"W&B cannot be reached at {url}: {error}.") from error


def register(
    sweep: Sweep, *, entity: str | None = None, project: str | None = None, name: str | None = None
) -> Registered:
    """Register a sweep, with the numbers that we have read and not what YAML 1.1 makes of them.

    Args:
        sweep: What to register.
        entity: User or team; by default what the file says, then what W&B is set to.
        project: By default what the file says, then what W&B is set to.
        name: Shown for the sweep, instead of what the file says.
    """
    url = require_account(os.environ)
    values = {key: value for key, value in sweep.values.items() if key not in OURS}
    if name is not None:
        values["name"] = name
    entity = entity or values.get("entity") or wandb_account.entity(os.environ)
    project = project or values.get("project") or wandb_account.project(os.environ)
    with _environment_as_it_was(), _explained(url, entity, project):
        return _call_client(values, entity, project)


def _call_client(values: dict[str, Any], entity: str | None, project: str | None) -> Registered:
    import wandb

    # What it prints is said by us, with all commands; what it warns of is its own business.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sweep_id = wandb.sweep(values, entity=entity, project=project)
        # By now the client knows where the sweep is, also if nobody has said so.
        api = wandb.Api()
        entity = os.environ.get("WANDB_ENTITY") or entity or api.default_entity
        project = os.environ.get("WANDB_PROJECT") or project or "uncategorized"
        url = None
        # It is registered: nothing that happens now may hide that.
        with contextlib.suppress(Exception):
            url = api.sweep(f"{entity}/{project}/{sweep_id}").url
    return Registered(str(entity), str(project), str(sweep_id), url)


@contextlib.contextmanager
def _environment_as_it_was() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in LEFT_BEHIND}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _explained(url: str, entity: str | None, project: str | None) -> Iterator[None]:
    """Turn what the client raises into what the user can do about it."""
    try:
        yield
    except JadeError:
        raise
    except Exception as error:
        text = (str(error) or type(error).__name__).strip()
        status = _status_of(error)
        if status == 401 or any(part in text.lower() for part in BAD_KEY):
            raise ConfigError(
                f"W&B at {url} does not accept the API key: run `wandb login --relogin`, or set "
                f"WANDB_API_KEY. It says: {text}"
            ) from error
        place = f"{entity or 'your default entity'}/{project or 'uncategorized'}"
        if status in REFUSED or text.startswith(ABOUT_INPUT):
            raise ConfigError(
                f"W&B at {url} refuses the sweep in {place}. Are the names right, and are you a "
                f"member there? It says: {text}"
            ) from error
        raise JadeError(f"W&B at {url} did not register the sweep in {place}: {text}") from error


def _status_of(error: Exception) -> int | None:
    """Find the HTTP status that the client keeps in its errors."""
    inner = getattr(error, "exc", None) or error
    status = getattr(getattr(inner, "response", None), "http_status", None)
    return status if isinstance(status, int) else None
