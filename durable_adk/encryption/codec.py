"""The payload codec, which encrypts each payload for one workflow only."""

import re
import secrets
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self

from google.protobuf.message import DecodeError
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    EncodingPayloadConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from durable_adk.attempt_history import is_attempt_history
from durable_adk.encryption.keys import Cipher, Key, KeyProvider
from durable_adk.errors import EncryptionKeyError
from durable_adk.extras import require
from durable_adk.json_values import canonical
from durable_adk.log import get_logger
from durable_adk.storage.payload_driver import owner_of
from durable_adk.storage.refusal import ENCODING as REFUSED, refusal

ENCODING = "binary/encrypted-aes-256-gcm-1"
"""Encoding of an encrypted payload: cipher and layout version. Its data is a nonce of 12 bytes,
followed by the encrypted protobuf of the payload with a tag of 16 bytes."""
KEY_ID = "encryption-key-id"
"""Metadata key of the key id."""
OWNER = "encryption-owner"
"""Metadata key of the owner: ``namespace/workflow id`` of the workflow that reads or wrote it."""
_FIRED = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NONCE_BYTES = 12
_LAST: ContextVar[tuple[str, Payload, Payload] | None] = ContextVar("last_encrypted", default=None)
"""The last payload that an activity encrypted: owner, payload and ciphertext. A result is encoded
twice, once to be stored while the activity runs (`ResultUpload`) and once by the SDK. Both
ciphertexts must be the same."""

logger = get_logger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class EncryptionCodec(PayloadCodec, WithSerializationContext):
    """Encrypts payloads with AES-256-GCM (D16, S6).

    Encoding, key id and owner are authenticated with the content. A payload that was changed, or
    copied from another workflow's history, is replaced by a refusal, whose use raises
    PayloadLostError: a forged payload blocks no workflow. A payload whose key is missing raises
    EncryptionKeyError, which fails the workflow task and not the invocation.

    Raises:
        InvalidRequestError: The extra ``encryption`` is not installed.
    """

    keys: KeyProvider
    accepts_plain: bool = False
    """Whether plain payloads are accepted. Needed while invocations are open that started without
    encryption. Until it is switched off, anyone with access to Temporal can send payloads."""
    owner: str = ""
    """Owner of the payloads, from the SDK's context. If empty, each payload's metadata counts."""
    namespace: str = ""
    """The namespace whose payloads a reader without a workflow may read; empty: all."""
    _ciphers: dict[str, tuple[bytes, Cipher]] = field(
        default_factory=dict[str, tuple[bytes, Cipher]], repr=False
    )

    def __post_init__(self) -> None:
        """Check that the library is installed."""
        require("encryption")

    def with_context(self, context: SerializationContext) -> Self:
        """Return the codec for the workflow in the context."""
        if not isinstance(context, (WorkflowSerializationContext, ActivitySerializationContext)):
            return self
        return replace(self, owner=owner_of(context.namespace, context.workflow_id or ""))

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See base class. Ciphertexts of the same payload differ, except within an activity.

        Raises:
            EncryptionKeyError: No key is available.
        """
        return [await self._encrypted(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See base class; returns a `refusal` for a payload that must not be read.

        Raises:
            EncryptionKeyError: This process lacks the key.
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
            "A payload is not encrypted: its sender has no keys, or its invocation started before "
            "encryption was enabled. Give the sender the keys, or, while such invocations are "
            "open, set DURABLE_ADK_ENCRYPTION_ACCEPTS_PLAIN=true."
        )

    async def _opened(self, payload: Payload, key_id: str, owner: str) -> Payload:
        if not self._may_read(owner):
            return self._refused("An encrypted payload belongs to another workflow.")
        key = await self.keys.find(key_id)
        if key is None:
            raise EncryptionKeyError(
                f"A payload is encrypted with key {key_id!r}, which this process lacks: add it to "
                "its key file (DURABLE_ADK_ENCRYPTION_KEYS), below the first key."
            )
        nonce, secret = payload.data[:_NONCE_BYTES], payload.data[_NONCE_BYTES:]
        try:
            return Payload.FromString(
                self._cipher(key).decrypt(nonce, secret, _bound(key_id, owner))
            )
        except (ValueError, DecodeError):
            return self._refused(
                f"A payload that names key {key_id!r} was changed, or was encrypted with a "
                "different key of the same id: give each new key a unique id."
            )

    def _may_read(self, owner: str) -> bool:
        if self.owner:
            # A schedule encrypts for its workflow id, to which Temporal appends the time.
            fired = (
                owner and self.owner.startswith(owner) and _FIRED.fullmatch(self.owner, len(owner))
            )
            return owner == self.owner or bool(fired)
        return not self.namespace or owner.startswith(owner_of(self.namespace, ""))

    def _refused(self, reason: str) -> Payload:
        logger.warning("payload.refused", owner=self.owner, reason=reason)
        return refusal(reason)

    def _cipher(self, key: Key) -> Cipher:
        known = self._ciphers.get(key.id)
        if known is None or known[0] != key.secret:
            known = self._ciphers[key.id] = key.secret, Cipher(key.secret)
        return known[1]


class UndecryptedConverter(EncodingPayloadConverter):
    """Raises for encrypted payloads, in a process without a codec."""

    @property
    def encoding(self) -> str:
        """See base class."""
        return ENCODING

    def to_payload(self, value: Any) -> Payload | None:
        """See base class; never used for writing."""
        del value
        return None

    def from_payload(self, payload: Payload, type_hint: type[Any] | None = None) -> NoReturn:
        """See base class.

        Raises:
            EncryptionKeyError: Always.
        """
        del type_hint
        key_id = payload.metadata.get(KEY_ID, b"").decode(errors="replace")
        raise EncryptionKeyError(
            f"A payload is encrypted with key {key_id!r}, but this process has no keys: set "
            "DURABLE_ADK_ENCRYPTION_KEYS to a key file that contains it."
        )


def _bound(key_id: str, owner: str) -> bytes:
    """Return the readable metadata that is authenticated with the content."""
    return canonical([ENCODING, key_id, owner]).encode()
