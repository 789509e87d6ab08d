"""A step's services as google-adk's, for its code to find in a context."""

# pyright: reportPrivateUsage=false
# google-adk's own tools, and its users, read some of its private attributes.

from typing import Any, NoReturn

from google.adk.artifacts.base_artifact_service import (
    ArtifactVersion as AdkArtifactVersion,
    BaseArtifactService as AdkBaseArtifactService,
    ensure_part,
)
from google.adk.auth.auth_credential import AuthCredential as AdkAuthCredential
from google.adk.auth.auth_tool import AuthConfig as AdkAuthConfig
from google.adk.auth.credential_service.base_credential_service import (
    BaseCredentialService as AdkBaseCredentialService,
)
from google.adk.memory.base_memory_service import (
    BaseMemoryService as AdkBaseMemoryService,
    SearchMemoryResponse as AdkSearchMemoryResponse,
)
from google.adk.memory.memory_entry import MemoryEntry as AdkMemoryEntry
from google.adk.sessions.base_session_service import BaseSessionService as AdkBaseSessionService
from google.genai import types

from durable_adk.artifacts.base_artifact_service import ArtifactVersion, fenced
from durable_adk.context.activity import Context
from durable_adk.errors import InvalidRequestError
from durable_adk.interop.values import adk_credential, our_auth_config, our_event
from durable_adk.memory.memory_entry import MemoryEntry


class AdkArtifacts(AdkBaseArtifactService):
    """google-adk's artifact service on top of a service of this package; reads and deletes."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def _owner(self, owner: dict[str, Any]) -> dict[str, Any]:
        """Return the owner of artifacts that belong to google-adk's."""
        return owner

    def _named(self, filename: str, owner: dict[str, Any]) -> dict[str, Any]:
        """Return owner and name of an artifact that has google-adk's."""
        return {**self._owner(owner), "filename": filename}

    async def load_artifact(
        self, *, filename: str, version: int | None = None, **owner: Any
    ) -> types.Part | None:
        return await self._service.load_artifact(**self._named(filename, owner), version=version)

    async def list_artifact_keys(self, **owner: Any) -> list[str]:
        return await self._service.list_artifact_keys(**self._owner(owner))

    async def delete_artifact(self, *, filename: str, **owner: Any) -> None:
        await self._service.delete_artifact(**self._named(filename, owner))

    async def list_versions(self, *, filename: str, **owner: Any) -> list[int]:
        return await self._service.list_versions(**self._named(filename, owner))

    async def list_artifact_versions(
        self, *, filename: str, **owner: Any
    ) -> list[AdkArtifactVersion]:
        found = await self._service.list_artifact_versions(**self._named(filename, owner))
        return [adk_version(one) for one in found]

    async def get_artifact_version(
        self, *, filename: str, version: int | None = None, **owner: Any
    ) -> AdkArtifactVersion | None:
        place = self._named(filename, owner)
        found = await self._service.get_artifact_version(**place, version=version)
        return found and adk_version(found)


class StepArtifacts(AdkArtifacts):
    """A step's artifacts; each save in the step's own session happens once (TRAP-41)."""

    def __init__(self, context: Context) -> None:
        super().__init__(context._scope.services.artifacts)
        self._context = context

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        part, session = ensure_part(artifact), self._context.session
        if (app_name, user_id, session_id) == (session.app_name, session.user_id, session.id):
            return await self._context.save_artifact(filename, part, custom_metadata)
        async with fenced(self._context._scope.fence):
            return await self._service.save_artifact(
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                filename=filename,
                artifact=part,
                custom_metadata=custom_metadata,
            )

    async def delete_artifact(self, *, filename: str, **owner: Any) -> None:
        await self._context._scope.fence()
        await super().delete_artifact(filename=filename, **owner)

    def _owner(self, owner: dict[str, Any]) -> dict[str, Any]:
        """Return the owner of artifacts; an agent used as a tool shares its caller's (ART-12)."""
        mine = self._context._owner()
        if owner.get("session_id") == self._context.session.id:
            return mine
        return {"session_id": None, **owner}


def adk_version(version: ArtifactVersion) -> AdkArtifactVersion:
    """Convert an artifact's version to google-adk's class."""
    known = AdkArtifactVersion.model_fields
    return AdkArtifactVersion(
        **{name: value for name, value in version if name in known and value is not None}
    )


class StepMemory(AdkBaseMemoryService):
    """The memory of a step's user."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def add_session_to_memory(self, session: Any) -> None:
        del session  # always the step's own session
        await self._context.add_session_to_memory()

    async def add_events_to_memory(
        self, *, events: Any, custom_metadata: Any = None, **_: Any
    ) -> None:
        ours = [our_event(event) for event in events]
        await self._context.add_events_to_memory(events=ours, custom_metadata=custom_metadata)

    async def add_memory(self, *, memories: Any, custom_metadata: Any = None, **_: Any) -> None:
        entries = [MemoryEntry.model_validate(entry.model_dump()) for entry in memories]
        await self._context.add_memory(memories=entries, custom_metadata=custom_metadata)

    async def search_memory(self, *, query: str, **_: Any) -> AdkSearchMemoryResponse:
        found = await self._context.search_memory(query)
        memories = [AdkMemoryEntry.model_validate(entry.model_dump()) for entry in found.memories]
        return AdkSearchMemoryResponse(memories=memories)


class StepCredentials(AdkBaseCredentialService):
    """The stored credentials of a step's user."""

    def __init__(self, context: Context) -> None:
        # Skips the base class's constructor, which only emits a warning.
        self._context = context

    async def load_credential(
        self, auth_config: AdkAuthConfig, callback_context: Any
    ) -> AdkAuthCredential | None:
        del callback_context
        return adk_credential(await self._context.load_credential(our_auth_config(auth_config)))

    async def save_credential(self, auth_config: AdkAuthConfig, callback_context: Any) -> None:
        del callback_context
        await self._context.save_credential(our_auth_config(auth_config))


class NoSessions(AdkBaseSessionService):
    """Replaces the session service, which code in a run cannot use: only the runtime commits."""

    async def create_session(self, **_: Any) -> Any:
        _refuse("create_session")

    async def get_session(self, **_: Any) -> Any:
        _refuse("get_session")

    async def list_sessions(self, **_: Any) -> Any:
        _refuse("list_sessions")

    async def delete_session(self, **_: Any) -> None:
        _refuse("delete_session")

    async def append_event(self, session: Any, event: Any) -> Any:
        del session, event
        _refuse("append_event")


def _refuse(method: str) -> NoReturn:
    raise InvalidRequestError(
        f"session_service.{method} is not available in a callback or tool: the runtime commits "
        "events. Write to the context's state, and read the conversation from its session."
    )
