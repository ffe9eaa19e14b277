"""Ask W&B about runs and sweeps, and say in JADE's words what is wrong if that fails."""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jade.envvars import exported
from jade.errors import ConfigError, JadeError, NetworkError
from jade.loggers import wandb_account as account
from jade.remote.reference import ProjectReference, RunReference, SweepReference

TIMEOUT_S = 20
REFUSED = (401, 403)
SILENCE = ("did not respond in time", "deadline exceeded", "timed out")
MISSING = ("could not find", "not found", "does not exist", "permission denied")

logger = logging.getLogger(__name__)


class Client:
    """A connection to W&B that only reads, and waits for an answer for a limited time.

    Args:
        environ: Says who is logged in, and where.

    Attributes:
        url: Where W&B is.
        timeout_s: How long it may be silent (``WANDB_HTTP_TIMEOUT``).

    Raises:
        ConfigError: wandb is not installed, nobody is logged in, or the key is not accepted.
        NetworkError: W&B cannot be reached.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self.url = account.base_url(self._environ)
        given = self._environ.get("WANDB_HTTP_TIMEOUT", "")
        self.timeout_s = int(given) if given.isdecimal() else TIMEOUT_S
        require_login(self._environ)
        with self.asking("the account"):
            import wandb

            self.api = wandb.Api(
                overrides={"base_url": self.url},
                timeout=self.timeout_s,
                api_key=self._environ.get("WANDB_API_KEY") or None,
            )

    def complete(self, reference: ProjectReference) -> str:
        """Return the entity of a reference; without one, that of the account."""
        if reference.entity:
            return reference.entity
        with self.asking("the account"):
            entity = self.api.default_entity
        if not entity:
            raise ConfigError("The account has no entity of its own: set WANDB_ENTITY.")
        return str(entity)

    def find_run(self, reference: RunReference) -> Any:
        """Find a run, as the package wandb has it."""
        path = f"{self.complete(reference)}/{reference.project}/{reference.run_id}"
        with self.asking(f"run {path}"):
            run = self.api.run(path)
        _tidy_up(run)
        return run

    def find_sweep(self, reference: SweepReference) -> Any:
        """Find a sweep, as the package wandb has it."""
        path = f"{self.complete(reference)}/{reference.project}/{reference.sweep_id}"
        with self.asking(f"sweep {path}"):
            return self.api.sweep(path)

    def list_runs(self, reference: ProjectReference, sweep_id: str | None = None) -> list[Any]:
        """List the runs of a project or of a sweep, the oldest first."""
        path = f"{self.complete(reference)}/{reference.project}"
        filters = {"sweep": sweep_id} if sweep_id else None
        with self.asking(f"project {path}"):
            found = list(self.api.runs(path, filters=filters, order="+created_at", lazy=False))
        for run in found:
            _tidy_up(run)
        return found

    @contextlib.contextmanager
    def asking(self, what: str) -> Iterator[None]:
        """Ask within this; errors of wandb become errors of JADE that name what was asked for."""
        try:
            with exported(self._environ):
                yield
        except (JadeError, OSError):
            raise
        except Exception as error:
            raise self._explain(error, what) from error

    def _explain(self, error: Exception, what: str) -> JadeError:
        text = text_of(error)
        if status_of(error) in REFUSED or "401" in text:
            return ConfigError(
                f"W&B at {self.url} does not accept the API key: `wandb login --relogin` stores "
                "another one, or set WANDB_API_KEY."
            )
        if status_of(error) == 404 or any(part in text.lower() for part in MISSING):
            return ConfigError(
                f"There is no {what} on W&B ({self.url}), or this account may not see it."
            )
        if isinstance(error, TimeoutError) or any(part in text for part in SILENCE):
            return NetworkError(
                f"W&B at {self.url} does not answer within {self.timeout_s} s, asked for {what}."
            )
        return NetworkError(f"W&B at {self.url} cannot be asked for {what}: {text}.")


def _tidy_up(run: Any) -> None:
    """Remove the empty folders that wandb makes for a run that it only looks at."""
    folder = Path(run.dir)
    with contextlib.suppress(OSError):
        for path in (folder, folder.parent, folder.parent.parent):
            path.rmdir()


def require_login(environ: Mapping[str, str]) -> None:
    """Say what is wrong without a question on the terminal, which wandb would ask.

    Raises:
        ConfigError: wandb is not installed, or nobody is logged in.
    """
    if not account.is_installed():
        raise ConfigError(f"To ask W&B, the package wandb is needed: {account.INSTALL}.")
    if not account.is_logged_in(environ):
        url = account.base_url(environ)
        raise ConfigError(f"Nobody is logged in to {url}: run `wandb login`, or set WANDB_API_KEY.")


def as_mapping(value: Any) -> dict[str, Any]:
    """Return what W&B keeps as JSON as a mapping; wandb may have read it already."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    return {}


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        found = waiting.pop()
        if isinstance(found, BaseException) and found not in seen:
            seen.append(found)
            yield found
            waiting += [getattr(found, "exc", None), found.__cause__, found.__context__]


def status_of(error: Exception) -> int | None:
    """Return what the server answered with, if it did."""
    for item in _chain(error):
        status = getattr(getattr(item, "response", None), "http_status", None)
        if status:
            return int(status)
    return None


def text_of(error: Exception) -> str:
    """Render an exception of wandb in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.rstrip(".")
