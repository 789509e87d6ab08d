"""The interface to the store of users' credentials."""

import hashlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.json_values import canonical

if TYPE_CHECKING:
    from durable_adk.context.activity import CallbackContext


class BaseCredentialService(ABC):
    """Stores credentials by app, user and credential key; the only store that holds secrets."""

    async def load_credential(
        self, auth_config: AuthConfig, callback_context: "CallbackContext"
    ) -> AuthCredential | None:
        """Load the stored credential of the context's user for a configuration, or None."""
        session = callback_context.session
        return await self.load(
            app_name=session.app_name, user_id=session.user_id, key=auth_config.key
        )

    async def save_credential(
        self, auth_config: AuthConfig, callback_context: "CallbackContext"
    ) -> None:
        """Store the configuration's exchanged credential, if any, for the context's user."""
        session, credential = callback_context.session, auth_config.exchanged_auth_credential
        if credential is not None:
            await self.save(
                app_name=session.app_name,
                user_id=session.user_id,
                key=auth_config.key,
                credential=credential,
            )

    @abstractmethod
    async def load(self, *, app_name: str, user_id: str, key: str) -> AuthCredential | None:
        """Return a copy of the stored credential, or None."""

    @abstractmethod
    async def save(
        self, *, app_name: str, user_id: str, key: str, credential: AuthCredential
    ) -> None:
        """Store a credential, replacing any previous one; idempotent."""

    @abstractmethod
    async def delete(self, *, app_name: str, user_id: str, key: str) -> None:
        """Delete a credential; idempotent."""

    @abstractmethod
    async def delete_user(self, *, app_name: str, user_id: str, dry_run: bool = False) -> int:
        """Delete all credentials of a user, or only count them if `dry_run`; return the count."""


def hashed(*parts: str) -> str:
    """Return the SHA-256 of the ids in hexadecimal, so that the name does not reveal them."""
    # Encoded as JSON and not joined, to keep ("a:b", "c") and ("a", "b:c") distinct.
    return hashlib.sha256(canonical(list(parts)).encode()).hexdigest()
