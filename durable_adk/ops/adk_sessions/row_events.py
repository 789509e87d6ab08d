"""Reads rows of google-adk's tables as sessions and events.

In all of google-adk's databases, an event is one JSON object.
"""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import ValidationError

from durable_adk.errors import DurableAdkError, InvalidRequestError
from durable_adk.sessions.log.copies import CopiedEvent, CopiedSession
from durable_adk.sessions.log.entry import Entry, check_state
from durable_adk.sessions.session import SessionKey, checked_key

Values = Mapping[str, Any]
"""A row by column names."""

UNREADABLE = (DurableAdkError, ValueError, TypeError, KeyError, RecursionError)
"""Errors of reading a row that is not a session or event, or that this package cannot store."""


def reason(error: Exception) -> str:
    """Return the reason why a row cannot be read, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return " ".join(str(error).split()) or type(error).__name__


def event_of(row: Values) -> CopiedEvent:
    """Read an event from its row of the table `events`.

    Raises:
        UNREADABLE: The row is not an event.
    """
    event = CopiedEvent.read(_event(row))
    Entry.of(event.event)
    return event


def session_of(row: Values) -> CopiedSession:
    """Read a session from its row of the table `sessions`.

    Raises:
        UNREADABLE: The row is not a session.
    """
    key = SessionKey(row["app_name"], row["user_id"], row["id"])
    if checked_key(*key) != key:
        raise InvalidRequestError("Its ids begin or end with white space.")
    return CopiedSession(
        key=key,
        state=state_of(row["state"]),
        create_time=seconds(row["create_time"]),
        update_time=seconds(row["update_time"]),
    )


def state_of(text: Any, prefix: str = "") -> dict[str, Any]:
    """Read a state column; its keys get the prefix of their scope.

    Raises:
        UNREADABLE: It is not a JSON object that this package can store.
    """
    values = {prefix + name: value for name, value in _object(text, "state").items()}
    check_state(values)
    return values


def seconds(value: Any) -> float:
    """Return a time as seconds since the epoch.

    Args:
        value: A number of seconds; or a time, or its text in SQLite, in UTC unless it has a time
            zone.
    """
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{value!r} is no time.")
    return float(value)


def column_time(timestamp: float) -> datetime:
    """Return seconds since the epoch in google-adk's column format: UTC without a time zone."""
    return datetime.fromtimestamp(timestamp, UTC).replace(tzinfo=None)


def _event(row: Values) -> dict[str, Any]:
    value = _object(row["event_data"], "event_data")
    moment = value.get("timestamp")
    if moment is None:
        moment = seconds(row["timestamp"])
    return {**value, "id": row["id"], "invocation_id": row["invocation_id"], "timestamp": moment}


def _parsed(text: Any) -> Any:
    """Return the value of a JSON column, which PostgreSQL's driver has already parsed."""
    return json.loads(text) if isinstance(text, (str, bytes)) else text


def _object(text: Any, name: str) -> dict[str, Any]:
    value = _parsed(text)
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{name} is no JSON object.")
    return cast("dict[str, Any]", value)
