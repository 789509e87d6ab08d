"""Memory in a SQLite file, searched with full-text search."""

import asyncio
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from durable_adk.errors import StoreUnavailableError
from durable_adk.json_values import canonical
from durable_adk.memory._stored import Memory, Owner, StoredMemoryService
from durable_adk.memory._words import words as words_of
from durable_adk.memory.base_memory_service import MAX_RESULTS
from durable_adk.memory.memory_entry import MemoryEntry
from durable_adk.sessions.sql.sqlite import BUSY_TIMEOUT, FilesAtPaths, scrub, switch_to_wal
from durable_adk.sql.unavailable import translated

T = TypeVar("T")

_VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS memories (
    number INTEGER PRIMARY KEY,
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    said_at TEXT NOT NULL,
    entry TEXT NOT NULL,
    UNIQUE (app_name, user_id, session_id, entry_id)
);
-- The words come cut and folded. `ascii` takes every other character for a letter of a word, so
-- the words that are stored are the words that are asked for, in every script.
CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5(owner, words, tokenize = 'ascii');
"""
_ADD = "INSERT OR IGNORE INTO memories VALUES (NULL, ?, ?, ?, ?, ?, ?) RETURNING number"
_ADD_WORDS = "INSERT INTO memory_words (rowid, owner, words) VALUES (?, ?, ?)"
_REMOVE = "DELETE FROM memories WHERE app_name = ? AND user_id = ?{also} RETURNING number"
_REMOVE_WORDS = "DELETE FROM memory_words WHERE rowid = ?"
# Weight 0 for the owner column: the owner says nothing about relevance.
_SEARCH = """
SELECT entry FROM memory_words JOIN memories ON number = memory_words.rowid
WHERE memory_words MATCH ? AND app_name = ? AND user_id = ?
ORDER BY bm25(memory_words, 0.0, 1.0), said_at DESC, number DESC LIMIT ?
"""


class SqliteMemoryService(StoredMemoryService):
    """Stores memories in a SQLite file, which any number of processes may share.

    Ranks memories by BM25: rare words count more than common ones, and short texts more than long
    ones. Each call opens the file in a thread, so any event loop may use it and none stays open.
    """

    def __init__(self, db_path: Path | str) -> None:
        """Set the file path; the file and its folder are created at the first call."""
        self._path = Path(db_path)
        self._found: FilesAtPaths | None = None

    async def _add(self, owner: Owner, memories: list[Memory], *, replace: str | None) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if replace is not None:
                _remove(connection, owner, " AND session_id = ?", replace)
            for memory in memories:
                _add(connection, owner, memory)

        await self._in_thread(work, begin="BEGIN IMMEDIATE")

    async def _remove(self, owner: Owner, entry_id: str | None) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if entry_id is None:
                _remove(connection, owner, "")
            else:
                _remove(connection, owner, " AND entry_id = ?", entry_id)

        await self._in_thread(work, begin="BEGIN IMMEDIATE")

    async def _search(self, owner: Owner, words: list[str]) -> list[MemoryEntry]:
        anything = " OR ".join(f'"{word}"' for word in words)
        match = f'owner : "{_token(owner)}" AND words : ({anything})'

        def work(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute(_SEARCH, (match, *owner, MAX_RESULTS))
            return [entry for (entry,) in rows]

        found = await self._in_thread(work, begin="BEGIN")
        return [MemoryEntry.model_validate_json(entry, extra="ignore") for entry in found]

    async def scrub(self) -> None:
        """See the base class; rewrites the index and the file, and empties the write-ahead log."""

        def work() -> None:
            self._prepare()
            with _open(self._path) as connection:
                connection.execute("INSERT INTO memory_words (memory_words) VALUES ('optimize')")
            scrub(self._path)

        await self._trip(work)

    async def _in_thread(self, work: Callable[[sqlite3.Connection], T], *, begin: str) -> T:
        def transaction() -> T:
            found = self._prepare()
            with _open(self._path) as connection:
                connection.execute(begin)
                with connection:  # commits, or rolls back on failure
                    result = work(connection)
            found.check()
            return result

        return await self._trip(transaction)

    async def _trip(self, work: Callable[[], T]) -> T:
        # If the caller is cancelled, the thread still finishes; the transaction is atomic anyway.
        with translated(f"memory store {self._path}"):
            return await asyncio.to_thread(work)

    def _prepare(self) -> FilesAtPaths:
        """Create the file and its tables, once per process; then check that it is still there."""
        if self._found is not None:
            self._found.check()
            return self._found
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with _open(self._path) as connection:
            switch_to_wal(connection)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > _VERSION:
                raise StoreUnavailableError(
                    f"{self._path} has tables of version {version}; this code knows {_VERSION}."
                )
            connection.executescript(
                f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_VERSION}; COMMIT;"
            )
        self._found = FilesAtPaths(self._path)
        return self._found


def _add(connection: sqlite3.Connection, owner: Owner, memory: Memory) -> None:
    entry = memory.entry
    row = (*owner, memory.session_id, memory.entry_id, entry.timestamp or "", entry.to_json())
    added = connection.execute(_ADD, row).fetchall()
    text = " ".join(words_of(entry.text))
    connection.executemany(_ADD_WORDS, [(number, _token(owner), text) for (number,) in added])


def _remove(connection: sqlite3.Connection, owner: Owner, also: str, *values: str) -> None:
    removed = connection.execute(_REMOVE.format(also=also), (*owner, *values)).fetchall()
    connection.executemany(_REMOVE_WORDS, removed)


def _token(owner: Owner) -> str:
    """Return the owner as one word, so that a search reads only the owner's index entries."""
    return sha256(canonical(list(owner)).encode()).hexdigest()


@contextmanager
def _open(path: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=FULL")  # an acknowledged commit survives power loss
        yield connection
