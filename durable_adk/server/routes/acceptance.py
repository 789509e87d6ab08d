"""Waits a short time for an invocation to accept a message."""

import asyncio
from contextlib import suppress

from temporalio.service import RPCError

from durable_adk.client.answers import JudgedAnswer
from durable_adk.client.invocation_client import Feed, InvocationClient
from durable_adk.client.invocations import started_with
from durable_adk.errors import NoWorkerError, TemporalUnavailableError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.server.feed import entries_of, kept
from durable_adk.server.routes.invocation_lookup import recipient
from durable_adk.server.routes.records import InvocationSummary, queued, summarized
from durable_adk.server.services import ServerServices
from durable_adk.server.streams import Reading
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import InvocationRequest, workflow_id

_STARTED = 2.0
"""Seconds for a started invocation to open; then the response reports that it waits."""
_ACCEPTED = 10.0
"""Seconds for a worker to accept an answer."""
_CHECKED = 1.0
"""Seconds for Temporal to return a waiting message; the response's head waits for it."""


async def accepted(client: InvocationClient, judged: JudgedAnswer) -> None:
    """Send an answer to the invocation that waits, and return once a worker has accepted it.

    Raises:
        CallerError: The answer was refused.
        TemporalUnavailableError: No worker has accepted it in time.
    """
    try:
        async with asyncio.timeout(_ACCEPTED):
            await client.deliver(judged)
    except NoWorkerError as error:
        raise kept(error) from error
    except TimeoutError as error:
        raise TemporalUnavailableError(
            f"No worker has accepted the answer within {_ACCEPTED:g} s. It may still arrive; "
            "sending the same answer again does no harm."
        ) from error


async def begun(key: SessionKey, feed: Feed) -> bool:
    """Return whether an invocation has a message, after waiting a short time; read no further.

    Raises:
        CallerError: The message was refused.
    """
    reading = Reading(entries_of(key, feed))
    try:
        return await reading.first(_STARTED)
    finally:
        reading.close()


async def started(services: ServerServices, key: SessionKey, name: str) -> InvocationSummary:
    """Return an invocation, or the message that waits for it.

    Raises:
        TemporalUnavailableError: Temporal does not have the message.
    """
    record = await services.session_service.get_invocation(key, name)
    record = record or await recipient(services, key, name)
    if record is not None:
        return await summarized(services.session_service, key, record)
    await _require_taken(services, key, name)
    return queued(InvocationSummary, key, name)


async def taken(services: ServerServices, key: SessionKey, name: str, feed: Feed) -> None:
    """Wait until an invocation has a message, or check that Temporal has it.

    Raises:
        CallerError: The message was refused.
        TemporalUnavailableError: Temporal does not have it.
    """
    if not await begun(key, feed):
        await _require_taken(services, key, name)


async def check_waiting(
    services: ServerServices, client: InvocationClient, key: SessionKey, request: InvocationRequest
) -> None:
    """Check that a waiting message equals the request's.

    If Temporal does not respond in time, the feed compares them when the message is stored.

    Raises:
        EventConflictError: An earlier request with this id had another message.
    """
    name = request.invocation_id or ""
    first: InvocationRequest | None = None
    with suppress(TimeoutError):
        async with asyncio.timeout(_CHECKED):
            first = await started_with(services.client, workflow_id(key, name))
    if first is not None:
        event = Event(
            invocation_id=name,
            content=first.user_content(),
            custom_metadata=first.run_config.custom_metadata,
            actions=EventActions(state_delta=first.state_delta),
        )
        client.check_same(event, name, request)


async def _require_taken(services: ServerServices, key: SessionKey, name: str) -> None:
    """Check that Temporal has a message, which will then be delivered.

    Raises:
        TemporalUnavailableError: Temporal does not have it.
    """
    try:
        await services.client.get_workflow_handle(workflow_id(key, name)).describe()
    except RPCError as error:
        raise TemporalUnavailableError(
            "Temporal has not taken the message in time. Send it again; with the same "
            "Idempotency-Key it starts at most one invocation."
        ) from error
