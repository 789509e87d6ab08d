"""Rows of google-adk's tables, read as sessions and events.

Schema 1 has an event as one JSON object, and so has the file of a `SqliteSessionService`. Schema 0,
of google-adk 1.x, has a column per field and pickled actions. Its columns became more from version
to version.
"""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

from pydantic import ValidationError

from durable_adk.errors import DurableAdkError, InvalidRequestError
from durable_adk.ops.adk_sessions.pickle_values import values_of
from durable_adk.sessions.log.copies import CopiedEvent, CopiedSession
from durable_adk.sessions.log.entry import Entry, check_state
from durable_adk.sessions.session import SessionKey, checked_key

Values = Mapping[str, Any]
"""A row, by its columns' names."""

_JSON_COLUMNS = (
    *("content", "grounding_metadata", "custom_metadata", "usage_metadata", "citation_metadata"),
    *("input_transcription", "output_transcription"),
)
_COLUMNS = (
    *("id", "invocation_id", "author", "branch", "partial", "turn_complete", "error_code"),
    *("error_message", "interrupted"),
)


UNREADABLE = (DurableAdkError, ValueError, TypeError, KeyError, RecursionError)
"""What reading a row raises that is no session or event, or one that our store cannot hold."""


def reason(error: Exception) -> str:
    """Return why a row cannot be read, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return " ".join(str(error).split()) or type(error).__name__


def event_of(row: Values, zone: tzinfo) -> CopiedEvent:
    """Read an event.

    Args:
        row: Of the table `events`, of any schema.
        zone: The time zone in which schema 0 has its times.

    Raises:
        UNREADABLE: It is none.
    """
    event = CopiedEvent.read(_current(row) if "event_data" in row else _older(row, zone))
    Entry.of(event.event)
    return event


def session_of(row: Values) -> CopiedSession:
    """Read a session from its row of the table `sessions`.

    Raises:
        UNREADABLE: It is none.
    """
    key = SessionKey(row["app_name"], row["user_id"], row["id"])
    if checked_key(*key) != key:
        raise InvalidRequestError("Its ids begin or end with white space.")
    return CopiedSession(
        key=key,
        state=state_of(row["state"]),
        create_time=seconds(row["create_time"], UTC),
        update_time=seconds(row["update_time"], UTC),
    )


def state_of(text: Any, prefix: str = "") -> dict[str, Any]:
    """Read a column of state, whose keys get the prefix of their scope.

    Raises:
        UNREADABLE: It is no JSON object that our store can hold.
    """
    values = {prefix + name: value for name, value in _object(text, "state").items()}
    check_state(values)
    return values


def seconds(value: Any, zone: tzinfo) -> float:
    """Return a time as seconds since the epoch.

    Args:
        value: A number of seconds; a time, or SQLite's text of one.
        zone: The time zone of a time that names none.
    """
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=zone)).timestamp()
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{value!r} is no time.")
    return float(value)


def column_time(timestamp: float) -> datetime:
    """Return seconds since the epoch as google-adk stores them: in UTC, naming no time zone."""
    return datetime.fromtimestamp(timestamp, UTC).replace(tzinfo=None)


def _current(row: Values) -> dict[str, Any]:
    value = _object(row["event_data"], "event_data")
    moment = value.get("timestamp")
    if moment is None:
        moment = seconds(row["timestamp"], UTC)
    return {**value, "id": row["id"], "invocation_id": row["invocation_id"], "timestamp": moment}


def _older(row: Values, zone: tzinfo) -> dict[str, Any]:
    value: dict[str, Any] = {name: row[name] for name in _COLUMNS if row.get(name) is not None}
    for name in ("partial", "turn_complete", "interrupted"):
        if name in value:
            value[name] = bool(value[name])  # SQLite has numbers
    for name in _JSON_COLUMNS:
        # "null" stands for nothing, as an SQL NULL does.
        if row.get(name) is not None and (read := _parsed(row[name])) is not None:
            value[name] = read
    if row.get("long_running_tool_ids_json"):
        value["long_running_tool_ids"] = json.loads(row["long_running_tool_ids_json"])
    if row.get("actions") is not None:
        value["actions"] = values_of(bytes(row["actions"]))
    return {**value, "timestamp": seconds(row["timestamp"], zone)}


def _parsed(text: Any) -> Any:
    """The value of a JSON column, which PostgreSQL's driver has parsed already."""
    return json.loads(text) if isinstance(text, (str, bytes)) else text


def _object(text: Any, name: str) -> dict[str, Any]:
    value = _parsed(text)
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{name} is no JSON object.")
    return cast("dict[str, Any]", value)
