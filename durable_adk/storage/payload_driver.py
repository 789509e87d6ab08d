"""The driver that keeps payloads outside of Temporal, each for its owner only."""

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

from durable_adk.heartbeat import is_attempt_history
from durable_adk.storage.blobs import BlobStore, SharedBlobs
from durable_adk.storage.file_blobs import FileBlobs
from durable_adk.storage.object_blobs import ObjectBlobs
from durable_adk.storage.object_store import is_uri
from durable_adk.storage.refusal import refusal

OWNER = "durable-adk-owner"
"""Metadata of a stored payload: whose it is, for `sweep`."""
_REMEMBERED = 60.0  # seconds in which what was stored is not stored again
_MOST_REMEMBERED = 10_000


def owner_of(namespace: str, workflow_id: str) -> str:
    """Whose a payload is: the workflow's that it goes to or comes from."""
    return f"{namespace}/{workflow_id}"


def owner_folder(owner: str) -> str:
    """The owner in the name of a blob: 32 hexadecimal digits."""
    return hashlib.sha256(owner.encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True, eq=False)
class PayloadDriver(StorageDriver):
    """Keeps payloads by their content's hash, in the name of one workflow.

    What Temporal holds of such a payload is a claim: owner, hash, and a code over both that only
    the lease owners of the key can make. `retrieve` gives nothing for a claim that is forged, that
    belongs to another workflow, or whose blob is lost or changed (S5, F32).
    """

    blobs: BlobStore
    key: bytes
    owner: str = ""
    any_owner: bool = False
    """Whether it reads for people who look at workflows, and not for one of these."""
    recent: dict[str, float]
    """Names stored a moment ago, and when: `ResultUpload` stores before the SDK does."""

    def name(self) -> str:
        """See base class; it is in histories."""
        return "durable-adk"

    def type(self) -> str:
        """See base class."""
        return "durable_adk.PayloadDriver"

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """See base class.

        Raises:
            OSError: The store is out of reach.
        """
        del context  # the owner is the reader's too; the target is not, of a child's result
        return [await self._store(payload) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """See base class; a `confirmation_refusal` for what cannot be given.

        Raises:
            OSError: The store is out of reach.
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
        if time.monotonic() - self.recent.get(name, -_REMEMBERED) >= _REMEMBERED:
            await self.blobs.put(name, data)
            if len(self.recent) >= _MOST_REMEMBERED:
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
        return refusal("A stored payload is no payload.")
    payload.metadata.pop(OWNER, None)
    return payload


@dataclass(frozen=True)
class _Selector:
    """Which payloads leave Temporal, of those that reach the threshold."""

    driver: PayloadDriver

    def __call__(
        self, context: StorageDriverSelectContext, payload: Payload
    ) -> StorageDriver | None:
        """None for numbers and nothings, which are in most histories and say nothing."""
        del context
        silent = not payload.data or payload.data.isdigit() or is_attempt_history(payload)
        return None if silent else self.driver


@dataclass(frozen=True)
class OwnedStorage(ExternalStorage, WithSerializationContext):
    """External storage whose driver knows for which workflow it works.

    The SDK tells so in the same words where a payload is written and where it is read: that is what
    the serialization context is for. The store context would not do: it names the parent for a
    child's result, and there is none for reading.
    """

    def with_context(self, context: SerializationContext) -> Self:
        """The storage of the workflow that the context names."""
        if not isinstance(context, (WorkflowSerializationContext, ActivitySerializationContext)):
            return self
        (driver,) = self.drivers
        assert isinstance(driver, PayloadDriver)  # noqa: S101 - `owned_storage` has put it there
        owned = replace(driver, owner=owner_of(context.namespace, context.workflow_id or ""))
        return replace(self, drivers=[owned], driver_selector=_Selector(owned))

    def for_any_reader(self) -> PayloadDriver:
        """A driver that follows true references of all workflows, for people to read."""
        (driver,) = self.drivers
        assert isinstance(driver, PayloadDriver)  # noqa: S101 - as above
        return replace(driver, any_owner=True)

    def driver_for(self, payload: Payload) -> StorageDriver | None:
        """Who keeps the payload; None: it stays in Temporal."""
        if payload.ByteSize() < self.payload_size_threshold or self.driver_selector is None:
            return None
        return self.driver_selector(StorageDriverSelectContext(), payload)


def owned_storage(blobs: BlobStore, *, key: bytes, threshold: int) -> OwnedStorage:
    """External storage over any blob store, for a data converter.

    Args:
        blobs: The same for all clients and workers of the namespace.
        key: A secret that they all share; who has it can make references.
        threshold: Bytes from which on a payload leaves Temporal; 0: all that say anything.
    """
    driver = PayloadDriver(blobs=blobs, key=key, recent={})
    selector = _Selector(driver)
    return OwnedStorage([driver], driver_selector=selector, payload_size_threshold=threshold)


def blobs_at(location: Path | str) -> SharedBlobs:
    """The blobs in a folder, or in the object store that a uri names.

    Raises:
        InvalidRequestError: The uri cannot be used, or the extra ``objects`` is not installed.
    """
    return ObjectBlobs(str(location)) if is_uri(location) else FileBlobs(Path(location))


def storage_at(location: Path | str, *, threshold: int) -> OwnedStorage:
    """External storage in a folder or an object store, which holds the key too; blocks."""
    blobs = blobs_at(location)
    return owned_storage(blobs, key=blobs.key(), threshold=threshold)
