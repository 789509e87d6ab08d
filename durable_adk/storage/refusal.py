"""What stands for a payload that cannot be given."""

from typing import Any, NoReturn

from temporalio.api.common.v1 import Payload
from temporalio.converter import EncodingPayloadConverter

from durable_adk.errors import PayloadLostError

ENCODING = "durable-adk/refused"


def refusal(reason: str) -> Payload:
    """A payload that says why there is none.

    A driver that raised would fail the workflow task, for ever: one forged signal would wedge an
    invocation. This is read like any other payload, and it ends what uses it.
    """
    return Payload(metadata={"encoding": ENCODING.encode()}, data=reason.encode())


class Refused:
    """A value that did not arrive: whoever reads anything of it gets a PayloadLostError."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise PayloadLostError(self.__dict__["_reason"])


class RefusalConverter(EncodingPayloadConverter):
    """Reads what `confirmation_refusal` has made."""

    @property
    def encoding(self) -> str:
        """See base class."""
        return ENCODING

    def to_payload(self, value: Any) -> Payload | None:
        """See base class; nothing is written so."""
        del value
        return None

    def from_payload(self, payload: Payload, type_hint: type[Any] | None = None) -> Any:
        """A `Refused` in place of a value whose class is known: its reader has an error path.

        Raises:
            PayloadLostError: No class is expected, so the value would be taken as it is.
        """
        reason = payload.data.decode()
        if type_hint is None:
            raise PayloadLostError(reason)
        return Refused(reason)
