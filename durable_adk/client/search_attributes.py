"""Search attributes of invocations in Temporal (D18)."""

import time
from dataclasses import dataclass
from datetime import timedelta
from weakref import WeakKeyDictionary

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.common import (
    SearchAttributeIndexedValueType,
    TypedSearchAttributes,
)
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.errors import SearchAttributesError, TemporalUnavailableError
from durable_adk.settings import Settings
from durable_adk.wire.messages import InvocationRequest
from durable_adk.wire.search_attributes import (
    AGENT,
    MARKS,
    SESSION,
    STATUS,
    USER,
    WAITING_SINCE,
    attributes_of,
)

PERSONAL = {USER.name, SESSION.name}
"""Search attributes that may identify a person."""
CACHED_FOR = 60.0
"""Seconds for which a namespace's search attributes are cached."""
_TIMEOUT = timedelta(seconds=5)
_KINDS = {
    SearchAttributeIndexedValueType.KEYWORD: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    SearchAttributeIndexedValueType.DATETIME: IndexedValueType.INDEXED_VALUE_TYPE_DATETIME,
}
_TYPES = {key.name: _KINDS[key.indexed_value_type] for key in MARKS}
_FINAL = {
    RPCStatusCode.PERMISSION_DENIED,
    RPCStatusCode.UNAUTHENTICATED,
    RPCStatusCode.UNIMPLEMENTED,
    RPCStatusCode.INVALID_ARGUMENT,
    RPCStatusCode.FAILED_PRECONDITION,
    RPCStatusCode.RESOURCE_EXHAUSTED,
}


@dataclass(frozen=True)
class _Seen:
    """Which of our search attributes may be set, and when that was read."""

    names: frozenset[str]
    at: float


_seen: WeakKeyDictionary[Client, _Seen] = WeakKeyDictionary()


async def register_search_attributes(client: Client, *, personal: bool = True) -> list[str]:
    """Register the search attributes that the client's namespace lacks.

    This is idempotent. Clients use new ones after a minute at most.

    Args:
        client: A client that may change the namespace.
        personal: Include the ids of user and session.

    Returns:
        The names that were added.

    Raises:
        SearchAttributesError: The client lacks the permission or the means; the message has the
            commands for an administrator.
        TemporalUnavailableError: The server does not respond.
    """
    try:
        there = await _listed(client)
        missing = {
            name: kind
            for name, kind in _TYPES.items()
            if name not in there and (personal or name not in PERSONAL)
        }
        if missing:
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(search_attributes=missing, namespace=client.namespace),
                timeout=_TIMEOUT,
            )
    except RPCError as error:
        if error.status not in _FINAL:
            raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
        raise _refused(client, error.message, personal=personal) from error
    forget(client)
    if wrong := [name for name in there if there[name] != _TYPES[name]]:
        why = f"{', '.join(wrong)} has another type; remove it first"
        raise _refused(client, why, personal=personal)
    return sorted(missing)


async def search_attributes(
    client: Client, request: InvocationRequest
) -> TypedSearchAttributes | None:
    """Return the search attributes of a new invocation; None: none.

    Only those that the namespace has: Temporal rejects a start with others. The workflow updates
    its status only if it was started with one.
    """
    names = await _settable(client)
    return attributes_of(request, settable=lambda key: key.name in names)


def forget(client: Client) -> None:
    """Read the namespace's search attributes again at the next start."""
    _seen.pop(client, None)


async def _settable(client: Client) -> frozenset[str]:
    seen = _seen.get(client)
    if seen is None or time.monotonic() - seen.at > CACHED_FOR:
        seen = _seen[client] = _Seen(await _look(client), time.monotonic())
    return seen.names


async def _look(client: Client) -> frozenset[str]:
    """Return the names that both the settings and the namespace allow."""
    mode = Settings().search_attributes
    if mode == "off":
        return frozenset()
    if mode == "assume":
        return frozenset(_TYPES)
    try:
        there = await _listed(client)
    except RPCError:
        return frozenset()  # a client without the permission sets none
    names = {name for name, kind in there.items() if kind == _TYPES[name]}
    if not {STATUS.name, AGENT.name, WAITING_SINCE.name} <= names:
        names.discard(STATUS.name)  # the workflow sets all three or none
    return frozenset(names - PERSONAL if mode == "impersonal" else names)


async def _listed(client: Client) -> dict[str, IndexedValueType.ValueType]:
    """Return our search attributes in the namespace, with their types."""
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace), timeout=_TIMEOUT
    )
    return {name: kind for name, kind in answer.custom_attributes.items() if name in _TYPES}


def _refused(client: Client, why: str, *, personal: bool) -> SearchAttributesError:
    commands = " && ".join(  # one command each: the CLI uses only the first --name
        f"temporal operator search-attribute create --namespace {client.namespace} "
        f"--name {key.name} --type {key.indexed_value_type.name.capitalize()}"
        for key in MARKS
        if personal or key.name not in PERSONAL
    )
    return SearchAttributesError(
        f"The search attributes of namespace {client.namespace!r} were not registered: {why}. "
        f"An administrator can run: {commands}. Invocations run without them, too."
    )
