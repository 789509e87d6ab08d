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
