"""A database of google-adk's `DatabaseSessionService`, as source and target of copies."""

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Executable,
    Select,
    column,
    func,
    insert,
    inspect,
    select,
    table,
    text,
    update,
)

from durable_adk.errors import InvalidRequestError, StaleSessionError
from durable_adk.ops.adk_sessions import tables
from durable_adk.ops.adk_sessions.connections import Connections, Row, as_rows, connected
from durable_adk.ops.adk_sessions.copies import Problem, SourceSession
from durable_adk.ops.adk_sessions.row_events import (
    UNREADABLE,
    column_time,
    event_of,
    reason,
    session_of,
    state_of,
)
from durable_adk.sessions.log.copies import CopiedEvent, CopiedSession
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.state import APP_PREFIX, USER_PREFIX
from durable_adk.sql.database_url import file_of, parse, shown

_KEY = ("app_name", "user_id", "session_id")
_TICK = timedelta(microseconds=1)
_WITHOUT_EVENTS = text(
    "SELECT app_name, user_id, id FROM sessions "
    "EXCEPT SELECT app_name, user_id, session_id FROM events"
)


@dataclass(frozen=True, kw_only=True)
class AdkDatabase:
    """A database opened by `open_database`."""

    connections: Connections
    names: frozenset[str]
    """The names of its tables."""
    tie: str
    """Orders events of the same time: by id, or in a `SqliteSessionService`'s file by row."""

    # ----- as a source

    async def sessions(self) -> AsyncGenerator[SourceSession]:
        """See `Source.sessions`: the sessions with events, then the others.

        One query reads all events: a `SqliteSessionService`'s file has no index by session.
        """
        rows = list[Row]()
        async for row in self._event_rows():
            if rows and _key(row) != _key(rows[0]):
                yield await self._read(_key(rows[0]), rows)
                rows = []
            rows.append(row)
        if rows:
            yield await self._read(_key(rows[0]), rows)
        async for row in self._rows(_WITHOUT_EVENTS):
            yield await self._read(SessionKey(*row.values()), ())

    async def states(self) -> AsyncGenerator[tuple[SessionKey, dict[str, Any] | Problem]]:
        """See `Source.states`."""
        for name, prefix in (("app_states", APP_PREFIX), ("user_states", USER_PREFIX)):
            if name not in self.names:
                continue
            async for row in self._rows(_all_of(name)):
                user = row["user_id"] if name == "user_states" else ""
                key = SessionKey(row["app_name"], user, "")
                try:
                    yield key, state_of(row["state"], prefix)
                except UNREADABLE as error:
                    yield key, Problem(app=row["app_name"], user=user, problem=reason(error))

    async def _read(self, key: SessionKey, rows: Sequence[Row]) -> SourceSession:
        """Return a session with these events."""
        sessions = _all_of("sessions").where(*_is_session(key, "id"))
        found = await self.connections.run(lambda one: as_rows(one.execute(sessions).mappings()))
        session, problems = _session(key, found)
        events = list[CopiedEvent]()
        for row in rows if session else ():
            try:
                events.append(event_of(row))
            except UNREADABLE as error:
                problems.append(_problem(key, reason(error), event=str(row["id"])))
        return SourceSession(session=session, events=events, problems=problems)

    def _event_rows(self) -> AsyncGenerator[Row]:
        order = ", ".join([*_KEY, "timestamp", self.tie])
        return self._rows(_all_of("events").order_by(text(order)))

    async def _rows(self, query: Executable) -> AsyncGenerator[Row]:
        async for rows in self.connections.stream(query):
            for row in rows:
                yield row

    # ----- as a target

    async def read_session(self, key: SessionKey) -> CopiedSession | None:
        """See `Target.read_session`."""
        return await self.connections.run(lambda one: _stored_session(one, key))

    async def read_copied(self, key: SessionKey, *, limit: int | None = None) -> list[CopiedEvent]:
        """See `Target.read_copied`."""
        query = _all_of("events").where(*_is_session(key, "session_id"))
        query = query.order_by(column("timestamp"), column("id")).limit(limit)
        rows = await self.connections.run(lambda one: as_rows(one.execute(query).mappings()))
        return [event_of(row) for row in rows]

    async def copy_session(
        self, session: CopiedSession, events: Sequence[CopiedEvent], *, after: int = 0
    ) -> None:
        """See `Target.copy_session`."""
        await self.connections.run(lambda one: _put(one, session, events[after:], after=after))

    async def copy_state(self, key: SessionKey, values: Mapping[str, Any]) -> dict[str, Any]:
        """See `Target.copy_state`."""
        return await self.connections.run(lambda one: _put_state(one, key, values))


