"""The headers of requests that start an invocation."""

import uuid
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header

from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import check_id
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import WhenBusy

_KEY_HEADER = "Idempotency-Key"
_KEYS = uuid.UUID("6f0d1a52-54a5-4f0c-9d61-0d5a0a4b8f52")
WhenBusyHeader = Annotated[
    WhenBusy | None,
    Header(
        alias="When-Busy",
        description="What to do while another invocation is active in the session; as the field "
        "`whenBusy` where the body has one.",
    ),
]
"""Parameter type: the header When-Busy alone."""


@dataclass(frozen=True, kw_only=True)
class StartHeaders:
    """The headers of requests that start an invocation; the same for all routes."""

    when_busy: WhenBusy | None = None
    idempotency_key: str | None = None

    def busy(self, field: WhenBusy | None = None) -> WhenBusy:
        """Return what to do while another invocation is active.

        Args:
            field: The value in the body.

        Raises:
            InvalidRequestError: Header and body differ.
        """
        if self.when_busy and field and self.when_busy is not field:
            raise InvalidRequestError(
                f"The header When-Busy is {self.when_busy.value!r}, and the field whenBusy is "
                f"{field.value!r}; send one of them."
            )
        return self.when_busy or field or WhenBusy.ENQUEUE

    def invocation_id(self, key: SessionKey, field: str | None = None) -> str | None:
        """Return the id of the invocation to start, the same for the same Idempotency-Key.

        Args:
            key: The session.
            field: The id in the body.

        Raises:
            InvalidRequestError: An id is invalid, or the key's id differs from the body's.
        """
        body_id = check_id(field, "invocation_id") if field else None
        if self.idempotency_key is None:
            return body_id
        name = f"e-{uuid.uuid5(_KEYS, repr((*key, check_id(self.idempotency_key, _KEY_HEADER))))}"
        if body_id not in (None, name):
            raise InvalidRequestError(
                f"The header Idempotency-Key names invocation {name!r}, and the field "
                f"invocationId names {body_id!r}; send one of them."
            )
        return name


async def _start_headers(
    when_busy: WhenBusyHeader = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            alias=_KEY_HEADER,
            description="A request with the same key in the same session starts nothing again, and "
            "follows the first one. Another message with the same key is refused.",
        ),
    ] = None,
) -> StartHeaders:
    return StartHeaders(when_busy=when_busy, idempotency_key=idempotency_key)


Starting = Annotated[StartHeaders, Depends(_start_headers)]
"""Parameter type: the headers of a start."""
