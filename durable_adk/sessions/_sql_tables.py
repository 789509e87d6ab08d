"""The statements of the SQL session store."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, delete, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from durable_adk.sessions._entry import Entry
from durable_adk.sessions._head import Head
from durable_adk.sessions._schema import EVENTS, INVOCATIONS, SESSIONS, STATE
from durable_adk.sessions._tables import Row, Window, owner, owners
from durable_adk.sessions.base_session_service import InvocationRecord
from durable_adk.sessions.session import SessionKey

_INSERT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
"""Both know the same ON CONFLICT clauses; SQLAlchemy has no common form of them."""

_KEY = ["app_name", "user_id", "session_id"]
_HEAD = [column for column in SESSIONS.c if column.name not in _KEY]
_HEAD_NAMES = [column.name for column in _HEAD]
_INVOCATION = [column for column in INVOCATIONS.c if column.name not in _KEY]
_EVENT = [EVENTS.c.seq, EVENTS.c.digest, EVENTS.c.body]


class SqlTables:
    """The tables over one connection, within the transaction it is in."""

    def __init__(self, connection: AsyncConnection, *, lock: bool) -> None:
        self._connection = connection
        self._lock = lock
        self._insert = _INSERT[connection.dialect.name]

    async def head(self, key: SessionKey) -> Head | None:
        query = select(*_HEAD).where(_is(SESSIONS, key))
        if self._lock:
            query = query.with_for_update()  # SQLite has one writer at a time and ignores it
        row = (await self._connection.execute(query)).mappings().one_or_none()
        return row and Head(**row)

    async def heads(self, app_name: str, user_id: str | None) -> list[tuple[SessionKey, Head]]:
        query = select(SESSIONS).where(SESSIONS.c.app_name == app_name)
        if user_id is not None:
            query = query.where(SESSIONS.c.user_id == user_id)
        return await self._heads(query)

    async def heads_of(self, keys: Iterable[SessionKey]) -> dict[SessionKey, Head]:
        """Those of the sessions that exist."""
        query = select(SESSIONS).where(tuple_(*(SESSIONS.c[name] for name in _KEY)).in_(keys))
        return dict(await self._heads(query))

    async def _heads(self, query: Select[Any]) -> list[tuple[SessionKey, Head]]:
        rows = (await self._connection.execute(query)).all()
        return [
            (SessionKey(*row[:3]), Head(**dict(zip(_HEAD_NAMES, row[3:], strict=True))))
            for row in rows
        ]

    async def add_session(self, key: SessionKey, head: Head) -> bool:
        statement = self._insert(SESSIONS).values(**key._asdict(), **asdict(head))
        result = await self._connection.execute(statement.on_conflict_do_nothing())
        return result.rowcount == 1

    async def save_head(self, key: SessionKey, head: Head) -> None:
        await self._connection.execute(
            update(SESSIONS).where(_is(SESSIONS, key)).values(**asdict(head))
        )

    async def remove_session(self, key: SessionKey) -> None:
        await self.head(key)  # locks it: another's commit comes wholly before or after
        for table in (STATE, INVOCATIONS, EVENTS, SESSIONS):
            await self._connection.execute(delete(table).where(_is(table, key)))

    async def add_event(self, key: SessionKey, seq: int, entry: Entry) -> bool:
        statement = self._insert(EVENTS).values(
            **key._asdict(),
            seq=seq,
            event_id=entry.event_id,
            invocation_id=entry.invocation_id,
            timestamp=entry.timestamp,
            digest=entry.digest,
            body=entry.body,
        )
        result = await self._connection.execute(
            statement.on_conflict_do_nothing(index_elements=[*_KEY, "event_id"])
        )
        return result.rowcount == 1

    async def find_event(self, key: SessionKey, event_id: str) -> Row | None:
        query = select(*_EVENT).where(_is(EVENTS, key), EVENTS.c.event_id == event_id)
        row = (await self._connection.execute(query)).one_or_none()
        return row and Row(*row)

    async def events(self, key: SessionKey, window: Window) -> list[Row]:
        query = select(*_EVENT).where(_is(EVENTS, key), EVENTS.c.seq > window.after)
        if window.upto is not None:
            query = query.where(EVENTS.c.seq <= window.upto)
        if window.since is not None:
            query = query.where(EVENTS.c.timestamp >= window.since)
        if window.last is None:
            query = query.order_by(EVENTS.c.seq).limit(window.first)
        else:
            query = query.order_by(EVENTS.c.seq.desc()).limit(window.last)
        rows = (await self._connection.execute(query)).all()
        return sorted(Row(*row) for row in rows)

    async def put_state(self, key: SessionKey, delta: dict[str, str]) -> None:
        if not delta:
            return
        statement = self._insert(STATE)
        await self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=[*_KEY, "key"], set_={"value": statement.excluded.value}
            ),
            # In one order everywhere, so that two sessions of a user cannot deadlock.
            [
                {**owner(key, name)._asdict(), "key": name, "value": delta[name]}
                for name in sorted(delta)
            ],
        )

    async def state(self, key: SessionKey) -> dict[str, str]:
        query = select(STATE.c.key, STATE.c.value).where(
            or_(*(_is(STATE, one) for one in owners(key)))
        )
        return {row.key: row.value for row in await self._connection.execute(query)}

    async def states(self, app_name: str, user_id: str | None) -> dict[SessionKey, dict[str, str]]:
        query = select(STATE).where(STATE.c.app_name == app_name)
        if user_id is not None:
            query = query.where(STATE.c.user_id.in_(["", user_id]))
        found: dict[SessionKey, dict[str, str]] = {}
        for *key, name, value in await self._connection.execute(query):
            found.setdefault(SessionKey(*key), {})[name] = value
        return found

    async def invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        query = select(*_INVOCATION).where(
            _is(INVOCATIONS, key), INVOCATIONS.c.invocation_id == invocation_id
        )
        row = (await self._connection.execute(query)).mappings().one_or_none()
        if row is None:
            return None
        error = row["error"] and json.loads(row["error"])
        return InvocationRecord.model_validate({**row, "error": error})

    async def put_invocation(self, key: SessionKey, record: InvocationRecord) -> None:
        values = record.model_dump(mode="json")
        values["error"] = None if record.error is None else json.dumps(record.error)
        statement = self._insert(INVOCATIONS).values(**key._asdict(), **values)
        await self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=[*_KEY, "invocation_id"],
                set_={name: statement.excluded[name] for name in values},
            )
        )


def _is(table: Table, key: SessionKey) -> ColumnElement[bool]:
    return and_(*(table.c[name] == value for name, value in key._asdict().items()))
