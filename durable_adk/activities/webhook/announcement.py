"""Announces pauses and ends of invocations: starts the workflows that deliver their webhooks.

Push notifications, which clients of A2A request, are webhooks to receivers of one invocation.

The step that stores a pause or an end starts these workflows before it reports its result. If its
worker dies in between, the step is repeated, finds what it stored, and starts the same workflows:
their ids are derived from their subject. So nothing is lost or doubled, the invocation does not
wait for a delivery, and its history has no trace of one.
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
    """Return the type of the webhook for an invocation's new status; None: there is none."""
    return _TYPES.get(status)


def is_wanted(endpoint: WebhookEndpoint, app_name: str, status: Status) -> bool:
    """Return whether an endpoint subscribes to a status of an app's invocations."""
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

    An agent used as a tool is part of its caller's invocation, so nothing is sent for it.

    Raises:
        StoreUnavailableError: The session store does not respond; the caller is retried.
        TemporalUnavailableError: Temporal does not respond; the caller is retried.
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
