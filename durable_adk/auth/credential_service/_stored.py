"""A credential service on top of any store of objects."""

from pydantic import ValidationError

from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.credential_service.base_credential_service import (
    BaseCredentialService,
    hashed,
)
from durable_adk.errors import InvalidRequestError
from durable_adk.storage.objects import Objects


class StoredCredentialService(BaseCredentialService):
    """Stores one object per credential.

    The names are hashes, so that an id cannot escape the store (S2) and a listing does not reveal
    ids.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def load(self, *, app_name: str, user_id: str, key: str) -> AuthCredential | None:
        """Return a copy of the stored credential, or None.

        Raises:
            InvalidRequestError: The object does not hold a credential.
        """
        path = _path(app_name, user_id, key)
        text = await self._objects.get(path)
        try:
            return None if text is None else AuthCredential.from_json(text)
        except ValidationError:
            # Without the cause, which quotes the content.
            raise InvalidRequestError(
                f"{self._objects.uri}/{path} does not hold a credential; delete it."
            ) from None

    async def save(
        self, *, app_name: str, user_id: str, key: str, credential: AuthCredential
    ) -> None:
        """Store a credential atomically, replacing any previous one; idempotent."""
        await self._objects.put(_path(app_name, user_id, key), credential.to_json().encode())

    async def delete(self, *, app_name: str, user_id: str, key: str) -> None:
        """Delete a credential; idempotent."""
        await self._objects.delete([_path(app_name, user_id, key)])

    async def delete_user(self, *, app_name: str, user_id: str, dry_run: bool = False) -> int:
        """Delete all credentials of a user, or only count them if `dry_run`; return the count."""
        own = await self._objects.list(hashed(app_name, user_id))
        await self._objects.delete([] if dry_run else [one.path for one in own])
        return len(own)


def _path(app_name: str, user_id: str, key: str) -> str:
    return f"{hashed(app_name, user_id)}/{hashed(key)}.json"
