"""Delivers a webhook: makes the message from the store, signs it, sends it, once per attempt (S27).

Messages and headers are those of Standard Webhooks (https://www.standardwebhooks.com).
"""

import asyncio
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import durable_adk
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.webhook._library import AsyncClient, HTTPError, Webhook
from durable_adk.activities.webhook.announcement import is_wanted, type_of
from durable_adk.conversation.pending_calls import pending_calls
from durable_adk.conversation.pending_request import PendingRequest, pending_request
from durable_adk.errors import WebhookError, WebhookRefusedError
from durable_adk.extras import require
from durable_adk.json_values import canonical
from durable_adk.log import get_logger
from durable_adk.sessions.records import InvocationRecord
from durable_adk.settings import WebhookEndpoint
from durable_adk.wire.answer_token import LIFETIME, AnswerToken
from durable_adk.wire.webhook import Delivered, DeliverStep

TIMEOUT = 15.0
"""Seconds for a receiver to respond."""
MIN_RETRY_AFTER = 0.1
MAX_RETRY_AFTER = 86400.0
"""Seconds by which a receiver can put off the next attempt; Temporal takes 0 for no wish."""
_AGAIN = (408, 425, 429)
"""Status codes below 500 after which it is worth another attempt."""

logger = get_logger(__name__)


async def deliver_webhook(deps: Dependencies, step: DeliverStep) -> Delivered:
    """Send a webhook, unless there is nothing to say any more.

    Each attempt sends the same message: it says what was so when the invocation paused or ended.

    Raises:
        WebhookError: It was not delivered, and is to be sent again.
        WebhookRefusedError: The receiver does not want it.
    """
    endpoint = _endpoint(deps, step)
    record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is None:
        return Delivered()  # the session was deleted
    if step.status.closed and not record.status.closed:
        raise WebhookError("The invocation is about to end.")
    status = record.status if step.status.closed else step.status
    if not is_wanted(endpoint, step.app, status):
        return Delivered()
    data = await _data(deps, step, record)
    when = datetime.fromtimestamp(step.timestamp, UTC).isoformat().replace("+00:00", "Z")
    body = canonical({"type": type_of(status), "timestamp": when, "data": data})
    code = await _post(endpoint, step.message_id, body)
    logger.info("webhook.delivered", endpoint=endpoint.id, status_code=code)
    return Delivered(status=code)


def _endpoint(deps: Dependencies, step: DeliverStep) -> WebhookEndpoint:
    known = deps.webhooks.endpoints if deps.webhooks else ()
    for endpoint in known:
        if endpoint.id == step.endpoint:
            return endpoint
    raise WebhookError(
        f"This worker's DURABLE_ADK_WEBHOOKS has no endpoint {step.endpoint}; another worker's may."
    )


async def _data(deps: Dependencies, step: DeliverStep, record: InvocationRecord) -> dict[str, Any]:
    data: dict[str, Any] = {
        "appName": step.app,
        "userId": step.user,
        "sessionId": step.session,
        "invocationId": step.invocation_id,
        "status": str(record.status if step.status.closed else step.status),
    }
    if not step.status.closed:
        data["pending"] = await _pending(deps, step, record)
    elif record.error:
        data["error"] = {name: record.error.get(name) for name in ("type", "message")}
    return data


async def _pending(
    deps: Dependencies, step: DeliverStep, record: InvocationRecord
) -> list[dict[str, Any]]:
    """Return the calls that were pending at the pause, each with a URL that answers it if set."""
    first = record.start_seq - 1
    stored = await deps.sessions.read_events(step.key, after=first, upto=step.revision)
    calls = pending_calls(item.event for item in stored)
    found = [
        pending_request(step.key, call)
        for call in calls
        if call.invocation_id == step.invocation_id
    ]
    return [{**one.to_value(), **_answer_url(deps, step, one)} for one in found]


def _answer_url(deps: Dependencies, step: DeliverStep, call: PendingRequest) -> dict[str, str]:
    """Return the URL that answers a call; a credential is given to a server that knows its user."""
    webhooks = deps.webhooks
    if webhooks is None or webhooks.answer_url is None or webhooks.answer_key is None:
        return {}
    if call.kind == "credential":
        return {}
    token = AnswerToken(
        app=step.app,
        user=step.user,
        session=step.session,
        invocation_id=step.invocation_id,
        call_id=call.call_id,
        message_id=step.message_id,
        expires=step.timestamp + LIFETIME,
    )
    signed = token.signed(webhooks.answer_key.get_secret_value())
    return {"answerUrl": f"{webhooks.answer_url.rstrip('/')}/answers/{signed}"}


async def _post(endpoint: WebhookEndpoint, message_id: str, body: str) -> int:
    """Send a message and return the status code, which is one of success.

    The address is an operator's. Redirects are not followed: they could lead elsewhere.
    """
    require("webhooks")
    now = datetime.now(UTC)
    headers = {
        "content-type": "application/json",
        "user-agent": f"durable-adk/{durable_adk.__version__}",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(endpoint.secret.get_secret_value()).sign(
            message_id, now, body
        ),
    }
    url = endpoint.url.get_secret_value()
    try:
        async with (
            asyncio.timeout(TIMEOUT),
            AsyncClient(timeout=TIMEOUT, follow_redirects=False) as client,
            client.stream("POST", url, content=body.encode(), headers=headers) as response,
        ):
            code, after = response.status_code, response.headers.get("retry-after")
    except (HTTPError, TimeoutError) as error:
        # Its text may have the URL.
        raise WebhookError(f"No response: {type(error).__name__}.") from None
    return _checked(code, after)


def _checked(code: int, after: str | None) -> int:
    if 200 <= code < 300:  # noqa: PLR2004 - success
        return code
    if code >= 500 or code in _AGAIN:  # noqa: PLR2004 - errors of the receiver's
        raise WebhookError(f"The receiver responded with {code}.", retry_after=_seconds(after))
    raise WebhookRefusedError(f"The receiver responded with {code}, so it is not sent again.")


def _seconds(after: str | None) -> float | None:
    """Return the delay in a ``Retry-After`` header, which has seconds or a date."""
    try:
        delay = float(after or "")
    except ValueError:
        try:
            delay = parsedate_to_datetime(after or "").timestamp() - time.time()
        except ValueError:
            return None
    return min(max(delay, MIN_RETRY_AFTER), MAX_RETRY_AFTER) if delay == delay else None  # noqa: PLR0124 - NaN