@asynccontextmanager
async def open_database(db_url: str, *, is_target: bool = False) -> AsyncGenerator[AdkDatabase]:
    """Open a database of google-adk.

    Args:
        db_url: Its URL, in google-adk's form, or the path of a SQLite file.
        is_target: Whether to write to it; creates the database and its tables if missing.

    Raises:
        InvalidRequestError: It is not such a database, or cannot be written to.
        StoreUnavailableError: It cannot be opened.
    """
    url = parse(db_url if "://" in db_url else URL.create("sqlite", database=db_url))
    file = file_of(url)
    if file is not None and not is_target and not file.is_file():
        raise InvalidRequestError(f"There is no database {file}.")
    async with connected(url) as connections:
        if is_target:
            await connections.run(_create)
        names, tie = await connections.run(lambda one: _layout(one, url))
        if is_target and tie != "id":
            raise InvalidRequestError(
                f"{shown(url)} is the file of a SqliteSessionService; name a new database."
            )
        yield AdkDatabase(connections=connections, names=names, tie=tie)


def _all_of(name: str) -> Select[Any]:
    """Select all columns of a table, with the driver's values."""
    return select(text("*")).select_from(table(name))


# ----- the layout


def _layout(connection: Connection, url: URL) -> tuple[frozenset[str], str]:
    """Return the names of the tables, and what orders events of the same time."""
    found = inspect(connection)
    names = frozenset(found.get_table_names())
    columns = found.get_columns("events") if "events" in names else []
    events = {one["name"] for one in columns}
    if "sessions" not in names or not events & {"event_data", "actions"}:
        raise InvalidRequestError(f"{shown(url)} has no sessions of google-adk's.")
    if "event_data" not in events:
        raise InvalidRequestError(
            f"{shown(url)} has tables that google-adk 1.x has made, with pickled actions. Convert "
            "it with google-adk 2 (`adk migrate session`), and name the database that it writes."
        )
    has_version = tables.VERSIONS.name in names
    if has_version:
        _require_known(connection, url)
    is_file = connection.dialect.name == "sqlite" and not has_version
    return names, "rowid" if is_file else "id"


def _require_known(connection: Connection, url: URL) -> None:
    versions = tables.VERSIONS
    query = select(versions.c.value).where(versions.c.key == tables.VERSION_KEY)
    version = connection.scalar(query)
    if version != tables.VERSION:
        raise InvalidRequestError(
            f"{shown(url)} has tables of schema {version!r}; this version of durable_adk knows "
            f"{tables.VERSION}."
        )


def _create(connection: Connection) -> None:
    names = set(inspect(connection).get_table_names())
    if "events" in names and tables.VERSIONS.name not in names:
        return  # of another program or another version
    tables.METADATA.create_all(connection)
    if "events" not in names:
        row = {"key": tables.VERSION_KEY, "value": tables.VERSION}
        connection.execute(insert(tables.VERSIONS), row)


# ----- reading


def _key(row: Row) -> SessionKey:
    return SessionKey(*(row[name] for name in _KEY))


def _session(key: SessionKey, rows: Sequence[Row]) -> tuple[CopiedSession | None, list[Problem]]:
    """Return a session, or the reason why it cannot be read."""
    try:
        if not rows:
            raise InvalidRequestError("There are events, and no session.")
        return session_of(rows[0]), []
    except UNREADABLE as error:
        return None, [_problem(key, reason(error))]


