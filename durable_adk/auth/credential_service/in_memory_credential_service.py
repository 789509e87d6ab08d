"""Credentials in the memory of one process."""

from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService


class InMemoryCredentialService(BaseCredentialService):
    """For tests and scripts: what it keeps is gone with the process, and no worker sees it."""

    def __init__(self) -> None:
        self._stored: dict[tuple[str, str, str], AuthCredential] = {}

    async def load(self, *, app_name: str, user_id: str, key: str) -> AuthCredential | None:
        """A copy of what is stored; None: nothing."""
        found = self._stored.get((app_name, user_id, key))
        return found and found.model_copy(deep=True)

    async def save(
        self, *, app_name: str, user_id: str, key: str, credential: AuthCredential
    ) -> None:
        """Store a copy of the credential."""
        self._stored[app_name, user_id, key] = credential.model_copy(deep=True)

    async def delete(self, *, app_name: str, user_id: str, key: str) -> None:
        """Forget a credential; a missing one is no error."""
        self._stored.pop((app_name, user_id, key), None)

    async def delete_user(self, *, app_name: str, user_id: str, dry_run: bool = False) -> int:
        """Forget all credentials of a user; how many they are."""
        own = [key for key in self._stored if key[:2] == (app_name, user_id)]
        for key in [] if dry_run else own:
            del self._stored[key]
        return len(own)
