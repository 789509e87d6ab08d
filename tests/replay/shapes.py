"""What later releases have to understand: the shapes of payloads and tables, and names."""

import hashlib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from sqlalchemy import Table, UniqueConstraint
from temporalio import workflow

from durable_adk.activities import attempt
from durable_adk.activities.commit import notes
from durable_adk.activities.effects import EFFECTS
from durable_adk.activities.invocation import take_over
from durable_adk.artifacts._record import Record
from durable_adk.attempt_history import AttemptHistory
from durable_adk.conversation.pending_request import PendingRequest
from durable_adk.errors import CLASSES
from durable_adk.errors.user_error import UserError
from durable_adk.memory.memory_entry import MemoryEntry
from durable_adk.partials.partial import PartialEvent
from durable_adk.sessions import records
from durable_adk.sessions.call_attempt import CallAttempt
from durable_adk.sql import migrations
from durable_adk.sql.schema import METADATA, POSTGRES_METADATA
from durable_adk.wire import agent_stack, checkpoint, messages
from durable_adk.wire.answer_token import AnswerToken
from durable_adk.wire.event_page import SESSION_EVENTS
from durable_adk.wire.model_request import MODEL_REQUESTS
from durable_adk.wire.search_attributes import MARKS
from durable_adk.wire.webhook import PushConfig
from durable_adk.workflows.deliver_webhook import DELIVER_WEBHOOK
from durable_adk.workflows.invocation import TYPE_NAME, InvocationWorkflow

Shapes: TypeAlias = dict[str, Any]
"""By kind: names, or what is behind each name."""

ROOTS = (
    *(AttemptHistory, PartialEvent, UserError, checkpoint.Checkpoint, checkpoint.Cursor),
    *(AnswerToken, CallAttempt, MemoryEntry, PendingRequest, PushConfig, Record),
    *(notes.ReceivedResponse, notes.ReceivedResult),
    *(messages.InvocationRequest, messages.InvocationAnswer, messages.InvocationResult),
    *(records.InvocationRecord, records.Ticket),
    *agent_stack.StackPosition.__subclasses__(),
)
"""Values that cross processes or are stored, beside the steps and results of activities."""

MIGRATIONS = Path(migrations.__file__).parent / "versions"
WORKFLOWS = (TYPE_NAME, SESSION_EVENTS, MODEL_REQUESTS, DELIVER_WEBHOOK)
NOTES = {
    *(notes.RECEIVED, notes.RESULT, notes.BEGUN),
    *(records.ATTEMPT, records.PUSH, records.DELIVERED, records.RESERVED, records.WITHDRAWN),
    *(attempt.STARTED, take_over.NOTIFIED, checkpoint.CHECKPOINT, checkpoint.JOURNAL),
}


def shapes() -> Shapes:
    """Those of the code that is here."""
    definition = workflow._Definition.must_from_class(InvocationWorkflow)
    found: dict[str, type] = {}
    for kind in (*ROOTS, *(each for row in EFFECTS for each in (row.step, row.result))):
        _collect(kind, found)
    tables = {**METADATA.tables, **POSTGRES_METADATA.tables}
    return {
        "activities": sorted(row.name for row in EFFECTS),
        "workflows": sorted(WORKFLOWS),
        "signals": sorted(filter(None, definition.signals)),
        "updates": sorted(filter(None, definition.updates)),
        "queries": sorted(filter(None, definition.queries)),
        "searchAttributes": sorted(
            f"{mark.name}: {mark.indexed_value_type.name}" for mark in MARKS
        ),
        "errors": sorted(CLASSES),
        "notes": sorted(NOTES),
        "migrations": [f"{path.name} {_digest(path)}" for path in sorted(MIGRATIONS.glob("v*.py"))],
        "payloads": {name: _payload(found[name]) for name in sorted(found)},
        "tables": {name: _columns(tables[name]) for name in sorted(tables)},
    }


