"""Memory in a PostgreSQL database, searched through a word index."""

from sqlalchemy import (
    ARRAY,
    URL,
    ColumnElement,
    Connection,
    Delete,
    Text,
    bindparam,
    delete,
    text,
)
from sqlalchemy.dialects.postgresql import insert

from durable_adk.memory._stored import Memory, Owner, StoredMemoryService
from durable_adk.memory._words import words as words_of
from durable_adk.memory.base_memory_service import MAX_RESULTS
from durable_adk.memory.memory_entry import MemoryEntry
from durable_adk.sql.database import PostgresDatabase
from durable_adk.sql.database_url import parse
from durable_adk.sql.schema import MEMORIES

_MAX_WORD = 256
"""Characters of a word that are indexed; an index entry is limited to 2,700 bytes."""

_ADD = insert(MEMORIES).on_conflict_do_nothing(constraint="memories_entry")
_OF_OWNER = (MEMORIES.c.app_name == bindparam("app")) & (MEMORIES.c.user_id == bindparam("user"))

# Words are split and folded in Python, because PostgreSQL's parsers define letters by the
# database's locale. A word weighs more the fewer of the user's memories contain it.
_SEARCH = text("""
WITH found AS (
    SELECT number, said_at, entry, words FROM memories
    WHERE app_name = :app AND user_id = :user AND words && :asked
), many AS (
    SELECT count(*) AS memories FROM memories WHERE app_name = :app AND user_id = :user
), weights AS (
    SELECT word, ln(1 + (memories - count(*) + 0.5) / (count(*) + 0.5)) AS weight
    FROM many, found CROSS JOIN LATERAL unnest(words) AS word
    WHERE word = ANY (:asked) GROUP BY word, memories
)
SELECT entry FROM found CROSS JOIN LATERAL (
    SELECT sum(weight) AS score FROM weights WHERE word = ANY (found.words)
) AS fit
ORDER BY score DESC, said_at DESC, number DESC LIMIT :limit
""").bindparams(bindparam("asked", type_=ARRAY(Text)))


class PostgresMemoryService(StoredMemoryService):
    """Stores memories in a PostgreSQL database, which may be the session database.

    Ranks memories by the words that they share with the query; rare words count more than common
    ones. The tables are created together with the session tables, see `DatabaseSessionService`.

    Args:
        db_url: SQLAlchemy URL, e.g. ``postgresql://user:password@host/name``. Requires the extra
            ``postgres``.

    Raises:
        InvalidRequestError: The URL is not that of a PostgreSQL database.
    """

    def __init__(self, db_url: str | URL) -> None:
        self._database = PostgresDatabase(parse(db_url, only="postgresql"))

    async def _add(self, owner: Owner, memories: list[Memory], *, replace: str | None) -> None:
        rows = [_row(owner, memory) for memory in memories]
        # A fixed order, so that concurrent writers of the same memories do not deadlock.
        rows.sort(key=lambda row: (row["session_id"], row["entry_id"]))

        def work(connection: Connection) -> None:
            if replace is not None:
                removal = _removal(MEMORIES.c.session_id == replace)
                connection.execute(removal, _values(owner))
            if rows:
                connection.execute(_ADD, rows)

        await self._database.write(work)

    async def _remove(self, owner: Owner, entry_id: str | None) -> None:
        removal = _removal() if entry_id is None else _removal(MEMORIES.c.entry_id == entry_id)
        await self._database.write(
            lambda connection: connection.execute(removal, _values(owner)).close()
        )

    async def _search(self, owner: Owner, words: list[str]) -> list[MemoryEntry]:
        values = {**_values(owner), "asked": _known_by(words), "limit": MAX_RESULTS}
        found = await self._database.read(
            lambda connection: [row.entry for row in connection.execute(_SEARCH, values)]
        )
        return [MemoryEntry.model_validate_json(entry, extra="ignore") for entry in found]

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        await self._database.close()


def _values(owner: Owner) -> dict[str, str]:
    return {"app": owner.app_name, "user": owner.user_id}


def _removal(*conditions: ColumnElement[bool]) -> Delete:
    return delete(MEMORIES).where(_OF_OWNER, *conditions)


def _row(owner: Owner, memory: Memory) -> dict[str, object]:
    return {
        **owner._asdict(),
        "session_id": memory.session_id,
        "entry_id": memory.entry_id,
        "said_at": memory.entry.timestamp or "",
        "entry": memory.entry.to_json(),
        "words": _known_by(words_of(memory.entry.text)),
    }


def _known_by(words: list[str]) -> list[str]:
    return sorted({word[:_MAX_WORD] for word in words})
