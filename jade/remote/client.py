"""Ask W&B about runs and sweeps, and say in JADE's words what is wrong if that fails."""

import contextlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jade.envvars import exported
from jade.errors import ConfigError, JadeError, NetworkError
from jade.loggers import wandb_account as account
from jade.loggers.wandb_patience import soon_at_an_end
from jade.remote.reference import ProjectReference, RunReference, SweepReference

TIMEOUT_S = 20
GIVEN_UP = re.compile(r"giving up after (\d+) attempt\(s\)")
RETRYING = "while retrying: "
ADDRESS = re.compile(r'^(?:Get|Post|Put) "[^"]*": ')
# Not the number of a port.
UNAUTHORIZED = re.compile(r"(?<![\d:.])401(?!\d)")
# How many times as long as one answer may take it is waited for.
PATIENCE = 2
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
        timeout_s: How long one answer may take (``WANDB_HTTP_TIMEOUT``).
        patience_s: How long it may be silent, with all that is tried again.

    Raises:
        ConfigError: wandb is not installed, nobody is logged in, or the key is not accepted.
        NetworkError: W&B cannot be reached.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self.url = account.base_url(self._environ)
        given = self._environ.get("WANDB_HTTP_TIMEOUT", "")
        self.timeout_s = int(given) if given.isdecimal() else TIMEOUT_S
        self.patience_s = PATIENCE * self.timeout_s
        require_login(self._environ)
        with self.asking("the account"), soon_at_an_end(self.timeout_s):
            import wandb

            self.api = wandb.Api(
                overrides={"base_url": self.url},
                timeout=self.patience_s,
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
        except Exception as error:
            # A full disk is none of W&B's faults; that nothing arrives is one.
            if isinstance(error, (JadeError, OSError)) and not isinstance(error, TimeoutError):
                raise
            raise self._explain(error, what) from error

    def _explain(self, error: Exception, what: str) -> JadeError:
        text = text_of(error)
        if status_of(error) in REFUSED or UNAUTHORIZED.search(text):
            return ConfigError(
                f"W&B at {self.url} does not accept the API key: `wandb login --relogin` stores "
                "another one, or set WANDB_API_KEY."
            )
        if status_of(error) == 404 or any(part in text.lower() for part in MISSING):
            return ConfigError(
                f"There is no {what} on W&B ({self.url}), or this account may not see it."
            )
        if isinstance(error, TimeoutError) or any(part in text for part in SILENCE):
            _end_service()
            return NetworkError(
                f"W&B at {self.url} does not answer within {self.patience_s} s, asked for {what}."
            )
        return NetworkError(f"W&B at {self.url} cannot be asked for {what}: {text}.")


def _end_service() -> None:
    """End the process by which wandb asks, unless a run is logged through it.

    It goes on trying when nobody waits for it any more, and does not always hear that it is to end;
    but our process would wait for its end.
    """
    try:
        import wandb

        setup = wandb.setup()
        if setup.most_recent_active_run is None:
            process = setup._connection._proc._process
            process.kill()
            process.wait()
            wandb.teardown()
    except (Exception, SystemExit) as error:
        # It exits with the code of the process that was killed; or has none of its own.
        logger.debug("wandb's process was ended: %r", error)


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
    """Render an exception of wandb in one line; of several attempts, the last one says why."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    attempts = GIVEN_UP.search(text)
    if attempts is None:
        return text
    reason = text.rpartition(RETRYING)[2] if RETRYING in text else text[attempts.end() :]
    reason = ADDRESS.sub("", reason).strip(" :")
    return f"{reason or text} (tried {attempts[1]} times)"


def has_given_up(error: BaseException | None) -> bool:
    """Tell whether wandb itself has tried often enough, or was silent for too long."""
    return isinstance(error, TimeoutError) or GIVEN_UP.search(str(error)) is not None
