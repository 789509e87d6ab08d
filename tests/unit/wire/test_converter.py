"""How values and failures are written into Temporal's history."""

from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from durable_adk.activities.attempt import to_application_error
from durable_adk.encryption import ENCODING, EncryptionCodec, Key, KeyRing
from durable_adk.errors import (
    EncryptionKeyError,
    LeaseLostError,
    StoreUnavailableError,
)
from durable_adk.errors.user_error import MAX_MESSAGE
from durable_adk.storage.refusal import refusal
from durable_adk.wire.converter import (
    MAX_CAUSES,
    MAX_WAITING,
    ShortFailureConverter,
    data_converter,
    encrypted,
    stored_in,
    with_our_payloads,
)
from durable_adk.workflows.temporal_runtime import reason

CANARY = "canary-90aa"


class MuteError(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def chained(count: int) -> Exception:
    """An exception with causes."""
    error = ValueError("last")
    for number in range(count):
        outer = ValueError(f"{number}" + "x" * 10_000)
        outer.__cause__ = error
        error = outer
    return error


def circular() -> Exception:
    """An exception that is its own cause."""
    error = ValueError("again")
    error.__cause__ = error
    return error


def written(
    error: BaseException, converter: DataConverter = data_converter, *, final: bool = True
) -> Failure:
    """The failure of what we raise because of `error`."""
    ours = ApplicationError("final", {"class": "RunError"}, type="RunError", non_retryable=final)
    ours.__cause__ = error
    failure = Failure()
    converter.failure_converter.to_failure(ours, converter.payload_converter, failure)
    return failure


FAILURES: dict[str, Callable[[], BaseException]] = {
    "long": lambda: ValueError("x" * 6_000_000),
    "wide": lambda: ValueError("\U0001f600" * 1_000_000),
    "surrogate": lambda: ValueError("\ud800"),
    "mute": MuteError,
    "interrupt": lambda: KeyboardInterrupt("x" * 6_000_000),
    "group": lambda: ExceptionGroup("x" * 6_000_000, [ValueError("x" * 6_000_000)]),
    "chain": lambda: chained(5000),
    "circle": circular,
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_small_whatever_its_cause_is(name: str) -> None:
    """D6, 1c: one that is too large is lost on its way, and the step would run again."""
    error = FAILURES[name]()
    failure = written(error)
    assert failure.message == "final"
    assert failure.application_failure_info.non_retryable
    assert failure.cause.application_failure_info.type == type(error).__name__
    assert failure.ByteSize() < (MAX_CAUSES + 2) * 2 * MAX_MESSAGE


def test_a_short_failure_is_told_as_it_is() -> None:
    """The cause and the way to it help whoever reads the history."""
    with pytest.raises(ValueError, match=CANARY) as caught:
        raise ValueError(CANARY)
    failure = written(caught.value)
    assert failure.cause.message == CANARY
    assert "test_converter" in failure.cause.stack_trace


def deep(frames: int) -> None:
    """Raise from within many calls."""
    if frames:
        deep(frames - 1)
    raise ValueError(CANARY + "x" * 5_000)


@pytest.mark.parametrize("private", [False, True])
def test_a_failure_that_waits_for_its_next_attempt_is_shown(private: bool) -> None:
    """I21: of one over 4 KB the server shows only that it was larger, not what is waited for."""
    with pytest.raises(ValueError, match=CANARY) as caught:
        deep(50)
    for _ in range(MAX_CAUSES):
        inner = caught.value
        with pytest.raises(ValueError, match=CANARY) as caught:
            raise ValueError(f"{CANARY}: {inner}") from inner
    codec = EncryptionCodec(keys=KeyRing([Key.new()]))
    converter = encrypted(data_converter, codec) if private else data_converter
    failure = written(caught.value, converter, final=False)
    assert failure.ByteSize() < MAX_WAITING
    told = failure.cause.cause
    said = told.encoded_attributes.data.decode() if private else told.message + told.stack_trace
    assert CANARY in said
    assert "test_converter" in said


def test_a_long_message_is_cut_while_its_step_is_tried_again() -> None:
    """I21: with the detail that says it once more; what is final says all."""
    error = StoreUnavailableError("x" * 7_000)
    failure = Failure()
    for retry, least, most in ((True, 1_000, MAX_WAITING), (False, 20_000, 30_000)):
        made = to_application_error(error, retry=retry, number=1, delay=1.0)
        made.__cause__ = error
        converter = data_converter.failure_converter
        converter.to_failure(made, data_converter.payload_converter, failure)
        assert least < failure.ByteSize() < most


def test_what_is_final_stays_what_it_is_without_its_details() -> None:
    """D16: if they were lost outside of Temporal, the error's class says what the run does."""
    failure = Failure(message="the lease is lost")
    failure.application_failure_info.type = "LeaseLostError"
    failure.application_failure_info.details.payloads.add().CopyFrom(refusal("lost"))
    read = data_converter.failure_converter.from_failure(failure, data_converter.payload_converter)
    assert isinstance(read, ApplicationError)
    assert isinstance(reason(read), LeaseLostError)


def test_with_threshold_zero_a_failure_says_nothing_in_the_open(tmp_path: Path) -> None:
    """D16, S6: message and stack trace are payloads, which the storage takes."""
    failure = written(ValueError(CANARY), stored_in(tmp_path, threshold=0))
    assert CANARY not in failure.message + failure.cause.message + failure.cause.stack_trace
    assert CANARY in failure.cause.encoded_attributes.data.decode()


def test_a_client_keeps_what_it_brings() -> None:
    """D18: only the SDK's defaults are replaced."""
    ours = with_our_payloads(DataConverter())
    assert ours.failure_converter_class is ShortFailureConverter

    class Own(ShortFailureConverter):
        pass

    own = DataConverter(failure_converter_class=Own)
    assert with_our_payloads(own).failure_converter_class is Own


def test_what_is_encrypted_has_private_failures() -> None:
    """S6: also when a client brings the codec and the defaults besides."""
    codec = EncryptionCodec(keys=KeyRing([Key.new()]))
    for converter in (encrypted(data_converter, codec), DataConverter(payload_codec=codec)):
        ours = with_our_payloads(converter)
        assert ours.payload_codec is codec
        failure = written(ValueError(CANARY), ours)
        assert CANARY not in failure.cause.message + failure.cause.stack_trace


def test_without_keys_the_missing_key_is_named() -> None:
    """S6: a process that knows nothing of encryption says what it needs."""
    metadata = {"encoding": ENCODING.encode(), "encryption-key-id": b"ours"}
    with pytest.raises(EncryptionKeyError, match=r"'ours'.*DURABLE_ADK_ENCRYPTION_KEYS"):
        data_converter.payload_converter.from_payload(Payload(metadata=metadata))


def test_details_that_cannot_be_read_cost_only_themselves() -> None:
    """D18: an activity of others may fail with what only its own converter reads."""
    foreign = Payload(metadata={"encoding": b"theirs"}, data=b"?")
    failure = Failure(message="outer")
    failure.activity_failure_info.SetInParent()
    failure.cause.message = "no cover"
    failure.cause.application_failure_info.type = "Declined"
    failure.cause.application_failure_info.details.payloads.append(foreign)
    converter = data_converter.failure_converter
    cause = converter.from_failure(failure, data_converter.payload_converter).__cause__
    assert isinstance(cause, ApplicationError)
    assert (cause.message, cause.type, cause.details) == ("no cover", "Declined", ())


def test_a_missing_key_is_no_reason_to_leave_details_out() -> None:
    """D16: another worker has it, so the task is to fail and be retried."""
    failure = Failure(message="no cover")
    details = failure.application_failure_info.details.payloads
    details.append(Payload(metadata={"encoding": ENCODING.encode()}, data=b"?"))
    with pytest.raises(EncryptionKeyError):
        data_converter.failure_converter.from_failure(failure, data_converter.payload_converter)
