"""Encrypted credentials in a PostgreSQL database."""

import secrets
from collections.abc import Mapping

from pydantic import ValidationError
from sqlalchemy import URL, Connection, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.credential_service.base_credential_service import (
    BaseCredentialService,
    hashed,
)
from durable_adk.encryption.keys import Cipher, KeyProvider
from durable_adk.errors import EncryptionKeyError, InvalidRequestError
from durable_adk.extras import require
from durable_adk.json_values import canonical
from durable_adk.sql.database import PostgresDatabase
from durable_adk.sql.database_url import parse
from durable_adk.sql.schema import CREDENTIALS

_CIPHER = "aes-256-gcm-1"
_NONCE_BYTES = 12

_OF_OWNER = CREDENTIALS.c.owner == bindparam("whose")
_ONE = _OF_OWNER & (CREDENTIALS.c.name == bindparam("which"))
_FIND = select(CREDENTIALS.c.key_id, CREDENTIALS.c.secret).where(_ONE)
_COUNT = select(func.count()).select_from(CREDENTIALS).where(_OF_OWNER)
_ADD = insert(CREDENTIALS)
_SAVE = _ADD.on_conflict_do_update(
    index_elements=[CREDENTIALS.c.owner, CREDENTIALS.c.name],
    set_={"key_id": _ADD.excluded.key_id, "secret": _ADD.excluded.secret},
)


class PostgresCredentialService(BaseCredentialService):
    """Stores one row per credential, encrypted with AES-256-GCM, for workers on many machines.

    The database contains neither plaintext credentials nor their owners: owner and name are
    hashed. Both are authenticated together with the content, so that a row cannot be moved to
    another owner. The tables are created together with the session tables, see
    `DatabaseSessionService`.

    Args:
        db_url: SQLAlchemy URL, e.g. ``postgresql://user:password@host/name``. Requires the extra
            ``postgres``.
        keys: Encryption keys, e.g. those used for payloads. Saving a credential again re-encrypts
            it with the current key.

    Raises:
        InvalidRequestError: The URL is not that of a PostgreSQL database, or the extra
            ``encryption`` is not installed.
    """

    def __init__(self, db_url: str | URL, *, keys: KeyProvider) -> None:
        require("encryption")
        self._keys = keys
        self._database = PostgresDatabase(parse(db_url, only="postgresql"))

    async def load(self, *, app_name: str, user_id: str, key: str) -> AuthCredential | None:
        """Return a copy of the stored credential, or None.

        Raises:
            EncryptionKeyError: The credential's encryption key is not configured here.
            InvalidRequestError: The row fails authentication: it was altered.
            StoreUnavailableError: The database is unavailable.
        """
        row_key = _row_key(app_name, user_id, key)

        def find(connection: Connection) -> tuple[str, bytes] | None:
            row = connection.execute(_FIND, row_key).one_or_none()
            return None if row is None else (row.key_id, row.secret)

        found = await self._database.read(find)
        return await self._opened(*found, row_key) if found is not None else None

    async def save(
        self, *, app_name: str, user_id: str, key: str, credential: AuthCredential
    ) -> None:
        """Store a credential, replacing any previous one; idempotent.

        Raises:
            EncryptionKeyError: No encryption key is available.
            StoreUnavailableError: The database is unavailable.
        """
        row_key = _row_key(app_name, user_id, key)
        first = await self._keys.current()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        cipher = Cipher(first.secret)
        secret = cipher.encrypt(nonce, credential.to_json().encode(), _bound(first.id, row_key))
        row = {
            "owner": row_key["whose"],
            "name": row_key["which"],
            "key_id": first.id,
            "secret": nonce + secret,
        }
        await self._database.write(lambda connection: connection.execute(_SAVE, row).close())

    async def delete(self, *, app_name: str, user_id: str, key: str) -> None:
        """Delete a credential; idempotent."""
        row_key = _row_key(app_name, user_id, key)
        removal = delete(CREDENTIALS).where(_ONE)
        await self._database.write(lambda connection: connection.execute(removal, row_key).close())

    async def delete_user(self, *, app_name: str, user_id: str, dry_run: bool = False) -> int:
        """Delete all credentials of a user, or only count them if `dry_run`; return the count."""
        owner = {"whose": hashed(app_name, user_id)}

        def work(connection: Connection) -> int:
            if dry_run:
                return connection.execute(_COUNT, owner).scalar_one()
            return connection.execute(delete(CREDENTIALS).where(_OF_OWNER), owner).rowcount

        return await self._database.write(work)

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        await self._database.close()

    async def _opened(
        self, key_id: str, sealed: bytes, row_key: Mapping[str, str]
    ) -> AuthCredential:
        key = await self._keys.find(key_id)
        if key is None:
            raise EncryptionKeyError(
                f"A credential is encrypted with key {key_id!r}, which is not here: add it to "
                "the key file of this process (DURABLE_ADK_ENCRYPTION_KEYS), below the first one."
            )
        nonce, secret = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            text = Cipher(key.secret).decrypt(nonce, secret, _bound(key_id, row_key))
            return AuthCredential.from_json(text)
        except (ValueError, ValidationError):
            # Without the cause, which may contain the plaintext.
            raise InvalidRequestError(
                f"The credential {row_key['which']} in the database was changed, or is encrypted "
                f"with another key of the id {key_id!r}; delete its row."
            ) from None


def _row_key(app_name: str, user_id: str, key: str) -> dict[str, str]:
    return {"whose": hashed(app_name, user_id), "which": hashed(key)}


def _bound(key_id: str, row_key: Mapping[str, str]) -> bytes:
    """Return the associated data: not encrypted, but authenticated with the content."""
    return canonical([_CIPHER, key_id, row_key["whose"], row_key["which"]]).encode()
