"""Insert statements of the SQL session store."""

from functools import cache

from sqlalchemy.dialects import postgresql, sqlite

from durable_adk.sessions.log.storage import NoteKey
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.schema import (
    EVENTS,
    INVOCATIONS,
    NOTES,
    SESSIONS,
    STATE,
    TICKETS,
    TOMBSTONES,
)

_KEY = list(SessionKey._fields)
_INVOCATION = [column.name for column in INVOCATIONS.c if column.name not in _KEY]


class Inserts:
    """Inserts with ON CONFLICT, for which SQLAlchemy has a separate class per database."""

    def __init__(self, dialect: str) -> None:
        insert = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[dialect]
        self.session = insert(SESSIONS).on_conflict_do_nothing()
        # Only a taken event id is a repeat; a taken sequence number is an error and must raise.
        self.event = insert(EVENTS).on_conflict_do_nothing(index_elements=[*_KEY, "event_id"])
        state = insert(STATE)
        self.state = state.on_conflict_do_update(
            index_elements=[*_KEY, "key"], set_={"value": state.excluded.value}
        )
        # An update that changes nothing: it locks the row, also against others that would add it.
        self.locked_state = state.on_conflict_do_update(
            index_elements=[*_KEY, "key"], set_={"value": STATE.c.value}
        ).returning(STATE.c.value)
        invocation = insert(INVOCATIONS)
        self.invocation = invocation.on_conflict_do_update(
            index_elements=[*_KEY, "invocation_id"],
            set_={name: invocation.excluded[name] for name in _INVOCATION},
        )
        note = insert(NOTES)
        self.first_note = note.on_conflict_do_nothing()
        self.last_note = note.on_conflict_do_update(
            index_elements=[*_KEY, *NoteKey._fields], set_={"body": note.excluded.body}
        )
        ticket = insert(TICKETS)
        self.ticket = ticket.on_conflict_do_update(
            index_elements=[*_KEY, "invocation_id"],
            set_={column.name: ticket.excluded[column.name] for column in TICKETS.c},
        )
        tombstone = insert(TOMBSTONES)
        self.tombstone = tombstone.on_conflict_do_update(
            index_elements=_KEY,
            set_={name: tombstone.excluded[name] for name in ("epoch", "delete_time")},
        )


inserts = cache(Inserts)
