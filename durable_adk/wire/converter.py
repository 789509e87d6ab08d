"""How values are written into Temporal's history."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
    PayloadConverter,
)
from temporalio.exceptions import ApplicationError, FailureError

from durable_adk.encryption import EncryptionCodec
from durable_adk.encryption.codec import UndecryptedConverter
from durable_adk.errors import MAX_MESSAGE, TransientError, storable, text_of
from durable_adk.json_model import JsonModel
from durable_adk.storage.payload_driver import storage_at
from durable_adk.storage.refusal import RefusalConverter

MAX_TRACE = 8_000
"""Bytes of a stack trace that cross to Temporal."""
MAX_CAUSES = 5
"""Exceptions of a chain that cross to Temporal."""
MAX_WAITING = 4096
"""Bytes of a failure that the server keeps while the activity waits for its next attempt: of a
larger one it shows only that it was larger (`limit.mutableStateActivityFailureSize.error`)."""


class WireJsonConverter(PydanticJSONPlainPayloadConverter):
    """Writes `JsonModel` values as ADK's JSON, anything else as the SDK's pydantic converter does.

    Without nulls an event takes about a third of the bytes; reading ignores unknown fields, so that
    workers of two versions can share a task queue.
    """

    def to_payload(self, value: Any) -> Payload | None:
        """See base class."""
        if not isinstance(value, JsonModel):
            return super().to_payload(value)
        return Payload(metadata={"encoding": b"json/plain"}, data=value.to_json().encode())

    def from_payload(self, payload: Payload, type_hint: type[Any] | None = None) -> Any:
        """See base class."""
        if isinstance(type_hint, type) and issubclass(type_hint, JsonModel):
            return type_hint.from_json(payload.data)
        return super().from_payload(payload, type_hint)


_JSON = WireJsonConverter()
_CONVERTERS = tuple(
    _JSON if isinstance(converter, JSONPlainPayloadConverter) else converter
    for converter in DefaultPayloadConverter.default_encoding_payload_converters
)


class WirePayloadConverter(CompositePayloadConverter):
    """The SDK's converters with `WireJsonConverter` in the place of JSON.

    The SDK makes a new one for every command; sharing the parts keeps their caches.
    """

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS, RefusalConverter(), UndecryptedConverter())


class ShortFailureConverter(DefaultFailureConverter):
    """Failures that reach the server whatever user code has put into its exceptions (D6).

    A failure that is too large is dropped on its way, one with half a character cannot be written:
    either way the activity would run again, however final its error is (reliability 1c). The cause
    is user code's own exception, and its text may be anything.
    """

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """See base class; texts are cut, and so is the chain of causes."""
        final = not isinstance(exception, ApplicationError) or exception.non_retryable
        error = _shortened(exception, _FINAL if final else _WAITING)
        super().to_failure(error, payload_converter, failure)
        failure.stack_trace = storable(failure.stack_trace[-MAX_TRACE:])

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """See base class; details that cannot be read are left out.

        An activity of others may fail with details that only its own converter reads. Raising
        here would fail the workflow's task, for ever. A key that is missing does: it may come.
        """
        try:
            return super().from_failure(failure, payload_converter)
        except TransientError:
            raise
        except Exception:  # noqa: BLE001 - a converter may raise anything
            return super().from_failure(_without_details(failure), payload_converter)


def _without_details(failure: Failure) -> Failure:
    """A copy; causes are read on their own."""
    bare = Failure()
    bare.CopyFrom(failure)
    match bare.WhichOneof("failure_info"):
        case "application_failure_info":
            bare.application_failure_info.ClearField("details")
        case "canceled_failure_info":
            bare.canceled_failure_info.ClearField("details")
        case "timeout_failure_info":
            bare.timeout_failure_info.ClearField("last_heartbeat_details")
        case _:
            pass
    return bare


@dataclass(frozen=True)
class _Room:
    """What of an exception and of its causes crosses to Temporal."""

    causes: int = MAX_CAUSES
    text: int = MAX_MESSAGE
    frames: int | None = None


_FINAL: Final = _Room()
_WAITING: Final = _Room(causes=2, text=300, frames=2)
"""With what `activities.attempt` leaves of the error itself, together below `MAX_WAITING`: so
whoever looks at a run sees what it waits for."""


def _shortened(error: BaseException, room: _Room) -> FailureError:
    """The error, or what stands for one of user code, with as many causes as there is room for."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if not isinstance(error, FailureError):
        text = storable(text_of(error), room.text)
        stand_in = ApplicationError(text, type=type(error).__name__)
        error = stand_in.with_traceback(error.__traceback__)
    if room.frames:
        error.__traceback__ = _innermost(error.__traceback__, room.frames)
    if cause is not None:
        more = replace(room, causes=room.causes - 1)
        error.__cause__ = _shortened(cause, more) if room.causes else None
    return error


def _innermost(trace: TracebackType | None, frames: int) -> TracebackType | None:
    """The last frames of a stack trace."""
    last = trace
    for _ in range(frames):
        if last is None:
            return trace
        last = last.tb_next
    while last is not None and trace is not None:
        trace, last = trace.tb_next, last.tb_next
    return trace


class PrivateFailureConverter(ShortFailureConverter):
    """The same, with messages and stack traces as payloads, which a codec or a storage takes."""

    def __init__(self) -> None:
        super().__init__(encode_common_attributes=True)


data_converter = replace(
    pydantic_data_converter,
    payload_converter_class=WirePayloadConverter,
    failure_converter_class=ShortFailureConverter,
)
"""Plain JSON, readable by every Temporal client."""


def stored_in(location: Path | str, *, threshold: int) -> DataConverter:
    """Our converter, with large payloads kept outside of Temporal (design D16); blocks.

    Args:
        location: A folder, or the uri of an object store; the same one for all clients and workers
            of the namespace.
        threshold: Bytes from which on a payload is kept there; 0: all that say anything, so that no
            word of a conversation is in Temporal.

    Raises:
        InvalidRequestError: The uri cannot be used, or the extra ``objects`` is not installed.
        StoreUnavailableError: The object store does not answer.
    """
    failures = ShortFailureConverter if threshold else PrivateFailureConverter
    return replace(
        data_converter,
        external_storage=storage_at(location, threshold=threshold),
        failure_converter_class=failures,
    )


def encrypted(converter: DataConverter, codec: EncryptionCodec) -> DataConverter:
    """One of our converters, with all that it writes encrypted, failures too (design D16).

    With external storage what is kept there is encrypted: the codec comes before the storage.
    """
    return replace(converter, payload_codec=codec, failure_converter_class=PrivateFailureConverter)


def with_our_payloads(converter: DataConverter) -> DataConverter:
    """A client's converter with our payload and failure converters in the place of the defaults.

    What the client brings of its own stays, and so do its codec and its storage. With our codec
    messages and stack traces of failures are payloads too.
    """
    private = isinstance(converter.payload_codec, EncryptionCodec)
    changes: dict[str, Any] = {}
    if converter.payload_converter_class in (
        DefaultPayloadConverter,
        pydantic_data_converter.payload_converter_class,
    ):
        changes["payload_converter_class"] = WirePayloadConverter
    if converter.failure_converter_class in (DefaultFailureConverter, ShortFailureConverter):
        ours = PrivateFailureConverter if private else ShortFailureConverter
        changes["failure_converter_class"] = ours
    return replace(converter, **changes)