def incompatible(then: Shapes, now: Shapes) -> Iterator[str]:
    """Say what of a release the code does not understand, or would write so that it fails there.

    Names may be added. A payload may get a field that may be left out, and a table a column that
    may be empty or has a default, by a migration of its own. Nothing else may change.
    """
    for kind in then.keys() - {"payloads", "tables"}:
        yield from (f"{kind}: {name} is gone" for name in sorted({*then[kind]} - {*now[kind]}))
    for kind in ("payloads", "tables"):
        for name, fields in then[kind].items():
            if name not in now[kind]:
                yield f"{kind}: {name} is gone"
            elif isinstance(fields, list):
                differing = sorted({*fields} ^ {*now[kind][name]})
                yield from (f"{name}: the value {value} is gone or new" for value in differing)
            else:
                yield from _changed(name, fields, now[kind][name])


def _changed(name: str, then: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    for field, what in then.items():
        if field.startswith(INDEX):
            continue
        if field not in now:
            yield f"{name}.{field} is gone"
        elif now[field] != what:
            yield f"{name}.{field} was {what!r} and is {now[field]!r}"
    for field in now.keys() - then.keys():
        if now[field].endswith(REQUIRED):
            yield f"{name}.{field} is new and has to be there"


REQUIRED = ", required"
INDEX = "index "


def _collect(kind: Any, found: dict[str, type]) -> None:
    """Add a type and those within it; libraries answer for theirs."""
    for inner in get_args(kind):
        _collect(inner, found)
    named = isinstance(kind, type) and kind.__module__.startswith("durable_adk")
    if not named or found.get(kind.__name__) is kind:
        return
    if not issubclass(kind, BaseModel | Enum):
        return
    assert kind.__name__ not in found, f"two are called {kind.__name__}"
    found[kind.__name__] = kind
    if issubclass(kind, BaseModel):
        for field in kind.model_fields.values():
            _collect(field.annotation, found)


def _payload(kind: type) -> list[str] | dict[str, str]:
    if issubclass(kind, Enum):
        return sorted(str(member.value) for member in kind)
    assert issubclass(kind, BaseModel)
    return {
        field.serialization_alias or name: _field(field)
        for name, field in sorted(kind.model_fields.items())
    }


def _field(field: FieldInfo) -> str:
    """Its type, what checks it, and what it is if it is left out."""
    checks = "".join(f" {_check(one)}" for one in field.metadata)
    text = _text(field.annotation) + checks
    if field.is_required():
        return text + REQUIRED
    default = field.get_default(call_default_factory=True, validated_data={})
    return f"{text} = {default.model_dump() if isinstance(default, BaseModel) else default!r}"


def _check(one: Any) -> str:
    return type(one).__name__ if " at 0x" in repr(one) else repr(one)


def _text(annotation: Any) -> str:
    """A type as it is written, without what validates it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return " ".join([_text(inner[0]), *map(_check, inner[1:])])
    if origin in (Union, UnionType):
        return " | ".join(map(_text, inner))
    if origin is Literal:
        return " | ".join(map(repr, inner))
    if origin is not None:
        return f"{_text(origin)}[{', '.join(map(_text, inner))}]"
    if fields := getattr(annotation, "_fields", None):
        return f"{annotation.__name__}({', '.join(fields)})"
    return {type(None): "None", ...: "..."}.get(annotation) or annotation.__name__


def _columns(table: Table) -> dict[str, str]:
    keys = {column.name for column in table.primary_key}
    columns = {
        column.name: " ".join(
            [str(column.type), *(["key"] if column.name in keys else [])],
        )
        + (REQUIRED if not column.nullable and column.server_default is None else "")
        for column in table.columns
    }
    indexes = {
        f"{INDEX}{index.name}": ", ".join(column.name for column in index.columns)
        for index in sorted(table.indexes, key=lambda index: str(index.name))
    }
    unique = {
        f"constraint {one.name}": ", ".join(column.name for column in one.columns)
        for one in sorted(table.constraints, key=lambda one: str(one.name))
        if isinstance(one, UniqueConstraint)
    }
    return columns | indexes | unique


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
