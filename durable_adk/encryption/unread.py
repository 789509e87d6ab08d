"""What a process without keys says of a payload that is encrypted."""

from typing import Any, NoReturn

from temporalio.api.common.v1 import Payload
from temporalio.converter import EncodingPayloadConverter

from durable_adk.encryption.codec import ENCODING, KEY_ID
from durable_adk.errors import EncryptionKeyError


class UnreadConverter(EncodingPayloadConverter):
    """Gets what no codec has decrypted, because there is none."""

    @property
    def encoding(self) -> str:
        """See base class."""
        return ENCODING

    def to_payload(self, value: Any) -> Payload | None:
        """See base class; nothing is written so."""
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
            f"A payload is encrypted with key {key_id!r}, and this process has no keys: set "
            "DURABLE_ADK_ENCRYPTION_KEYS to a key file that has it."
        )
