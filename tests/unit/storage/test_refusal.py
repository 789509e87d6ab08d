"""What replaces a payload that cannot be read."""

import pytest

from durable_adk.errors import PayloadLostError
from durable_adk.storage.refusal import refusal
from durable_adk.wire.converter import data_converter
from durable_adk.wire.steps import StepResult


def test_whoever_reads_it_gets_the_reason() -> None:
    """F32, style 5: a value that did not cross raises; it never reads as a default."""
    converter = data_converter.payload_converter
    (value,) = converter.from_payloads([refusal("it is lost")], [StepResult])
    for name in ("event", "error", "model_copy"):
        with pytest.raises(PayloadLostError, match="it is lost"):
            getattr(value, name)


def test_without_an_expected_class_it_is_not_taken_for_a_value() -> None:
    """S5: a client's own payload is read so."""
    with pytest.raises(PayloadLostError, match="it is forged"):
        data_converter.payload_converter.from_payload(refusal("it is forged"))
