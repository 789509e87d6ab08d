"""Webhooks in transit: their receivers in the store, and workflow type ``DeliverWebhook``."""

import hashlib

from pydantic import Field

from durable_adk.json_values import JsonModel, canonical
from durable_adk.sessions.records import Status
from durable_adk.sessions.session import NamesSession
from durable_adk.wire.effect import Effect

DELIVER_WEBHOOK = "DeliverWebhook"
"""The type name of the workflow."""
PUSH_PREFIX = "push-"
"""Prefix of the ids of push notification receivers in a `DeliverStep`."""


class Delivered(JsonModel):
    """The outcome of a webhook."""

    status: int | None = None
    """The receiver's status code; None: the webhook was obsolete."""


class DeliverStep(NamesSession, Effect[Delivered]):
    """One webhook to one endpoint. It names the invocation; the message is built from the store."""

    invocation_id: str
    status: Status
    """The invocation's new status."""
    revision: int | None = None
    """For a pause, the sequence number of the last event before it."""
    endpoint: str
    """Id of the endpoint; its URL and secret are in the workers' settings only."""
    timestamp: float
    """When the status changed, in seconds since the epoch."""
    created_epoch: int = 0
    """Distinguishes the session from deleted ones of its name; see `Creation`."""

    @property
    def message_id(self) -> str:
        """The webhook's id, the same for repeated starts and for all endpoints.

        An invocation ends once, and pauses once with the same last event.
        """
        what = ["ended"] if self.status.closed else [self.status.value, self.revision]
        what += [self.created_epoch] if self.created_epoch else []
        named = canonical([self.app, self.user, self.session, self.invocation_id, *what])
        return f"msg_{hashlib.sha256(named.encode()).hexdigest()[:32]}"

    @property
    def workflow_id(self) -> str:
        """Id of the workflow that delivers it."""
        return f"webhook/{self.message_id}/{self.endpoint}"


class PushConfig(JsonModel):
    """A receiver of A2A push notifications for one invocation; only in the session store."""

    id: str
    url: str = Field(repr=False)
    token: str | None = Field(default=None, repr=False)
    """Token by which the receiver recognizes the notifications."""
    scheme: str | None = None
    """Scheme of HTTP authentication, such as ``Bearer``; None: no authentication."""
    credentials: str | None = Field(default=None, repr=False)

    @property
    def endpoint(self) -> str:
        """Its id in a `DeliverStep`, which does not reveal it."""
        return f"{PUSH_PREFIX}{hashlib.sha256(self.id.encode()).hexdigest()[:16]}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that authenticate the sender to the receiver."""
        headers = {"x-a2a-notification-token": self.token} if self.token else {}
        if self.scheme:
            headers["authorization"] = f"{self.scheme} {self.credentials}"
        return headers
