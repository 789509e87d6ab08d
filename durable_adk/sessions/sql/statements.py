"""Statements of the SQL session store.

Most are built once, at import, because building a statement takes longer than running it.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Executable,
    Select,
    Table,
    Text,
    and_,
    asc,
    bindparam,
    cast,
    column,
    delete,
    desc,
    func,
    or_,
    select,
    tuple_,
    union,
    union_all,
    update,
    values,
)
from sqlalchemy.dialects import postgresql, sqlite

from durable_adk.sessions.log.storage import InvocationsByTime, NoteKey
from durable_adk.sessions.records import KEPT, SESSION_SIZE, WITHDRAWN
from durable_adk.sessions.session import CHILD_PREFIX, SessionKey
from durable_adk.sql.schema import (
    EVENTS,
    INVOCATIONS,
    NOTES,
    SESSIONS,
    STATE,
    TICKETS,
    TOMBSTONES,
)

KEY = SessionKey._fields
_HEAD = [column for column in SESSIONS.c if column.name not in KEY]
HEAD = [column.name for column in _HEAD]
INVOCATION_COLUMNS = [column for column in INVOCATIONS.c if column.name not in KEY]

_APP: BindParameter[str] = bindparam("k_app")
_USER: BindParameter[str] = bindparam("k_user")
_SESSION: BindParameter[str] = bindparam("k_session")


def _is(table: Table) -> ColumnElement[bool]:
    return and_(table.c.app_name == _APP, table.c.user_id == _USER, table.c.session_id == _SESSION)


HEAD_OF = select(*_HEAD).where(_is(SESSIONS))
LOCKED_HEAD_OF = HEAD_OF.with_for_update()  # SQLite has one writer at a time and ignores it
MANY_HEADS = 1000
"""Maximum sessions per statement of `heads_of`."""
SAVE_HEAD = update(SESSIONS).where(_is(SESSIONS))
REMOVE = [
    delete(table).where(_is(table))
    for table in (NOTES, TICKETS, STATE, INVOCATIONS, EVENTS, SESSIONS)
]
_EVENTS_OF = select(EVENTS.c.seq, EVENTS.c.digest, EVENTS.c.body).where(_is(EVENTS))
EVENT_OF = _EVENTS_OF.where(EVENTS.c.event_id == bindparam("id"))
NO_LIMIT = 2**62
"""More rows than any table has, and more than any sequence number."""
_LIMIT: BindParameter[int] = bindparam("limit", type_=BigInteger)
INVOCATION_OF = select(*INVOCATION_COLUMNS).where(
    _is(INVOCATIONS), INVOCATIONS.c.invocation_id == bindparam("id")
)
TOMBSTONE_OF = select(TOMBSTONES.c.epoch, TOMBSTONES.c.delete_time).where(_is(TOMBSTONES))
REMOVE_TOMBSTONE = delete(TOMBSTONES).where(_is(TOMBSTONES))
REMOVE_TOMBSTONES = delete(TOMBSTONES).where(
    TOMBSTONES.c.app_name == _APP, TOMBSTONES.c.user_id == _USER
)
APPS = select(SESSIONS.c.app_name).distinct()
SESSIONS_OF = select(SESSIONS.c.session_id).where(
    SESSIONS.c.app_name == _APP,
    SESSIONS.c.user_id == _USER,
    func.substr(SESSIONS.c.session_id, 1, bindparam("length")) == bindparam("prefix"),
)
STATE_OF = select(STATE.c.key, STATE.c.value).where(
    or_(
        and_(STATE.c.app_name == _APP, STATE.c.user_id == "", STATE.c.session_id == ""),
        and_(STATE.c.app_name == _APP, STATE.c.user_id == _USER, STATE.c.session_id == ""),
        _is(STATE),
    )
)
NOTES_OF = (
    select(NOTES.c.name, NOTES.c.body)
    .where(_is(NOTES), NOTES.c.invocation_id == bindparam("id"), NOTES.c.kind == bindparam("kind"))
    .order_by(NOTES.c.name)
)
NOTE_OF = NOTES_OF.where(NOTES.c.name == bindparam("name"))
FIRST_NOTES_OF = NOTES_OF.limit(_LIMIT)
NEXT_NOTES_OF = NOTES_OF.where(NOTES.c.name > bindparam("after")).limit(_LIMIT)
REMOVE_NOTE = delete(NOTES).where(
    _is(NOTES),
    NOTES.c.invocation_id == bindparam("id"),
    NOTES.c.kind == bindparam("kind"),
    NOTES.c.name == bindparam("name"),
)
_IS_OLD = and_(NOTES.c.kind == WITHDRAWN, NOTES.c.body < bindparam("before"))
REMOVE_WITHDRAWN = delete(NOTES).where(_is(NOTES), _IS_OLD)
REMOVE_NOTES = delete(NOTES).where(
    _is(NOTES),
    or_(
        and_(
            NOTES.c.invocation_id == bindparam("id"),
            *(NOTES.c.kind != kind for kind in sorted(KEPT)),
        ),
        _IS_OLD,
    ),
)
TICKETS_OF = (
    select(*(column for column in TICKETS.c if column.name not in (*KEY, "message")))
    .where(_is(TICKETS))
    .order_by(TICKETS.c.position, TICKETS.c.number)
)
_LIVE = or_(TICKETS.c.expires_at.is_(None), TICKETS.c.expires_at > bindparam("now"))
FIRST_TICKETS_OF = TICKETS_OF.limit(_LIMIT)
LIVE_TICKETS_OF = TICKETS_OF.where(_LIVE).limit(_LIMIT)
TICKET_OF = TICKETS_OF.where(TICKETS.c.invocation_id == bindparam("id"))
_POSITION, _NUMBER = TICKETS.c.position, TICKETS.c.number
TICKETS_BEFORE = select(func.count()).where(
    _is(TICKETS),
    _LIVE,
    or_(
        bindparam("position") > _POSITION,
        and_(bindparam("position") == _POSITION, bindparam("number") > _NUMBER),
    ),
)
TICKETS_OF_USER = select(func.count()).where(
    TICKETS.c.app_name == _APP, TICKETS.c.user_id == _USER, _LIVE
)
SIZES_OF_USER = (
    select(func.sum(SESSIONS.c.size + SESSION_SIZE)).where(
        SESSIONS.c.app_name == _APP, SESSIONS.c.user_id == _USER
    ),
    select(func.sum(func.length(STATE.c.value))).where(
        STATE.c.app_name == _APP, STATE.c.user_id == _USER, STATE.c.session_id == ""
    ),
)
TICKET_COUNT = select(func.count(), func.coalesce(func.max(TICKETS.c.number), 0)).where(
    _is(TICKETS)
)
MESSAGE_OF = select(TICKETS.c.message).where(
    _is(TICKETS), TICKETS.c.invocation_id == bindparam("id")
)
REMOVE_TICKET = delete(TICKETS).where(
    _is(TICKETS),
    or_(TICKETS.c.invocation_id == bindparam("id"), TICKETS.c.expires_at <= bindparam("now")),
)


def _is_listed(table: Table) -> ColumnElement[bool]:
    # Uses `substr` because LIKE ignores case in SQLite.
    return func.substr(table.c.session_id, 1, len(CHILD_PREFIX)) != CHILD_PREFIX


# In the order of an index.
POSITION = tuple_(SESSIONS.c.update_time, SESSIONS.c.user_id, SESSIONS.c.session_id)
LISTED = select(SESSIONS).where(_is_listed(SESSIONS)).order_by(*POSITION)
NEWEST_LISTED = LISTED.order_by(None).order_by(*(one.desc() for one in POSITION))
OWNERS = 1000
"""Owners per statement; databases limit a statement's parameters to about 32,000."""
INITIAL_STATE_OF = select(STATE.c.key, STATE.c.initial).where(
    _is(STATE), STATE.c.initial.is_not(None)
)
_STATES = select(*(column for column in STATE.c if column.name != "initial"))


