"""Announces pauses and ends of invocations: starts the workflows that deliver their webhooks.

Push notifications, which clients of A2A ask for, are webhooks to receivers of one invocation.

The step that has stored a pause or an end does so before it reports that it is done. If its worker
dies in between, the step is repeated, finds what it has stored, and starts the same workflows:
their ids say what they are about. So nothing is lost or doubled, and the invocation neither waits
for a delivery nor has anything of it in its history.
"""

import time

from durable_adk.activities.dependencies import Dependencies, start_nothing
from durable_adk.sessions.records import PUSH, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.settings import WebhookEndpoint, WebhookType
from durable_adk.wire.webhook import DeliverStep, PushConfig

_TYPES: dict[Status, WebhookType] = {
    Status.PAUSED: "invocation.paused",
    Status.COMPLETED: "invocation.completed",
    Status.CANCELLED: "invocation.cancelled",
    Status.FAILED: "invocation.failed",
    Status.ABANDONED: "invocation.failed",
}


def type_of(status: Status) -> WebhookType | None:
    """Return the type of the webhook about a new status of an invocation; None: there is none."""
    return _TYPES.get(status)


def is_wanted(endpoint: WebhookEndpoint, app_name: str, status: Status) -> bool:
    """Return whether an endpoint wants to know that an invocation of an app has got a status."""
    return type_of(status) in endpoint.types and (
        endpoint.apps is None or app_name in endpoint.apps
    )


async def announce(
    deps: Dependencies,
    key: SessionKey,
    invocation_id: str,
    status: Status,
    *,
    revision: int | None = None,
) -> None:
    """Start the delivery of an invocation's webhooks; repeats start nothing.

    An agent that is used as a tool is a part of its caller's invocation, so nothing is sent for it.

    Raises:
        StoreUnavailableError: The session store does not answer; the caller is retried.
        TemporalUnavailableError: Temporal does not answer; the caller is retried.
    """
    if deps.start_delivery is start_nothing or key.is_child:
        return
    known = deps.webhooks.endpoints if deps.webhooks else ()
    endpoints = [one.id for one in known if is_wanted(one, key.app_name, status)]
    configs = await push_configs(deps.sessions, key, invocation_id)
    creation = await deps.sessions.read_creation(key) if endpoints or configs else None
    for endpoint in (*endpoints, *(one.endpoint for one in configs)):
        step = DeliverStep(
            app=key.app_name,
            user=key.user_id,
            session=key.session_id,
            invocation_id=invocation_id,
            status=status,
            revision=revision,
            endpoint=endpoint,
            timestamp=time.time(),
            created_epoch=creation.epoch if creation else 0,
        )
        await deps.start_delivery(step)


async def push_configs(
    sessions: SessionLog, key: SessionKey, invocation_id: str
) -> list[PushConfig]:
    """Return the push configurations (A2A) of an invocation."""
    notes = await sessions.read_notes(key, invocation_id=invocation_id, kind=PUSH)
    return [PushConfig.from_json(one.body) for one in notes]
