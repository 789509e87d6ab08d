"""Delivers a webhook: makes the message from the store, signs it, sends it, once per attempt (S27).

Messages and headers are those of Standard Webhooks (https://www.standardwebhooks.com). A push
notification for a client of A2A is a message of that protocol instead, to the client's receiver.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import durable_adk
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.webhook._library import (
    URL,
    AsyncClient,
    ConnectError,
    HTTPError,
    Webhook,
)
from durable_adk.activities.webhook.announcement import is_wanted, push_configs, type_of
from durable_adk.conversation.pending_calls import PendingCall, pending_calls
from durable_adk.conversation.pending_request import PendingRequest, pending_request
from durable_adk.conversation.task_status import task_status
from durable_adk.errors import InvalidRequestError, WebhookError, WebhookRefusedError
from durable_adk.extras import installed
from durable_adk.http.webhook_address import addresses_of
from durable_adk.json_values import canonical
from durable_adk.log import get_logger
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.settings import WebhookEndpoint
from durable_adk.wire.answer_token import LIFETIME, AnswerToken
from durable_adk.wire.webhook import PUSH_PREFIX, Delivered, DeliverStep, PushConfig

TIMEOUT = 15.0
"""Seconds for a receiver to respond."""
MIN_RETRY_AFTER = 0.1
MAX_RETRY_AFTER = 86400.0
"""Maximum seconds by which a receiver can delay the next attempt. Temporal would ignore a delay of
0."""
_AGAIN = (408, 425, 429)
"""Status codes below 500 that are worth a retry."""

logger = get_logger(__name__)


async def deliver_webhook(deps: Dependencies, step: DeliverStep) -> Delivered:
    """Send a webhook, unless it is obsolete.

    Each attempt sends the same message: the state when the invocation paused or ended.

    Raises:
        WebhookError: It was not delivered, and is to be retried.
        WebhookRefusedError: The receiver rejects it.
    """
    if not installed("webhooks"):
        raise WebhookError(
            'This worker needs pip install "durable-adk[webhooks]"; another worker may have it.'
        )
    record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is None:
        return Delivered()  # the session was deleted
    if step.status.closed and not record.status.closed:
        raise WebhookError("The invocation is about to end.")
    status = record.status if step.status.closed else step.status
    is_push = step.endpoint.startswith(PUSH_PREFIX)
    try:
        made = await (_push_message if is_push else _webhook)(deps, step, record, status)
        if made is None:
            return Delivered()
        code = await _post(made, step.message_id)
    except (WebhookError, WebhookRefusedError) as error:
        is_last = isinstance(error, WebhookRefusedError)
        logger.warning(
            "webhook.failed", endpoint=step.endpoint, reason=error.message, final=is_last
        )
        raise
    logger.info("webhook.delivered", endpoint=step.endpoint, status_code=code)
    return Delivered(status=code)


@dataclass(frozen=True)
class _Message:
    url: str
    headers: dict[str, str]
    body: str
    addresses: Sequence[str] = ()
    """Where to connect, instead of where the URL's host resolves to at that moment."""


async def _webhook(
    deps: Dependencies, step: DeliverStep, record: InvocationRecord, status: Status
) -> _Message | None:
    """Return the message to an operator's endpoint; None if it no longer subscribes to it."""
    endpoint = _endpoint(deps, step)
    if not is_wanted(endpoint, step.app, status):
        return None
    data = await _data(deps, step, record)
    when = datetime.fromtimestamp(step.timestamp, UTC).isoformat().replace("+00:00", "Z")
    body = canonical({"type": type_of(status), "timestamp": when, "data": data})
    now = datetime.now(UTC)
    secret = endpoint.secret.get_secret_value()
    headers = {
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(step.message_id, now, body),
    }
    return _Message(endpoint.url.get_secret_value(), headers, body)


