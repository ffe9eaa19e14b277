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
SQLITE = re.compile(r"sqlite(\+\w+)?:///", re.IGNORECASE)
PASSWORD = re.compile(r"(://[^:/@]*):[^@]*@")
MASK = ":***@"
# How long another process may keep a database to itself, and how long one may take to answer.
BUSY_S, CONNECT_S = 10, 10
# The drivers of databases that wait for ever otherwise, and have a word for it.
TIMED = ("psycopg2", "psycopg", "pymysql", "mysqldb")
LOCKS = "jade_locks"


@dataclass(frozen=True)
class SweepStorage:
    """A storage of Optuna, and how to be alone with it.

    Attributes:
        storage: What Optuna works with.
        held: Lets nobody else claim anything meanwhile, on any machine.
        claiming: The same for claims, which need not survive a power cut.
        name: What people call it, without any password.
        hurry: Lets nothing wait for long any more.
    """

    storage: "BaseStorage"
    held: Callable[[], AbstractContextManager[None]]
    claiming: Callable[[], AbstractContextManager[None]]
    name: str
    hurry: Callable[[], None] = lambda: None

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
        if SQLITE.match(where):
            return _open_sqlite(where)
        return _open_database(where)


def hide_password(where: str) -> str:
    """Return the name of a storage that anybody may read."""
    return PASSWORD.sub(rf"\1{MASK}", where)


def make_absolute(where: str) -> str:
    """Return the name of a storage that means the same in every folder."""
    prefix = SQLITE.match(where)
    if URL.match(where) and prefix is None:
        return where
    path, mark, query = where[prefix.end() if prefix else 0 :].partition("?")
    return f"{prefix[0] if prefix else ''}{Path(path).absolute()}{mark}{query}"


def _open_journal(path: Path) -> SweepStorage:
    from optuna.storages import JournalStorage

    from jade.launch.sweep_journal import SweepJournal

    if path.is_dir():
        raise ConfigError(f"--storage {path} is a folder; name a file in it, or a database.")
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = SweepJournal(path)
    return SweepStorage(
        JournalStorage(journal), journal.held, journal.claiming, str(path), journal.hurry
    )


def _open_sqlite(url: str) -> SweepStorage:
    # What Optuna needs for databases is imported now: once the lock is held, others wait for it.
    import alembic.command  # noqa: F401
    from optuna.storages import RDBStorage, get_storage

    from jade.launch.sweep_journal import FileLock

    path = Path(SQLITE.sub("", url).partition("?")[0])
    if path.name in ("", ":memory:"):
        raise ConfigError(f"--storage {url} is lost with this process; name a file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    # SQLite has no lock for a row: two processes that claim one trial would both get it.
    lock = FileLock(path.with_name(path.name + ".lock"))
    with lock.held():
        storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": BUSY_S}})
    # Trials that have ended are read once.
    return SweepStorage(get_storage(storage), lock.held, lock.held, url, lock.hurry)


def _open_database(url: str) -> SweepStorage:
    import sqlalchemy
    from optuna.storages import RDBStorage, get_storage

    parsed = sqlalchemy.make_url(url)
    is_timed = parsed.get_driver_name() in TIMED and "connect_timeout" not in parsed.query
    limits = {"connect_timeout": CONNECT_S} if is_timed else {}
    storage: Any = RDBStorage(url, engine_kwargs={"pool_pre_ping": True, "connect_args": limits})
    table = _make_locks(storage.engine)
    # Trials that have ended are read once.
    cached = get_storage(storage)

    def held() -> AbstractContextManager[None]:
        return _row_held(storage.engine, table)

    return SweepStorage(cached, held, held, hide_password(url))


def _make_locks(engine: Any) -> Any:
    """Make a table with one row, whose lock is that of claims."""
    import sqlalchemy

    table = sqlalchemy.Table(
        LOCKS,
        sqlalchemy.MetaData(),
        sqlalchemy.Column("name", sqlalchemy.String(32), primary_key=True),
        sqlalchemy.Column("uses", sqlalchemy.Integer),
    )
    # Somebody else may make it at the same time.
    with contextlib.suppress(sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError):
        table.metadata.create_all(engine, checkfirst=True)
    with contextlib.suppress(sqlalchemy.exc.IntegrityError), engine.begin() as connection:
        if connection.execute(table.select()).first() is None:
            connection.execute(table.insert().values(name="claims", uses=0))
    return table


@contextlib.contextmanager
def _row_held(engine: Any, table: Any) -> Iterator[None]:
    """Hold the lock of a row, which ends with the connection, however that ends."""
    with engine.connect() as connection:
        connection.execute(table.update().values(uses=table.c.uses + 1))
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
