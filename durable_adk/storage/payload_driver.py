"""The storage driver for external payloads, each readable by its owner only."""

import hashlib
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    ExternalStorage,
    SerializationContext,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from durable_adk.attempt_history import is_attempt_history
from durable_adk.storage.blobs import Blobs
from durable_adk.storage.location import objects_at
from durable_adk.storage.refusal import refusal

OWNER = "durable-adk-owner"
"""Metadata key of a stored payload's owner, for `sweep`."""
_RECENT = 60.0  # seconds in which a stored payload is not stored again
_MAX_RECENT = 10_000


def owner_of(namespace: str, workflow_id: str) -> str:
    """Return the owner of a payload: the workflow that reads or wrote it."""
    return f"{namespace}/{workflow_id}"


def owner_folder(owner: str) -> str:
    """Return the owner as it is in a blob's name: 32 hexadecimal digits."""
    return hashlib.sha256(owner.encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True, eq=False)
class PayloadDriver(StorageDriver):
    """Stores payloads by the hash of their content, for one workflow.

    Temporal has a claim instead of such a payload: owner, hash, and a code over both that requires
    the key. `retrieve` rejects a claim that is forged or belongs to another workflow, and one whose
    blob is lost or changed (S5, F32).
    """

    blobs: Blobs
    key: bytes
    owner: str = ""
    any_owner: bool = False
    """Whether to read payloads of all workflows, for human readers."""
    recent: dict[str, float]
    """Names and times of recent blobs: `ResultUpload` stores a payload before the SDK does."""

    def name(self) -> str:
        """See base class; the name is in histories."""
        return "durable-adk"

    def type(self) -> str:
        """See base class."""
        return "durable_adk.PayloadDriver"

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """See base class.

        Raises:
            StoreUnavailableError: The store does not respond.
        """
        del context  # the owner, unlike the context's target, is the same for reader and writer
        return [await self._store(payload) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """See base class; returns a `refusal` for an unusable claim.

        Raises:
            StoreUnavailableError: The store does not respond.
        """
        del context
        return [await self._retrieve(claim) for claim in claims]

    async def _store(self, payload: Payload) -> StorageDriverClaim:
        kept = Payload()
        kept.CopyFrom(payload)
        kept.metadata[OWNER] = self.owner.encode()
        data = kept.SerializeToString(deterministic=True)
        folder, digest = owner_folder(self.owner), hashlib.sha256(data).hexdigest()
        name = f"{folder}/{digest}"
        if time.monotonic() - self.recent.get(name, -_RECENT) >= _RECENT:
            await self.blobs.put(name, data)
            if len(self.recent) >= _MAX_RECENT:
                self.recent.clear()
            self.recent[name] = time.monotonic()
        return StorageDriverClaim({"owner": folder, "sha256": digest, "code": self._code(name)})

    async def _retrieve(self, claim: StorageDriverClaim) -> Payload:
        folder, digest = (claim.claim_data.get(field, "") for field in ("owner", "sha256"))
        name, code = f"{folder}/{digest}", claim.claim_data.get("code", "")
        if not hmac.compare_digest(code.encode(), self._code(name).encode()):
            return refusal("A reference to a stored payload is forged.")
        if not self.any_owner and folder != owner_folder(self.owner):
            return refusal("A reference to a stored payload belongs to another workflow.")
        try:
            data = await self.blobs.get(name)
        except KeyError:
            return refusal(f"The stored payload {name} is lost.")
        if hashlib.sha256(data).hexdigest() != digest:
            return refusal(f"The stored payload {name} was changed.")
        return _parsed(data)

    def _code(self, name: str) -> str:
        return hmac.new(self.key, name.encode(), hashlib.sha256).hexdigest()


def _parsed(data: bytes) -> Payload:
    try:
        payload = Payload.FromString(data)
    except DecodeError:
        return refusal("A stored payload is malformed.")
    payload.metadata.pop(OWNER, None)
    return payload


@dataclass(frozen=True)
class _Selector:
    """Selects the payloads to store externally, among those that reach the threshold."""

    driver: PayloadDriver

    def __call__(
        self, context: StorageDriverSelectContext, payload: Payload
    ) -> StorageDriver | None:
        """Return None for numbers and empty payloads, which reveal nothing."""
        del context
        trivial = not payload.data or payload.data.isdigit() or is_attempt_history(payload)
        return None if trivial else self.driver


@dataclass(frozen=True)
class OwnedStorage(ExternalStorage, WithSerializationContext):
    """External storage whose driver knows its workflow.

    The serialization context has the same workflow where a payload is written and where it is read.
    The store context does not: for a child's result it has the parent, and for reading there is
    none.
    """

    def with_context(self, context: SerializationContext) -> Self:
        """Return the storage for the workflow in the context."""
        if not isinstance(context, (WorkflowSerializationContext, ActivitySerializationContext)):
            return self
        owned = replace(self.driver, owner=owner_of(context.namespace, context.workflow_id or ""))
        return replace(self, drivers=[owned], driver_selector=_Selector(owned))

    @property
    def driver(self) -> PayloadDriver:
        """The only driver."""
        (driver,) = self.drivers
        assert isinstance(driver, PayloadDriver)  # noqa: S101 - `owned_storage` has set it
        return driver

    def for_any_reader(self) -> PayloadDriver:
        """Return a driver that follows the valid references of all workflows, for human readers."""
        return replace(self.driver, any_owner=True)

    def driver_for(self, payload: Payload) -> StorageDriver | None:
        """Return the driver that stores a payload; None if the payload stays in Temporal."""
        if payload.ByteSize() < self.payload_size_threshold or self.driver_selector is None:
            return None
        return self.driver_selector(StorageDriverSelectContext(), payload)


def owned_storage(blobs: Blobs, *, key: bytes, threshold: int) -> OwnedStorage:
    """Return external storage over a blob store, for a data converter.

    Args:
        blobs: The blob store, the same for all clients and workers of the namespace.
        key: A secret that they share; with it, references can be created.
        threshold: Minimum bytes of an external payload; 0: all nontrivial payloads.
    """
    driver = PayloadDriver(blobs=blobs, key=key, recent={})
    selector = _Selector(driver)
    return OwnedStorage([driver], driver_selector=selector, payload_size_threshold=threshold)


def blobs_at(location: Path | str) -> Blobs:
    """Return the blob store in a folder, or in the object store of a URI.

    Raises:
        InvalidRequestError: The URI cannot be used, or the extra ``objects`` is not installed.
    """
    return Blobs(objects_at(location, private=True))


def blobs_of(converter: DataConverter) -> Blobs | None:
    """Return the blob store of a client's converter; None if it does not use ours."""
    storage = converter.external_storage
    return storage.driver.blobs if isinstance(storage, OwnedStorage) else None


def storage_at(location: Path | str, *, threshold: int) -> OwnedStorage:
    """Return external storage in a folder or an object store, which also has the key; blocks."""
    blobs = blobs_at(location)
    return owned_storage(blobs, key=blobs.key(), threshold=threshold)
