"""Credentials in the memory of one process."""

from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService


class InMemoryCredentialService(BaseCredentialService):
    """Keeps credentials in process memory, invisible to workers; for tests and scripts."""

    def __init__(self) -> None:
        self._stored: dict[tuple[str, str, str], AuthCredential] = {}

    async def load(self, *, app_name: str, user_id: str, key: str) -> AuthCredential | None:
        """Return a copy of the stored credential, or None."""
        found = self._stored.get((app_name, user_id, key))
        return found and found.model_copy(deep=True)

    async def save(
        self, *, app_name: str, user_id: str, key: str, credential: AuthCredential
    ) -> None:
        """Store a copy of the credential."""
        self._stored[app_name, user_id, key] = credential.model_copy(deep=True)

    async def delete(self, *, app_name: str, user_id: str, key: str) -> None:
        """Delete a credential; idempotent."""
        self._stored.pop((app_name, user_id, key), None)

    async def delete_user(self, *, app_name: str, user_id: str, dry_run: bool = False) -> int:
        """Delete all credentials of a user, or only count them if `dry_run`; return the count."""
        own = [key for key in self._stored if key[:2] == (app_name, user_id)]
        for key in [] if dry_run else own:
            del self._stored[key]
        return len(own)
