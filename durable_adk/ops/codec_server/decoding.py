"""Decryption and retrieval of payloads for human readers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from google.protobuf import json_format
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.converter import (
    DataConverter,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
)

from durable_adk.encryption import EncryptionCodec
from durable_adk.errors import EncryptionKeyError, InvalidRequestError, StoreUnavailableError
from durable_adk.storage.payload_driver import OwnedStorage, PayloadDriver
from durable_adk.storage.refusal import ENCODING as REFUSED, refusal

MAX_FETCHED = 64 * 1024 * 1024
"""Maximum bytes that one response may fetch from external storage."""
_REFERENCE = ExternalStorageReference.DESCRIPTOR.full_name.encode()


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Decrypts payloads, and fetches those in external storage (D16).

    The protocol does not say which workflow a payload comes from, so payloads of all workflows in
    the reader's namespace are decrypted. A plain payload is returned unchanged: the reader has it
    already.
    """

    codec: EncryptionCodec | None = None
    driver: PayloadDriver | None = None

    @classmethod
    def of(cls, converter: DataConverter) -> Self:
        """Return a decoder for the payloads that a data converter writes.

        Raises:
            InvalidRequestError: The converter has neither encryption nor external storage.
        """
        codec, storage = converter.payload_codec, converter.external_storage
        made = cls(
            codec=codec if isinstance(codec, EncryptionCodec) else None,
            driver=storage.for_any_reader() if isinstance(storage, OwnedStorage) else None,
        )
        if made.codec is None and made.driver is None:
            raise InvalidRequestError(
                "There is nothing to decode: all payloads in Temporal are readable. Set "
                "DURABLE_ADK_ENCRYPTION_KEYS or DURABLE_ADK_PAYLOADS to the workers' values."
            )
        return made

    async def decode(
        self, payloads: Sequence[Payload], *, namespace: str = "", fetch: bool = True
    ) -> "Decoded":
        """Decode payloads; one that cannot be decoded is replaced by the reason.

        Args:
            payloads: The payloads as stored in Temporal.
            namespace: The reader's namespace; empty for any.
            fetch: Whether to follow references to external storage, or to leave them unchanged.
        """
        decoded = Decoded()
        for payload in payloads:
            claim = self._claim(payload)
            if claim is not None and not fetch:
                decoded.payloads.append(payload)
                continue
            try:
                found = payload if claim is None else await self._fetched(claim, decoded)
                decoded.add(await self._decrypted(found, namespace))
            except (EncryptionKeyError, StoreUnavailableError) as error:
                decoded.add_reason(str(error))
        return decoded

    def _claim(self, payload: Payload) -> StorageDriverClaim | None:
        """Return the claim in a reference to our external storage; None for other payloads."""
        if self.driver is None or payload.metadata.get("messageType") != _REFERENCE:
            return None
        reference = ExternalStorageReference()
        try:
            json_format.Parse(payload.data, reference, ignore_unknown_fields=True)
        except (json_format.Error, ValueError, RecursionError):
            return None
        ours = reference.driver_name == self.driver.name()
        return StorageDriverClaim(dict(reference.claim_data)) if ours else None

    async def _fetched(self, claim: StorageDriverClaim, decoded: "Decoded") -> Payload:
        assert self.driver is not None  # noqa: S101 - `_claim` has returned a claim of the driver
        if decoded.fetched >= MAX_FETCHED:
            return refusal(
                "The previous payloads filled the response; request this one separately."
            )
        (payload,) = await self.driver.retrieve(StorageDriverRetrieveContext(), [claim])
        decoded.fetched += payload.ByteSize()
        return payload

    async def _decrypted(self, payload: Payload, namespace: str) -> Payload:
        if self.codec is None:
            return payload
        codec = replace(self.codec, accepts_plain=True, namespace=namespace)
        (opened,) = await codec.decode([payload])
        return opened


@dataclass
class Decoded:
    """The result of decoding payloads."""

    payloads: list[Payload] = field(default_factory=list[Payload])
    unreadable: int = 0
    fetched: int = 0
    """Bytes fetched from external storage."""

    def add(self, payload: Payload) -> None:
        """Add a decoded payload, or the reason if its decoding was refused."""
        if payload.metadata.get("encoding") == REFUSED.encode():
            self.add_reason(payload.data.decode(errors="replace"))
        else:
            self.payloads.append(payload)

    def add_reason(self, reason: str) -> None:
        """Add a reason in place of a payload, as JSON that UI and command line can display."""
        self.unreadable += 1
        data = json.dumps({"unreadable": reason}).encode()
        self.payloads.append(Payload(metadata={"encoding": b"json/plain"}, data=data))
