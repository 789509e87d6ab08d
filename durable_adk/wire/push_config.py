"""Who is told of an invocation by push notifications of A2A, as it is stored with the session."""

import hashlib

from pydantic import Field

from durable_adk.json_values import JsonModel

PUSH_PREFIX = "push-"
"""Start of the ids that such receivers have in a `DeliverStep`."""


class PushConfig(JsonModel):
    """A receiver of one invocation's push notifications. It is in the session store only."""

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
        """The headers that prove to the receiver who sends."""
        headers = {"x-a2a-notification-token": self.token} if self.token else {}
        if self.scheme:
            headers["authorization"] = f"{self.scheme} {self.credentials}"
        return headers