def _problem(key: SessionKey, text: str, event: str = "") -> Problem:
    app, user, session = map(str, key)
    return Problem(app=app, user=user, session=session, event=event, problem=text)


def _is_session(key: SessionKey, id_column: str) -> Iterable[ColumnElement[bool]]:
    names = ("app_name", "user_id", id_column)
    return [column(name) == value for name, value in zip(names, key, strict=True)]


# ----- writing


def _stored_session(connection: Connection, key: SessionKey) -> CopiedSession | None:
    query = select(tables.SESSIONS).where(*_is_session(key, "id"))
    rows = as_rows(connection.execute(query).mappings())
    if not rows:
        return None
    count = select(func.count()).select_from(tables.EVENTS).where(*_is_session(key, "session_id"))
    session = session_of(rows[0])
    return session._replace(events=connection.scalar(count) or 0)


def _put(
    connection: Connection, session: CopiedSession, events: Sequence[CopiedEvent], *, after: int
) -> None:
    key = session.key
    stored = _stored_session(connection, key)
    if after != (stored.events if stored else 0):
        raise StaleSessionError(
            f"The session {key.session_id!r} was changed while it was copied; run this again."
        )
    values: dict[str, Any] = {"update_time": column_time(session.update_time)}
    if stored is None:
        names = {"app_name": key.app_name, "user_id": key.user_id, "id": key.session_id}
        made = {"state": session.state, "create_time": column_time(session.create_time)}
        connection.execute(insert(tables.SESSIONS), {**names, **made, **values})
        _add_states(connection, key)
    else:
        changed = update(tables.SESSIONS).where(*_is_session(key, "id"))
        connection.execute(changed, {"state": session.state, **values})
    if events:
        connection.execute(insert(tables.EVENTS), _event_rows(connection, key, events))


def _event_rows(
    connection: Connection, key: SessionKey, events: Sequence[CopiedEvent]
) -> list[dict[str, Any]]:
    """Return the rows of events; each gets a later time, the only order that google-adk knows."""
    latest = select(func.max(tables.EVENTS.c.timestamp)).where(*_is_session(key, "session_id"))
    after = connection.scalar(latest) or datetime.min  # noqa: DTZ901  # google-adk names no time zone
    rows = list[dict[str, Any]]()
    for item in events:
        after = max(after + _TICK, column_time(item.event.timestamp))
        rows.append(
            {
                **key._asdict(),
                "id": item.event.id,
                "invocation_id": item.event.invocation_id,
                "timestamp": after,
                "event_data": item.as_adk(),
            }
        )
    return rows


def _add_states(connection: Connection, key: SessionKey) -> None:
    """Add the rows that google-adk expects with each session, if they are missing."""
    _put_state(connection, SessionKey(key.app_name, "", ""), {})
    _put_state(connection, SessionKey(key.app_name, key.user_id, ""), {})


def _put_state(
    connection: Connection, key: SessionKey, values: Mapping[str, Any]
) -> dict[str, Any]:
    owner, prefix, of = {"app_name": key.app_name}, APP_PREFIX, tables.APP_STATES
    if key.user_id:
        owner, prefix, of = {**owner, "user_id": key.user_id}, USER_PREFIX, tables.USER_STATES
    mine = {name.removeprefix(prefix): value for name, value in values.items()}
    here = [of.c[name] == value for name, value in owner.items()]
    stored = connection.scalar(select(of.c.state).where(*here).with_for_update())
    now = column_time(time.time())
    if stored is None:
        connection.execute(insert(of), {**owner, "state": mine, "update_time": now})
        return {}
    if mine.keys() - stored.keys():
        changed = update(of).where(*here)
        connection.execute(changed, {"state": {**mine, **stored}, "update_time": now})
    return {
        prefix + name: stored[name]
        for name, value in mine.items()
        if name in stored and stored[name] != value
    }