@cache
def events_of(*, since: bool, last: bool) -> Select[int, str, str]:
    """Build the query for a window of a session's events.

    Args:
        since: Whether it has an earliest time.
        last: Whether it selects the last events instead of the first, in descending order.
    """
    seq = EVENTS.c.seq
    query = _EVENTS_OF.where(seq > bindparam("after"), seq <= bindparam("upto"))
    if since:
        query = query.where(EVENTS.c.timestamp >= bindparam("since"))
    return query.order_by(seq.desc() if last else seq).limit(_LIMIT)


def states_of(owners: Sequence[SessionKey]) -> Select[Any]:
    """Build the query for the owners' state; a join, as SQLite scans the whole table for IN."""
    wanted = values(*(column(name, Text) for name in KEY), name="wanted").data(owners).cte()
    return _STATES.join_from(wanted, STATE, and_(*(STATE.c[n] == wanted.c[n] for n in KEY)))


def _of_each(statuses: Sequence[str], query: Select[Any]) -> CompoundSelect[Any]:
    """Build the union of a limited query's results for each status."""
    parts = [query.where(INVOCATIONS.c.status == one).subquery() for one in statuses]
    return union_all(*map(select, parts))


_TIME = ("update_time", "user_id", "session_id", "invocation_id")


def by_time_query(wanted: InvocationsByTime) -> Executable:
    """Build the query for the newest or oldest invocations, in the order of an index.

    Each status has a query of its own, because the index begins with the status: with IN, a
    database would sort all the rows for every page. A user's invocations have one query: their
    index lacks the status, so each query would read them all again. Those of one session are few,
    and all of them are read: to use an index's order, a database would read all of the user's.
    """
    fixed = {"app_name": wanted.app_name, "user_id": wanted.user_id}
    fixed["session_id"] = wanted.session_id
    query = select(INVOCATIONS).filter_by(**{k: v for k, v in fixed.items() if v is not None})
    source, statuses = INVOCATIONS.c, sorted(wanted.statuses)
    if wanted.user_id is not None and wanted.session_id is not None:
        session = query.cte("of_session").prefix_with("MATERIALIZED")
        query, source = select(session), session.c
    if wanted.beyond is not None:
        place = tuple_(*(source[name] for name in _TIME))
        query = query.where(place > wanted.beyond if wanted.oldest_first else place < wanted.beyond)
    order: list[ColumnElement[Any]] = [
        asc(name) if wanted.oldest_first else desc(name) for name in _TIME
    ]
    first = query.order_by(*order).limit(wanted.limit)
    if wanted.user_id is None and len(statuses) > 1:
        return _of_each(statuses, first).order_by(*order).limit(wanted.limit)
    return first.where(source.status.in_(statuses)) if statuses else first


