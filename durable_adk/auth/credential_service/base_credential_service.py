"""The port to where users' credentials are kept."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.auth_tool import AuthConfig

if TYPE_CHECKING:
    from durable_adk.context.activity import CallbackContext


class BaseCredentialService(ABC):
    """Keeps credentials by app, user and credential key; the one place that holds secrets."""

    async def load_credential(
        self, auth_config: AuthConfig, callback_context: "CallbackContext"
    ) -> AuthCredential | None:
        """What the context's user has stored for the configuration; None: nothing."""
        session = callback_context.session
        return await self.load(
            app_name=session.app_name, user_id=session.user_id, key=auth_config.key
        )

    async def save_credential(
        self, auth_config: AuthConfig, callback_context: "CallbackContext"
    ) -> None:
        """Store the configuration's exchanged credential for the context's user, if it has one."""
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
        """A copy of what is stored; None: nothing."""

    @abstractmethod
    async def save(
        self, *, app_name: str, user_id: str, key: str, credential: AuthCredential
    ) -> None:
        """Store a credential in place of what was there; a repeat changes nothing."""

    @abstractmethod
    async def delete(self, *, app_name: str, user_id: str, key: str) -> None:
        """Forget a credential; a missing one is no error."""

    @abstractmethod
    async def delete_user(self, *, app_name: str, user_id: str, dry_run: bool = False) -> int:
        """Forget all credentials of a user; how many they are. With `dry_run` they stay."""
