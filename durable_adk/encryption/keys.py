"""The keys that payloads are encrypted with, and where they come from."""

import asyncio
import base64
import binascii
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, Self

from durable_adk.errors import EncryptionKeyError, InvalidRequestError

KEY_BYTES = 32
_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")


@dataclass(frozen=True)
class Key:
    """A key of 256 bits, and the name by which payloads refer to it.

    Raises:
        InvalidRequestError: The id has other characters than ``A-Za-z0-9._:/-``, or the secret is
            not 32 bytes.
    """

    id: str
    """In each payload, readable by everybody: no secret."""
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check both; an error never shows the secret."""
        if not _ID.fullmatch(self.id):
            raise InvalidRequestError(
                f"The key id {self.id[:20]!r} must be 1 to 128 of the characters A-Za-z0-9._:/-"
            )
        if len(self.secret) != KEY_BYTES:
            raise InvalidRequestError(
                f"Key {self.id!r} has {len(self.secret)} bytes; it takes {KEY_BYTES}. "
                "`durable-adk key new` makes one."
            )

    @classmethod
    def new(cls, key_id: str | None = None) -> Self:
        """A random key; without an id it is named after the day."""
        day = f"{datetime.now(UTC):%Y-%m-%d}-{secrets.token_hex(2)}"
        return cls(key_id or day, secrets.token_bytes(KEY_BYTES))

    @classmethod
    def parse(cls, line: str) -> Self:
        """The inverse of `line`.

        Raises:
            InvalidRequestError: It is no such line; the message shows none of it but the id.
        """
        key_id, _, text = line.strip().partition(" ")
        try:
            secret = base64.b64decode(text.strip(), validate=True)
        except binascii.Error:
            raise InvalidRequestError(f"Key {key_id[:20]!r} is not base64.") from None
        return cls(key_id, secret)

    def line(self) -> str:
        """The key as a line of a key file: its id, a space, and the secret in base64."""
        return f"{self.id} {base64.b64encode(self.secret).decode()}"


class KeyProvider(Protocol):
    """Where a codec gets its keys: a file, or a key management service.

    It is asked for each payload, so it remembers what it has fetched.
    """

    async def current(self) -> Key:
        """The key to encrypt with now.

        Raises:
            EncryptionKeyError: It cannot be had at the moment.
        """
        ...

    async def find(self, key_id: str) -> Key | None:
        """The key of this id, to decrypt with; None: there is none here.

        Raises:
            EncryptionKeyError: Whether there is one cannot be said at the moment.
        """
        ...


class KeyRing:
    """Keys in memory: the first one encrypts, all decrypt.

    Raises:
        InvalidRequestError: There is no key, or two have the same id.
    """

    def __init__(self, keys: Iterable[Key]) -> None:
        found = list(keys)
        if not found:
            raise InvalidRequestError("There is no key; `durable-adk key new` makes one.")
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
    """Keys in a file, one line each (see `Key.line`): the first one encrypts, all decrypt.

    Empty lines and those that begin with ``#`` are passed over. What encrypts is the first key of
    when the process began. The file is read again when a payload names a key that is not known, so
    a key that was added later needs no restart to be read with.

    Raises:
        InvalidRequestError: The file is missing, others than its owner may read it, or a line is
            no key.
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
            except InvalidRequestError as error:  # it was fine once, and may be again
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
                f"Others may read {self._path} (mode {mode:o}), which holds keys: chmod 600 it."
            )
        lines = [line.strip() for line in text.splitlines()]
        keys = [Key.parse(line) for line in lines if line and not line.startswith("#")]
        return KeyRing(keys)
