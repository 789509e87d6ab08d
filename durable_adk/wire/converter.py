"""Converters for the values in Temporal's history."""

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
from durable_adk.errors import TransientError, storable, text_of
from durable_adk.errors.user_error import MAX_MESSAGE, kept
from durable_adk.json_values import JsonModel
from durable_adk.storage.payload_driver import storage_at
from durable_adk.storage.refusal import RefusalConverter

MAX_TRACE = 8_000
"""Maximum size of a stack trace that is sent to Temporal, in bytes."""
MAX_CAUSES = 5
"""Maximum number of chained exceptions that are sent to Temporal."""
MAX_WAITING = 4096
"""Maximum size, in bytes, of a failure that the server keeps while an activity waits for its next
attempt; of a larger one it only shows that it was larger
(`limit.mutableStateActivityFailureSize.error`)."""


class WireJsonConverter(PydanticJSONPlainPayloadConverter):
    """Writes `JsonModel` values as ADK's JSON, and other values like the SDK's pydantic converter.

    Without nulls an event takes about a third of the bytes. Reading ignores unknown fields, so that
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
    """The SDK's converters with `WireJsonConverter` instead of its JSON converter.

    The SDK creates a new instance for every command; sharing the parts keeps their caches.
    """

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS, RefusalConverter(), UndecryptedConverter())


class ShortFailureConverter(DefaultFailureConverter):
    """Shortens failures so that the server accepts them whatever user exceptions contain (D6).

    A failure that is too large is dropped in transit, and one with an unpaired surrogate cannot be
    written: in both cases the activity would be retried, even if its error is final. The cause is
    user code's own exception, and its text may be anything.
    """

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """See base class; texts and the chain of causes are truncated."""
        final = not isinstance(exception, ApplicationError) or exception.non_retryable
        error = shortened(exception, _FINAL if final else _WAITING)
        super().to_failure(error, payload_converter, failure)
        failure.stack_trace = storable(failure.stack_trace[-MAX_TRACE:])

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """See base class; unreadable details are omitted.

        A third-party activity may fail with details that only its own converter can read. Raising
        here would fail the workflow task forever. A missing key does raise: it may become
        available.
        """
        try:
            return super().from_failure(failure, payload_converter)
        except TransientError:
            raise
        except Exception:  # noqa: BLE001 - a converter may raise anything
            return super().from_failure(_without_details(failure), payload_converter)


def _without_details(failure: Failure) -> Failure:
    """Return a copy without details; causes are converted separately."""
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
    """Limits on the part of an exception and its causes that is sent to Temporal."""

    causes: int = MAX_CAUSES
    text: int = MAX_MESSAGE
    frames: int | None = None


_FINAL: Final = _Room()
_WAITING: Final = _Room(causes=2, text=300, frames=2)
"""With the shortened error of `activities.attempt` this stays below `MAX_WAITING`, so that the
server shows why a run is waiting."""


def shortened(error: BaseException, room: _Room = _FINAL) -> FailureError:
    """Return the error, or a substitute for a user exception, with its causes up to the limit.

    The substitutes run no user code. The SDK logs and converts them in its own loop, which user
    code could end.
    """
    context = None if kept(error, "__suppress_context__") else kept(error, "__context__")
    cause = kept(error, "__cause__") or context
    if not isinstance(error, FailureError):
        text = storable(text_of(error), room.text)
        stand_in = ApplicationError(text, type=type(error).__name__)
        error = stand_in.with_traceback(kept(error, "__traceback__"))
    if room.frames:
        error.__traceback__ = _innermost(error.__traceback__, room.frames)
    if cause is not None:
        more = replace(room, causes=room.causes - 1)
        error.__cause__ = shortened(cause, more) if room.causes else None
    return error


def _innermost(trace: TracebackType | None, frames: int) -> TracebackType | None:
    """Return the last frames of a stack trace."""
    last = trace
    for _ in range(frames):
        if last is None:
            return trace
        last = last.tb_next
    while last is not None and trace is not None:
        trace, last = trace.tb_next, last.tb_next
    return trace


class PrivateFailureConverter(ShortFailureConverter):
    """Also sends messages and stack traces as payloads, for a codec or external storage."""

    def __init__(self) -> None:
        super().__init__(encode_common_attributes=True)


data_converter = replace(
    pydantic_data_converter,
    payload_converter_class=WirePayloadConverter,
    failure_converter_class=ShortFailureConverter,
)
"""Plain JSON, readable by every Temporal client."""


def stored_in(location: Path | str, *, threshold: int) -> DataConverter:
    """Return our converter with large payloads stored outside Temporal (D16); blocks.

    Args:
        location: A folder or the URI of an object store; the same one for all clients and workers
            of the namespace.
        threshold: Minimum size, in bytes, of a payload that is stored there; 0: all payloads with
            content, so that Temporal holds no text of a conversation.

    Raises:
        InvalidRequestError: The URI cannot be used, or the extra ``objects`` is not installed.
        StoreUnavailableError: The object store does not respond.
    """
    failures = ShortFailureConverter if threshold else PrivateFailureConverter
    return replace(
        data_converter,
        external_storage=storage_at(location, threshold=threshold),
        failure_converter_class=failures,
    )


def encrypted(converter: DataConverter, codec: EncryptionCodec) -> DataConverter:
    """Return one of our converters with encryption of all payloads and failures (D16).

    Externally stored payloads are encrypted too: the codec runs before the storage.
    """
    return replace(converter, payload_codec=codec, failure_converter_class=PrivateFailureConverter)


def with_our_payloads(converter: DataConverter) -> DataConverter:
    """Replace the default payload and failure converters of a client's converter with ours.

    The client's custom converters, codec and storage are kept. With our codec, the messages and
    stack traces of failures are payloads too.
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
