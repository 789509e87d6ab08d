"""The codec that encrypts payloads, each for its workflow only."""

import re
import secrets
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Self

from google.protobuf.message import DecodeError
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from durable_adk.encryption._library import AESGCM, InvalidTag
from durable_adk.encryption.keys import Key, KeyProvider
from durable_adk.errors import EncryptionKeyError
from durable_adk.extras import require
from durable_adk.heartbeat import is_attempt_history
from durable_adk.json_values import canonical
from durable_adk.log import get_logger
from durable_adk.storage.payload_driver import owner_of
from durable_adk.storage.refusal import ENCODING as REFUSED, refusal

ENCODING = "binary/encrypted-aes-256-gcm-1"
"""Of an encrypted payload: cipher, and version of how it is laid out. Its data is a nonce of 12
bytes, then the payload's protobuf, encrypted, with a tag of 16 bytes."""
KEY_ID = "encryption-key-id"
"""Metadata: which key."""
OWNER = "encryption-owner"
"""Metadata: ``namespace/workflow id`` of the workflow that the payload goes to or comes from."""
_FIRED = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NONCE_BYTES = 12
_LAST: ContextVar[tuple[str, Payload, Payload] | None] = ContextVar("last_encrypted", default=None)
"""Of an activity: owner, payload, and what became of it. Its result is encrypted twice, once to be
stored while it lives (`ResultUpload`) and once by the SDK, and has to be the same both times."""

logger = get_logger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class EncryptionCodec(PayloadCodec, WithSerializationContext):
    """Encrypts payloads with AES-256-GCM; design D16, S6.

    Encoding, key id and owner are authenticated with the content. So a payload that was changed, or
    copied out of another workflow's history, is refused where it is read: what stands in its place
    raises PayloadLostError for whoever uses it, and wedges no run. What names a key that is not
    here raises EncryptionKeyError instead, which fails the task and not the invocation.

    Raises:
        InvalidRequestError: The extra ``encryption`` is not installed.
    """

    keys: KeyProvider
    accepts_plain: bool = False
    """Whether what is not encrypted is read. While invocations are open that began without
    encryption; whoever reaches Temporal can write as they like meanwhile."""
    owner: str = ""
    """Of the payloads at hand, as the SDK tells; empty: not known, and each payload says itself."""
    namespace: str = ""
    """For a reader who does not know the workflow: whose payloads it reads; empty: anybody's."""
    _ciphers: dict[str, tuple[bytes, AESGCM]] = field(
        default_factory=dict[str, tuple[bytes, AESGCM]], repr=False
    )

    def __post_init__(self) -> None:
        """Refuse to be made without the library."""
        require("encryption")

    def with_context(self, context: SerializationContext) -> Self:
        """The codec of the workflow that the context names."""
        if not isinstance(context, (WorkflowSerializationContext, ActivitySerializationContext)):
            return self
        return replace(self, owner=owner_of(context.namespace, context.workflow_id or ""))

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See base class; the same payload looks different each time, but within an activity.

        Raises:
            EncryptionKeyError: There is no key to be had.
        """
        return [await self._encrypted(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See base class; a `confirmation_refusal` for what must not be read.

        Raises:
            EncryptionKeyError: The key is not here.
        """
        return [await self._decrypted(payload) for payload in payloads]

    async def _encrypted(self, payload: Payload) -> Payload:
        if is_attempt_history(payload):
            return payload
        last = _LAST.get() if activity.in_activity() else None
        if last is not None and last[:2] == (self.owner, payload):
            return last[2]
        key = await self.keys.current()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        bound = _bound(key.id, self.owner)
        secret = self._cipher(key).encrypt(nonce, payload.SerializeToString(), bound)
        metadata = {"encoding": ENCODING, KEY_ID: key.id, OWNER: self.owner}
        made = Payload(
            metadata={name: value.encode() for name, value in metadata.items()},
            data=nonce + secret,
        )
        if activity.in_activity():
            _LAST.set((self.owner, payload, made))
        return made

    async def _decrypted(self, payload: Payload) -> Payload:
        metadata = {
            name: value.decode(errors="replace") for name, value in payload.metadata.items()
        }
        encoding = metadata.get("encoding")
        if encoding == ENCODING:
            key_id, owner = metadata.get(KEY_ID, ""), metadata.get(OWNER, "")
            return await self._opened(payload, key_id, owner)
        if encoding == REFUSED or self.accepts_plain or is_attempt_history(payload):
            return payload
        return self._refused(
            "A payload is not encrypted, and must be: its sender has no keys, or its invocation "
            "began before there were any. Give the sender the keys, or, while such invocations are "
            "open, set DURABLE_ADK_ENCRYPTION_ACCEPTS_PLAIN=true."
        )

    async def _opened(self, payload: Payload, key_id: str, owner: str) -> Payload:
        if not self._may_read(owner):
            return self._refused("An encrypted payload belongs to another workflow.")
        key = await self.keys.find(key_id)
        if key is None:
            raise EncryptionKeyError(
                f"A payload is encrypted with key {key_id!r}, which is not here: add it to the "
                "key file of this process (DURABLE_ADK_ENCRYPTION_KEYS), below the first one."
            )
        nonce, secret = payload.data[:_NONCE_BYTES], payload.data[_NONCE_BYTES:]
        try:
            return Payload.FromString(
                self._cipher(key).decrypt(nonce, secret, _bound(key_id, owner))
            )
        except (InvalidTag, ValueError, DecodeError):
            return self._refused(
                f"A payload that names key {key_id!r} was changed, or is encrypted with another "
                "key of that id: give each new key an id of its own."
            )

    def _may_read(self, owner: str) -> bool:
        if self.owner:
            # What a schedule sends is encrypted for its workflow id; Temporal adds the time to it.
            fired = (
                owner and self.owner.startswith(owner) and _FIRED.fullmatch(self.owner, len(owner))
            )
            return owner == self.owner or bool(fired)
        return not self.namespace or owner.startswith(owner_of(self.namespace, ""))

    def _refused(self, reason: str) -> Payload:
        logger.warning("payload.refused", owner=self.owner, reason=reason)
        return refusal(reason)

    def _cipher(self, key: Key) -> AESGCM:
        known = self._ciphers.get(key.id)
        if known is None or known[0] != key.secret:
            known = self._ciphers[key.id] = key.secret, AESGCM(key.secret)
        return known[1]


def _bound(key_id: str, owner: str) -> bytes:
    """What is authenticated with the content, though everybody can read it."""
    return canonical([ENCODING, key_id, owner]).encode()
