"""Encryption keys, their providers, and the cipher."""

import asyncio
import base64
import binascii
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, Self

from durable_adk.errors import EncryptionKeyError, InvalidRequestError

KEY_BYTES = 32
_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")


@dataclass(frozen=True)
class Key:
    """A key of 256 bits, and the id by which payloads refer to it.

    Raises:
        InvalidRequestError: The id has characters other than ``A-Za-z0-9._:/-``, or the secret
            does not have 32 bytes.
    """

    id: str
    """Stored with each payload, unencrypted; not a secret."""
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check id and secret; an error never contains the secret."""
        if not _ID.fullmatch(self.id):
            raise InvalidRequestError(
                f"The key id {self.id[:20]!r} must be 1 to 128 of the characters A-Za-z0-9._:/-"
            )
        if len(self.secret) != KEY_BYTES:
            raise InvalidRequestError(
                f"Key {self.id!r} has {len(self.secret)} bytes instead of {KEY_BYTES}. "
                "Generate a key with `durable-adk key new`."
            )

    @classmethod
    def new(cls, key_id: str | None = None) -> Self:
        """Return a random key; the default id is the date with a random suffix."""
        day = f"{datetime.now(UTC):%Y-%m-%d}-{secrets.token_hex(2)}"
        return cls(key_id or day, secrets.token_bytes(KEY_BYTES))

    @classmethod
    def parse(cls, line: str) -> Self:
        """Parse the output of `line`.

        Raises:
            InvalidRequestError: The line is malformed; the message contains only the id.
        """
        key_id, _, text = line.strip().partition(" ")
        try:
            secret = base64.b64decode(text.strip(), validate=True)
        except binascii.Error:
            raise InvalidRequestError(f"Key {key_id[:20]!r} is not base64.") from None
        return cls(key_id, secret)

    def line(self) -> str:
        """Return the key as a line of a key file: its id, a space, and the secret in base64."""
        return f"{self.id} {base64.b64encode(self.secret).decode()}"


class KeyProvider(Protocol):
    """Provides a codec with keys, from a file or a key management service.

    It is called for each payload, so an implementation should cache keys.
    """

    async def current(self) -> Key:
        """Return the key for new payloads.

        Raises:
            EncryptionKeyError: The key is temporarily unavailable.
        """
        ...

    async def find(self, key_id: str) -> Key | None:
        """Return the key with an id, for decryption; None if there is none.

        Raises:
            EncryptionKeyError: The provider is temporarily unavailable.
        """
        ...


class KeyRing:
    """Keys in memory. The first one encrypts, all decrypt.

    Raises:
        InvalidRequestError: There are no keys, or two have the same id.
    """

    def __init__(self, keys: Iterable[Key]) -> None:
        found = list(keys)
        if not found:
            raise InvalidRequestError("There are no keys. Generate one with `durable-adk key new`.")
        self.first = found[0]
        self._keys = {key.id: key for key in found}
        if len(self._keys) < len(found):
            raise InvalidRequestError("Two keys have the same id; rename one.")

    async def current(self) -> Key:
        """See `KeyProvider`."""
        return self.first

    async def find(self, key_id: str) -> Key | None:
        """See `KeyProvider`."""
        return self._keys.get(key_id)


class KeyFile:
    """Keys in a file, one per line (see `Key.line`). The first one encrypts, all decrypt.

    Empty lines and lines that start with ``#`` are ignored. A process encrypts with the key that
    was first when it started. The file is read again when a payload names an unknown key, so keys
    that are added for decryption need no restart.

    Raises:
        InvalidRequestError: The file is missing, users other than its owner may read it, or a line
            is malformed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser().absolute()
        self._ring = self._read()
        self._first = self._ring.first

    async def current(self) -> Key:
        """See `KeyProvider`."""
        return self._first

    async def find(self, key_id: str) -> Key | None:
        """See `KeyProvider`."""
        if (key := await self._ring.find(key_id)) is None:
            try:
                self._ring = await asyncio.to_thread(self._read)
            except InvalidRequestError as error:  # it was valid at the start, and may be later
                raise EncryptionKeyError(f"Key {key_id!r} cannot be looked up: {error}") from error
            key = await self._ring.find(key_id)
        return key

    def _read(self) -> KeyRing:
        try:
            mode = self._path.stat().st_mode & 0o777
            text = self._path.read_text()
        except (OSError, UnicodeError) as error:
            raise InvalidRequestError(
                f"The key file {self._path} cannot be read: {error}"
            ) from None
        if mode & 0o077:
            raise InvalidRequestError(
                f"Other users may read the key file {self._path} (mode {mode:o}): chmod 600 it."
            )
        lines = [line.strip() for line in text.splitlines()]
        keys = [Key.parse(line) for line in lines if line and not line.startswith("#")]
        return KeyRing(keys)


class Cipher:
    """Encrypts with one key, and authenticates what is bound to the ciphertext.

    The library takes 6 MB, so that only processes with encryption load it.
    """

    def __init__(self, secret: bytes) -> None:
        """Load the library; the extra ``encryption`` is installed."""
        aead = import_module("cryptography.hazmat.primitives.ciphers.aead")
        self._aead: Any = aead.AESGCM(secret)
        self._invalid: type[Exception] = import_module("cryptography.exceptions").InvalidTag

    def encrypt(self, nonce: bytes, content: bytes, bound: bytes) -> bytes:
        """Return the ciphertext."""
        return self._aead.encrypt(nonce, content, bound)

    def decrypt(self, nonce: bytes, secret: bytes, bound: bytes) -> bytes:
        """Return the content.

        Raises:
            ValueError: The ciphertext or what is bound to it was changed, or the key is another.
        """
        try:
            return self._aead.decrypt(nonce, secret, bound)
        except self._invalid as error:
            raise ValueError("The ciphertext is not authentic.") from error
