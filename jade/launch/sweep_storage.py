"""Open the storage of a sweep: a journal in a folder, or a database."""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

URL = re.compile(r"[a-z0-9+]+://", re.IGNORECASE)
SQLITE = "sqlite:///"
PASSWORD = re.compile(r"(://[^:/@]*):[^@]*@")
# How long another process may keep a database to itself.
BUSY_S = 60
LOCKS = "jade_locks"


@dataclass(frozen=True)
class SweepStorage:
    """A storage of Optuna, and how to be alone with it.

    Attributes:
        storage: What Optuna works with.
        held: Lets nobody else claim anything meanwhile, on any machine.
        name: What people call it, without any password.
    """

    storage: "BaseStorage"
    held: Callable[[], AbstractContextManager[None]]
    name: str

    @contextlib.contextmanager
    def speaking(self) -> Iterator[None]:
        """Turn what a database or a disk complains of into one message.

        Raises:
            StorageError: The storage does not work; time, or somebody, may help.
        """
        with _translated(self.name):
            yield


def open_storage(where: str) -> SweepStorage:
    """Open ``sqlite:///...``, ``postgresql://...``, or the path of a journal.

    Raises:
        ConfigError: There is no such storage.
        StorageError: It cannot be used now.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    name = hide_password(where)
    with _translated(name), warnings.catch_warnings():
        # What Optuna calls experimental.
        warnings.simplefilter("ignore")
        if not URL.match(where):
            return _open_journal(Path(where))
        if where.startswith(SQLITE):
            return _open_sqlite(where)
        return _open_database(where)


def hide_password(where: str) -> str:
    """Return the name of a storage that anybody may read."""
    return PASSWORD.sub(r"\1:***@", where)


def _open_journal(path: Path) -> SweepStorage:
    from optuna.storages import JournalStorage

    from jade.launch.sweep_journal import SweepJournal

    if path.is_dir():
        raise ConfigError(f"--storage {path} is a folder; name a file in it, or a database.")
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = SweepJournal(path)
    return SweepStorage(JournalStorage(journal), journal.held, str(path))


def _open_sqlite(url: str) -> SweepStorage:
    from optuna.storages import RDBStorage

    from jade.launch.sweep_journal import FileLock

    path = Path(url.removeprefix(SQLITE).partition("?")[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    # SQLite has no lock for a row: two processes that claim one trial would both get it.
    lock = FileLock(path.with_name(path.name + ".lock"))
    with lock.held():
        storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": BUSY_S}})
    return SweepStorage(storage, lock.held, url)


def _open_database(url: str) -> SweepStorage:
    from optuna.storages import RDBStorage

    storage: Any = RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
    return SweepStorage(storage, lambda: _row_held(storage.engine), hide_password(url))


@contextlib.contextmanager
def _row_held(engine: Any) -> Iterator[None]:
    """Hold the lock of a row, which ends with the connection, however that ends."""
    import sqlalchemy

    table = sqlalchemy.Table(
        LOCKS,
        sqlalchemy.MetaData(),
        sqlalchemy.Column("name", sqlalchemy.String(32), primary_key=True),
        sqlalchemy.Column("uses", sqlalchemy.Integer),
    )
    table.metadata.create_all(engine, checkfirst=True)
    mine = table.c.name == "claims"
    with engine.connect() as connection:
        if connection.execute(table.select().where(mine)).first() is None:
            with contextlib.suppress(sqlalchemy.exc.IntegrityError):
                connection.execute(table.insert().values(name="claims", uses=0))
        connection.commit()
        connection.execute(table.update().where(mine).values(uses=table.c.uses + 1))
        try:
            yield
        finally:
            connection.commit()


@contextlib.contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        # Optuna says only that one is missing; what it was raised from says which.
        missing = error.name or getattr(error.__cause__, "name", None) or "of the database"
        raise ConfigError(f"--storage {name} needs the package {missing}: install it.") from error
    except OSError as error:
        raise StorageError(f"The storage {name}: {error.strerror or error}.") from error
    except Exception as error:
        if not type(error).__module__.startswith(("sqlalchemy", "optuna", "alembic")):
            raise
        _raise_database_error(name, error)


def _raise_database_error(name: str, error: Exception) -> None:
    kind = type(error).__name__
    lines = str(getattr(error, "orig", None) or error.__cause__ or error).strip().splitlines()
    reason = (lines or [kind])[0].rstrip(".")
    if kind in ("NoSuchModuleError", "ArgumentError"):
        raise ConfigError(
            f"--storage {name}: {reason}. Write sqlite:///FILE, postgresql://USER@HOST/NAME, or "
            "the path of a journal."
        ) from error
    raise StorageError(f"The storage {name}: {reason}.") from error