async def _push_message(
    deps: Dependencies, step: DeliverStep, record: InvocationRecord, status: Status
) -> _Message | None:
    """Return the message to the receiver of an A2A client; None if the receiver was deleted.

    Raises:
        WebhookError: Its host was not resolved.
        WebhookRefusedError: No message may be sent to its address.
    """
    configs = await push_configs(deps.sessions, step.key, step.invocation_id)
    config = next((one for one in configs if one.endpoint == step.endpoint), None)
    if config is None:
        return None
    addresses = await _addresses(deps, config)
    found = task_status(
        step.key,
        step.invocation_id,
        status,
        pending=[] if status.closed else await _pending(deps, step, record),
        error=(record.error or {}).get("message") if status.closed else None,
        time=step.timestamp,
    )
    update = {"taskId": step.invocation_id, "contextId": step.session, "status": found}
    return _Message(config.url, config.headers, canonical({"statusUpdate": update}), addresses)


async def _addresses(deps: Dependencies, config: PushConfig) -> Sequence[str]:
    try:
        return await addresses_of(config.url, deps.webhooks.push_hosts if deps.webhooks else ())
    except InvalidRequestError as error:
        raise WebhookRefusedError(error.message) from None
    except OSError:
        raise WebhookError("The receiver's host was not found.") from None


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
        pending = [pending_request(step.key, one) for one in await _pending(deps, step, record)]
        data["pending"] = [{**one.to_value(), **_answer_url(deps, step, one)} for one in pending]
    elif record.error:
        data["error"] = {name: record.error.get(name) for name in ("type", "message")}
    return data


async def _pending(
    deps: Dependencies, step: DeliverStep, record: InvocationRecord
) -> list[PendingCall]:
    """Return the calls that were pending at the pause."""
    first = record.start_seq - 1
    stored = await deps.sessions.read_events(step.key, after=first, upto=step.revision)
    calls = pending_calls(item.event for item in stored)
    return [call for call in calls if call.invocation_id == step.invocation_id]


def _answer_url(deps: Dependencies, step: DeliverStep, call: PendingRequest) -> dict[str, str]:
    """Return the URL that answers a call; only servers that know the user accept credentials."""
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


async def _post(message: _Message, message_id: str) -> int:
    """Send a message and return the status code, which is a success code.

    Redirects are not followed: they could lead elsewhere.
    """
    headers = {
        **message.headers,
        "content-type": "application/json",
        "user-agent": f"durable-adk/{durable_adk.__version__}",
        "webhook-id": message_id,
    }
    url = URL(message.url)
    sending = _sending.set(True)
    try:
        async with (
            asyncio.timeout(TIMEOUT),
            AsyncClient(timeout=TIMEOUT, follow_redirects=False) as client,
        ):
            code, after = await _sent(client, url, message, headers)
    except (HTTPError, TimeoutError) as error:
        # Its text may contain the URL.
        raise WebhookError(f"No response: {type(error).__name__}.") from None
    finally:
        _sending.reset(sending)
    return _checked(code, after)


async def _sent(
    client: AsyncClient, url: URL, message: _Message, headers: dict[str, str]
) -> tuple[int, str | None]:
    """Send a message to the first address that accepts it; return status and ``Retry-After``."""
    extensions = dict[str, Any]()
    targets = [url]
    if message.addresses:  # the certificate must match the host name
        headers = {**headers, "host": url.netloc.decode("ascii")}
        extensions["sni_hostname"] = url.raw_host.decode("ascii")
        targets = [url.copy_with(host=one) for one in message.addresses]
    for target in targets:
        try:
            async with client.stream(
                "POST",
                target,
                content=message.body.encode(),
                headers=headers,
                extensions=extensions,
            ) as response:
                return response.status_code, response.headers.get("retry-after")
        except ConnectError:
            if target is targets[-1]:
                raise
    raise AssertionError  # there is a target


_sending = ContextVar("_sending", default=False)


def _is_no_request_of_ours(_: logging.LogRecord) -> bool:
    return not _sending.get()


# httpx logs the URL of each request, which may have a token.
logging.getLogger("httpx").addFilter(_is_no_request_of_ours)


def _checked(code: int, after: str | None) -> int:
    if 200 <= code < 300:  # noqa: PLR2004 - success
        return code
    if code >= 500 or code in _AGAIN:  # noqa: PLR2004 - errors of the receiver
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
