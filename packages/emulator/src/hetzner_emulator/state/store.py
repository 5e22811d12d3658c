"""The state: objects in memory, and in a SQLite file that survives a killed process."""

import sqlite3
from collections.abc import Collection, Hashable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import msgspec

from hetzner_emulator.errors import NotFound, StateFileError
from hetzner_emulator.state.records import RECORDS, Record

R = TypeVar("R", bound=Record)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (kind TEXT, id INTEGER, data BLOB NOT NULL, PRIMARY KEY (kind, id));
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""


class Store:
    """All objects of all projects.

    After a change of an object, call :meth:`put` or :meth:`remove`; :meth:`commit` writes all changes since
    the last commit in one transaction.
    """

    def __init__(self, path: Path | None) -> None:
        self.version = 0  # increases with every change
        self._path = path
        self._tables: dict[str, dict[int, Record]] = {kind: {} for kind in RECORDS}
        self._counters: dict[str, int] = {}
        self._changed: dict[tuple[str, int], Record | None] = {}
        self._changed_counters: set[str] = set()
        self._found: dict[tuple[str, Hashable], dict[tuple[str, int], Record]] = {}
        self._keys: dict[tuple[str, int], list[tuple[str, Hashable]]] = {}
        self._database = self._open(path) if path is not None else None

    def _open(self, path: Path) -> sqlite3.Connection:
        with ExitStack() as undo:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                database = sqlite3.connect(path, isolation_level=None, timeout=5)
                undo.callback(database.close)
                path.chmod(0o600)
                database.execute("PRAGMA journal_mode=WAL")
                # NORMAL survives a killed process, and loses the last commits only after a power cut.
                database.execute("PRAGMA synchronous=NORMAL")
                database.executescript(_SCHEMA)
            except (OSError, sqlite3.OperationalError) as error:
                raise StateFileError(f"the sandbox can't open its state file {path}: {error}") from error
            except sqlite3.Error as error:
                raise self._damaged(path, error) from error
            self._load(database)
            undo.pop_all()
        return database

    def _load(self, database: sqlite3.Connection) -> None:
        try:
            for kind, identity, data in database.execute("SELECT kind, id, data FROM records"):
                if kind in RECORDS:
                    record = msgspec.json.decode(data, type=RECORDS[kind])
                    self._tables[kind][identity] = record
                    self._enter(record)
            self._counters = dict(database.execute("SELECT name, value FROM counters"))
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise self._damaged(self._path, error) from error

    @staticmethod
    def _damaged(path: Path | None, error: Exception) -> StateFileError:
        return StateFileError(
            f"the state file {path} can't be read: {error}. To start with an empty state, run './dev down "
            "--force' in a clone. If you don't use a clone, delete the file"
        )

    def close(self) -> None:
        """Commit and close the file."""
        self.commit()
        if self._database is not None:
            self._database.close()
            self._database = None

    def next_number(self, name: str, first: int) -> int:
        """The next number of a counter, which a restart continues."""
        value = self._counters.get(name, first - 1) + 1
        self._counters[name] = value
        self._changed_counters.add(name)
        return value

    def new_id(self, kind: type[Record]) -> int:
        """An unused ID."""
        return self.next_number(kind.KIND, kind.FIRST_ID)

    def put(self, record: Record) -> None:
        """Store a new or changed object."""
        self.version += 1
        self._tables[record.KIND][record.id] = record
        self._changed[record.KIND, record.id] = record
        self._leave(record)
        self._enter(record)

    def remove(self, record: Record) -> None:
        """Delete an object."""
        self.version += 1
        self._tables[record.KIND].pop(record.id, None)
        self._changed[record.KIND, record.id] = None
        self._leave(record)

    def _enter(self, record: Record) -> None:
        keys: list[tuple[str, Hashable]] = [
            ("name", (record.KIND, record.project, record.name)),
            ("project", (record.KIND, record.project)),
        ]
        keys += [(name, key) for name, keys_of in record.INDEXES.items() for key in keys_of(record)]
        own = (record.KIND, record.id)
        self._keys[own] = keys
        for key in keys:
            self._found.setdefault(key, {})[own] = record

    def _leave(self, record: Record) -> None:
        own = (record.KIND, record.id)
        for key in self._keys.pop(own, ()):
            entries = self._found[key]
            del entries[own]
            if not entries:
                del self._found[key]

    def lookup(self, index: str, key: Hashable) -> Collection[Record]:
        """The objects with a key in an index; all kinds have the indexes ``name`` and ``project``."""
        found = self._found.get((index, key))
        return found.values() if found else ()

    def named(self, kind: type[R], project: str, name: str) -> Collection[R]:
        """The objects of a kind with a name."""
        return self.lookup("name", (kind.KIND, project, name))  # type: ignore[return-value]

    def count(self, kind: type[Record], project: str) -> int:
        """Number of objects of a kind in a project."""
        return len(self.lookup("project", (kind.KIND, project)))

    def get(self, kind: type[R], project: str, identity: int) -> R:
        """One object of a project; raises NotFound without one."""
        found = self.find(kind, identity)
        if found is None or found.project != project:
            raise NotFound(kind.KIND, identity)
        return found

    def find(self, kind: type[R], identity: int) -> R | None:
        """One object of any project, or None."""
        return self._tables[kind.KIND].get(identity)  # type: ignore[return-value]

    def all(self, kind: type[R]) -> Iterator[R]:
        """The objects of a kind in all projects."""
        yield from self._tables[kind.KIND].values()  # type: ignore[misc]

    def of(self, kind: type[R], project: str) -> list[R]:
        """The objects of a kind in a project."""
        return list(self.lookup("project", (kind.KIND, project)))  # type: ignore[arg-type]

    def commit(self) -> None:
        """Write all changes at once; raises StateFileError, after which the next commit retries."""
        if not self._changed and not self._changed_counters:
            return
        if self._database is not None:
            self._write(self._database)
        self._changed.clear()
        self._changed_counters.clear()

    def _write(self, database: sqlite3.Connection) -> None:
        puts = [(k, i, msgspec.json.encode(r)) for (k, i), r in self._changed.items() if r is not None]
        deleted = [key for key, record in self._changed.items() if record is None]
        numbers = [(name, self._counters[name]) for name in self._changed_counters]
        try:
            database.execute("BEGIN")
            database.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", puts)
            database.executemany("DELETE FROM records WHERE kind = ? AND id = ?", deleted)
            database.executemany("INSERT OR REPLACE INTO counters VALUES (?, ?)", numbers)
            database.execute("COMMIT")
        except sqlite3.Error as error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise StateFileError(f"the sandbox can't write its state file {self._path}: {error}") from error

    def export(self) -> dict[str, list[Record]]:
        """All objects by kind."""
        return {kind: list(table.values()) for kind, table in self._tables.items()}

    def clear(self) -> None:
        """Delete every object; counters continue, so that IDs aren't reused."""
        for table in self._tables.values():
            for record in list(table.values()):
                self.remove(record)
