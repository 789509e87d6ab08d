"""Refusals: payloads that replace undeliverable ones."""

from typing import Any, NoReturn

from temporalio.api.common.v1 import Payload
from temporalio.converter import EncodingPayloadConverter

from durable_adk.errors import PayloadLostError

ENCODING = "durable-adk/refused"


def refusal(reason: str) -> Payload:
    """Return a payload that contains the reason for a refusal.

    A driver that raised would fail the workflow task for ever: one forged signal would block an
    invocation. A refusal is read like any other payload, and fails the code that uses it.
    """
    return Payload(metadata={"encoding": ENCODING.encode()}, data=reason.encode())


class Refused:
    """A value whose payload was refused: reading any attribute raises PayloadLostError."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise PayloadLostError(self.__dict__["_reason"])


class RefusalConverter(EncodingPayloadConverter):
    """Reads the payloads of `refusal`."""

    @property
    def encoding(self) -> str:
        """See base class."""
        return ENCODING

    def to_payload(self, value: Any) -> Payload | None:
        """See base class; never used for writing."""
        del value
        return None

    def from_payload(self, payload: Payload, type_hint: type[Any] | None = None) -> Any:
        """Return a `Refused` instead of a value of a known class, whose reader handles errors.

        Raises:
            PayloadLostError: No class is expected, so the value might never be examined.
        """
        reason = payload.data.decode()
        if type_hint is None:
            raise PayloadLostError(reason)
        return Refused(reason)
