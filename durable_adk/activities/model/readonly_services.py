"""Read-only services for user code that runs while a request is rebuilt for inspection."""

from typing import Any

from google.genai import types

from durable_adk.artifacts.base_artifact_service import (
    ArtifactReader,
    ArtifactVersion,
    BaseArtifactService,
)
from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.context.step_scope import CredentialService, Services
from durable_adk.errors import RunError
from durable_adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse


def read_only(services: Services) -> Services:
    """Return services that read from `services` and raise RunError instead of making changes."""
    artifacts, memory, credentials = services.artifacts, services.memory, services.credentials
    return Services(
        artifacts=artifacts and _Artifacts(artifacts),
        memory=memory and _Memory(memory),
        credentials=credentials and _Credentials(credentials),
    )


def _refused(call: str) -> RunError:
    return RunError(f"{call} was called, and a look at a request may change nothing.")


class _Artifacts(BaseArtifactService):
    def __init__(self, service: BaseArtifactService) -> None:
        self._service = service

    async def save_artifact(self, *, filename: str, **_: Any) -> int:
        raise _refused(f"save_artifact of {filename!r}")

    async def save_artifact_stream(self, *, filename: str, **_: Any) -> int:
        raise _refused(f"save_artifact_stream of {filename!r}")

    async def delete_artifact(self, *, filename: str, **_: Any) -> None:
        raise _refused(f"delete_artifact of {filename!r}")

    async def delete_user(self, **_: Any) -> int:
        raise _refused("delete_user of the artifacts")

    async def load_artifact(self, **named: Any) -> types.Part | None:
        return await self._service.load_artifact(**named)

    async def open_artifact(self, **named: Any) -> ArtifactReader | None:
        return await self._service.open_artifact(**named)

    async def list_artifact_keys(self, **named: Any) -> list[str]:
        return await self._service.list_artifact_keys(**named)

    async def list_versions(self, **named: Any) -> list[int]:
        return await self._service.list_versions(**named)

    async def list_artifact_versions(self, **named: Any) -> list[ArtifactVersion]:
        return await self._service.list_artifact_versions(**named)

    async def get_artifact_version(self, **named: Any) -> ArtifactVersion | None:
        return await self._service.get_artifact_version(**named)


class _Memory(BaseMemoryService):
    def __init__(self, service: BaseMemoryService) -> None:
        self._service = service

    async def add_session_to_memory(self, session: Any) -> None:
        del session
        raise _refused("add_session_to_memory")

    async def add_events_to_memory(self, **_: Any) -> None:
        raise _refused("add_events_to_memory")

    async def add_memory(self, **_: Any) -> None:
        raise _refused("add_memory")

    async def delete_memory(self, **_: Any) -> None:
        raise _refused("delete_memory")

    async def search_memory(self, **named: Any) -> SearchMemoryResponse:
        return await self._service.search_memory(**named)


class _Credentials(CredentialService):
    def __init__(self, service: CredentialService) -> None:
        self._service = service

    async def load_credential(
        self, auth_config: AuthConfig, callback_context: Any
    ) -> AuthCredential | None:
        return await self._service.load_credential(auth_config, callback_context)

    async def save_credential(self, auth_config: AuthConfig, callback_context: Any) -> None:
        del auth_config, callback_context
        raise _refused("save_credential")
