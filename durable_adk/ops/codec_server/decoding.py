"""Payloads as people read them."""

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
from durable_adk.errors import EncryptionKeyError, InvalidRequestError
from durable_adk.storage import OwnedStorage, PayloadDriver
from durable_adk.storage.refusal import ENCODING as REFUSED, refusal

MAX_FETCHED = 64 * 1024 * 1024
"""Bytes that one answer may bring from where payloads are kept outside of Temporal."""
_REFERENCE = ExternalStorageReference.DESCRIPTOR.full_name.encode()


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Decrypts payloads, and fetches those that are kept outside of Temporal (design D16).

    Nobody tells it which workflow a payload was found in, so it reads those of any workflow, of the
    namespace that the reader looks at. What was never encrypted it gives back as it is: the reader
    has it already.
    """

    codec: EncryptionCodec | None = None
    driver: PayloadDriver | None = None

    @classmethod
    def of(cls, converter: DataConverter) -> Self:
        """A decoder of what a converter of ours has written.

        Raises:
            InvalidRequestError: It neither encrypts nor keeps anything outside of Temporal.
        """
        codec, storage = converter.payload_codec, converter.external_storage
        made = cls(
            codec=codec if isinstance(codec, EncryptionCodec) else None,
            driver=storage.for_any_reader() if isinstance(storage, OwnedStorage) else None,
        )
        if made.codec is None and made.driver is None:
            raise InvalidRequestError(
                "There is nothing to decode: Temporal shows all payloads as they are. Set "
                "DURABLE_ADK_ENCRYPTION_KEYS, or DURABLE_ADK_PAYLOADS, as the workers have it."
            )
        return made

    async def decode(
        self, payloads: Sequence[Payload], *, namespace: str = "", fetch: bool = True
    ) -> "Decoded":
        """The payloads in the open; in place of one that cannot be read, the reason.

        Args:
            payloads: As Temporal has them.
            namespace: The one that the reader looks at; empty: any.
            fetch: Whether references are followed, or left as they are.
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
            except (EncryptionKeyError, OSError) as error:
                decoded.add_reason(str(error))
        return decoded

    def _claim(self, payload: Payload) -> StorageDriverClaim | None:
        """What a reference of ours says; None: it is none."""
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
        assert self.driver is not None  # noqa: S101 - it has said that the claim is its own
        if decoded.fetched >= MAX_FETCHED:
            return refusal("The payloads before this one filled the answer; ask for it alone.")
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
    """What came of payloads."""

    payloads: list[Payload] = field(default_factory=list[Payload])
    unreadable: int = 0
    fetched: int = 0
    """Bytes that came from outside of Temporal."""

    def add(self, payload: Payload) -> None:
        """One that was read, or refused."""
        if payload.metadata.get("encoding") == REFUSED.encode():
            self.add_reason(payload.data.decode(errors="replace"))
        else:
            self.payloads.append(payload)

    def add_reason(self, reason: str) -> None:
        """In place of one that was not, as JSON, which the UI and the command line both show."""
        self.unreadable += 1
        data = json.dumps({"unreadable": reason}).encode()
        self.payloads.append(Payload(metadata={"encoding": b"json/plain"}, data=data))
