"""Webhooks on their way: the receivers in the store, and workflow type ``DeliverWebhook``."""

import hashlib

from pydantic import Field

from durable_adk.json_values import JsonModel, canonical
from durable_adk.sessions.records import Status
from durable_adk.sessions.session import NamesSession
from durable_adk.wire.effect import Effect

DELIVER_WEBHOOK = "DeliverWebhook"
"""The type name of the workflow."""
PUSH_PREFIX = "push-"
"""Start of the ids that receivers of push notifications have in a `DeliverStep`."""


class Delivered(JsonModel):
    """What came of a webhook."""

    status: int | None = None
    """The receiver's status code; None: there was nothing to say any more."""


class DeliverStep(NamesSession, Effect[Delivered]):
    """One webhook to one endpoint. It names the invocation; the message is made from the store."""

    invocation_id: str
    status: Status
    """What the invocation has become."""
    revision: int | None = None
    """Of a pause: the sequence number of the last event before it."""
    endpoint: str
    """Id of the endpoint; its URL and secret are in the workers' settings only."""
    timestamp: float
    """When it happened, in seconds since the epoch."""
    created_epoch: int = 0
    """Distinguishes the session from deleted ones of its name; see `Creation`."""

    @property
    def message_id(self) -> str:
        """The webhook's id: the same however often it is started, and at each endpoint.

        An invocation ends once, and pauses once with the same last event.
        """
        what = ["ended"] if self.status.closed else [self.status.value, self.revision]
        what += [self.created_epoch] if self.created_epoch else []
        named = canonical([self.app, self.user, self.session, self.invocation_id, *what])
        return f"msg_{hashlib.sha256(named.encode()).hexdigest()[:32]}"

    @property
    def workflow_id(self) -> str:
        """The id of the workflow that delivers it."""
        return f"webhook/{self.message_id}/{self.endpoint}"


class PushConfig(JsonModel):
    """A receiver of A2A's push notifications of one invocation; in the session store only."""

    id: str
    url: str = Field(repr=False)
    token: str | None = Field(default=None, repr=False)
    """What the receiver recognizes the notifications by."""
    scheme: str | None = None
    """Scheme of HTTP authentication, such as ``Bearer``; None: without it."""
    credentials: str | None = Field(default=None, repr=False)

    @property
    def endpoint(self) -> str:
        """Its id in a `DeliverStep`, which says nothing of it."""
        return f"{PUSH_PREFIX}{hashlib.sha256(self.id.encode()).hexdigest()[:16]}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that prove the sender to the receiver."""
        headers = {"x-a2a-notification-token": self.token} if self.token else {}
        if self.scheme:
            headers["authorization"] = f"{self.scheme} {self.credentials}"
        return headers
