"""Copies of stored sessions, as callers are given them."""

from collections.abc import Iterable

from durable_adk.sessions._entry import decode
from durable_adk.sessions._head import Head
from durable_adk.sessions.session import Session, SessionKey


def session_copy(key: SessionKey, head: Head, *states: dict[str, str] | None) -> Session:
    """A session without its events.

    Args:
        key: Its name.
        head: Its row.
        states: Of its owners, as JSON texts; None: there is none.
    """
    texts = _merged(states)
    return Session(
        id=key.session_id,
        app_name=key.app_name,
        user_id=key.user_id,
        state=decode(texts),
        last_update_time=head.update_time,
        revision=head.revision,
    )


def _merged(parts: Iterable[dict[str, str] | None]) -> dict[str, str]:
    return {name: text for part in parts if part for name, text in part.items()}
