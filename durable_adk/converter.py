"""How values are written into Temporal's history."""

from dataclasses import replace
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)

from durable_adk.models.llm_response import Wire


class WireJsonConverter(PydanticJSONPlainPayloadConverter):
    """Writes `Wire` values as ADK's JSON, anything else as the SDK's pydantic converter does.

    Without nulls an event takes about a third of the bytes; reading ignores unknown fields, so that
    workers of two versions can share a task queue.
    """

    def to_payload(self, value: Any) -> Payload | None:
        """See base class."""
        if not isinstance(value, Wire):
            return super().to_payload(value)
        return Payload(metadata={"encoding": b"json/plain"}, data=value.to_json().encode())

    def from_payload(self, payload: Payload, type_hint: type[Any] | None = None) -> Any:
        """See base class."""
        if isinstance(type_hint, type) and issubclass(type_hint, Wire):
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
        super().__init__(*_CONVERTERS)


data_converter = replace(pydantic_data_converter, payload_converter_class=WirePayloadConverter)
"""Plain JSON, readable by every Temporal client."""


def with_our_payloads(converter: DataConverter) -> DataConverter:
    """A client's converter with our payload converter; its codec and failure converter stay."""
    if converter.payload_converter_class in (
        DefaultPayloadConverter,
        pydantic_data_converter.payload_converter_class,
    ):
        return replace(converter, payload_converter_class=WirePayloadConverter)
    return converter