def counts_query(app_name: str, user_id: str | None) -> Select[str, int]:
    """Build the query for the number of invocations by status, without those of child sessions."""
    query = select(INVOCATIONS.c.status, func.count()).where(
        INVOCATIONS.c.app_name == app_name, _is_listed(INVOCATIONS)
    )
    if user_id is not None:
        query = query.where(INVOCATIONS.c.user_id == user_id)
    return query.group_by(INVOCATIONS.c.status)


def _sessions_with(table: Table) -> Select[Any]:
    return select(*(table.c[name] for name in KEY)).where(table.c.invocation_id == bindparam("id"))


SESSIONS_WITH = union(_sessions_with(INVOCATIONS), _sessions_with(TICKETS))
COUNT_EVENTS = select(func.count()).where(
    _is(EVENTS),
    EVENTS.c.invocation_id == bindparam("id"),
    EVENTS.c.seq >= bindparam("first"),
    EVENTS.c.seq <= bindparam("last"),
)


class Inserts:
    """Inserts with ON CONFLICT, for which SQLAlchemy has a separate class per database."""

    def __init__(self, dialect: str) -> None:
        insert = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[dialect]
        self.session = insert(SESSIONS).on_conflict_do_nothing()
        # Only a taken event id is a repeat; a taken sequence number is an error and must raise.
        self.event = insert(EVENTS).on_conflict_do_nothing(index_elements=[*KEY, "event_id"])
        state = insert(STATE)
        self.state = state.on_conflict_do_update(
            index_elements=[*KEY, "key"], set_={"value": state.excluded.value}
        )
        # An update that changes nothing locks the row, also against transactions that would add it.
        self.locked_state = state.on_conflict_do_update(
            index_elements=[*KEY, "key"], set_={"value": STATE.c.value}
        ).returning(STATE.c.value)
        invocation = insert(INVOCATIONS)
        self.invocation = invocation.on_conflict_do_update(
            index_elements=[*KEY, "invocation_id"],
            set_={one.name: invocation.excluded[one.name] for one in INVOCATION_COLUMNS},
        )
        note = insert(NOTES)
        self.first_note = note.on_conflict_do_nothing()
        self.last_note = note.on_conflict_do_update(
            index_elements=[*KEY, *NoteKey._fields], set_={"body": note.excluded.body}
        )
        ticket = insert(TICKETS)
        self.ticket = ticket.on_conflict_do_update(
            index_elements=[*KEY, "invocation_id"],
            set_={column.name: ticket.excluded[column.name] for column in TICKETS.c},
        )
        tombstone = insert(TOMBSTONES)
        self.tombstone = tombstone.on_conflict_do_update(
            index_elements=KEY,
            set_={name: tombstone.excluded[name] for name in ("epoch", "delete_time")},
        )


inserts = cache(Inserts)


@cache
def heads_of(dialect: str) -> Select[Any]:
    """Build the query for the rows of the sessions in a JSON array of keys, bound as `keys`.

    Databases differ in how they read JSON. With one parameter the statement is built once; with a
    parameter per id, building it takes six times as long as reading the sessions one by one.
    """
    if dialect == "sqlite":
        wanted = func.json_each(bindparam("keys", type_=Text)).table_valued("value")
        ids = [func.json_extract(wanted.c.value, f"$[{place}]") for place in range(len(KEY))]
    else:
        keys = cast(bindparam("keys", type_=Text), postgresql.JSON)
        wanted = func.json_array_elements(keys).table_valued(column("value", postgresql.JSON))
        ids = [wanted.c.value[place].astext for place in range(len(KEY))]
    same = [SESSIONS.c[name] == id_ for name, id_ in zip(KEY, ids, strict=True)]
    return select(*(SESSIONS.c[name] for name in KEY), *_HEAD).join_from(
        wanted, SESSIONS, and_(*same)
    )
