"""The stores of a data folder."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import URL

from durable_adk.artifacts import BaseArtifactService, artifacts_at
from durable_adk.auth.credential_service import (
    BaseCredentialService,
    FileCredentialService,
    PostgresCredentialService,
)
from durable_adk.encryption import KeyFile
from durable_adk.errors import InvalidRequestError
from durable_adk.memory import BaseMemoryService, PostgresMemoryService, SqliteMemoryService
from durable_adk.partials import PartialChannel, partials_at
from durable_adk.sessions.database_session_service import (
    DatabaseSessionService,
    SqliteSessionService,
)
from durable_adk.sessions.session_log import SessionLog
from durable_adk.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The services of an app's workers, and of the clients that share them."""

    session_service: SessionLog
    artifact_service: BaseArtifactService
    memory_service: BaseMemoryService
    credential_service: BaseCredentialService
    partials: PartialChannel | None = None
    """The channel of partial events; None: the default of the session store."""

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments for `worker` and `Runner`, the same for both."""
        return dict(vars(self))

    def services(self) -> dict[str, Any]:
        """Return the services that store data."""
        return {name: kept for name, kept in vars(self).items() if name != "partials"}


@asynccontextmanager
async def folder_stores(
    data_dir: Path,
    *,
    settings: Settings | None = None,
    session_service: SessionLog | None = None,
    artifact_service: BaseArtifactService | None = None,
    memory_service: BaseMemoryService | None = None,
    credential_service: BaseCredentialService | None = None,
    partials: PartialChannel | None = None,
) -> AsyncGenerator[Stores]:
    """Open the stores of a data folder, which any number of processes may share.

    Args:
        data_dir: As `prepare_data_dir` returns it.
        settings: Settings that may name other stores; None: the environment's.
        session_service: Used instead of the folder's, and not closed. So are the following:
        artifact_service: Artifacts.
        memory_service: Memory.
        credential_service: Credentials.
        partials: The channel of partial events.

    Raises:
        InvalidRequestError: The credentials' folder is accessible to other users, credentials
            should be stored in a database but there are no keys, or the artifact store cannot be
            used.
    """
    settings = settings or Settings()
    async with AsyncExitStack() as stack:
        if session_service is None:
            session_service = SqliteSessionService(data_dir / "sessions.db")
            stack.push_async_callback(session_service.close)
        if memory_service is None:
            memory_service = _memory(data_dir, settings.memory, session_service)
            stack.push_async_callback(memory_service.close)
        if credential_service is None:
            credential_service = _credentials(data_dir, settings, session_service)
            if isinstance(credential_service, PostgresCredentialService):
                stack.push_async_callback(credential_service.close)
        if partials is None and settings.partials is not None:
            partials = await stack.enter_async_context(_redis(settings.partials))
        yield Stores(
            session_service=session_service,
            artifact_service=artifact_service
            or artifacts_at(settings.artifacts or data_dir / "artifacts"),
            memory_service=memory_service,
            credential_service=credential_service,
            partials=partials,
        )


@asynccontextmanager
async def _redis(url: SecretStr) -> AsyncGenerator[PartialChannel]:
    channel = partials_at(url.get_secret_value())
    try:
        yield channel
    finally:
        await channel.close()


def _memory(data_dir: Path, location: str | None, sessions: SessionLog) -> BaseMemoryService:
    """Return the memory service of the settings, else one next to the sessions."""
    if url := _database(location, sessions):
        return PostgresMemoryService(url)
    return SqliteMemoryService(Path(location).expanduser() if location else data_dir / "memory.db")


def _credentials(data_dir: Path, settings: Settings, sessions: SessionLog) -> BaseCredentialService:
    """Return the credential service of the settings, else, with keys, one next to the sessions."""
    location, keys = settings.credentials, settings.encryption_keys
    url = _database(location, sessions)
    if url is not None and keys is not None:
        return PostgresCredentialService(url, keys=KeyFile(keys))
    if url is not None and location is not None:
        raise InvalidRequestError(
            "DURABLE_ADK_CREDENTIALS names a database, where credentials must be encrypted: also "
            "set DURABLE_ADK_ENCRYPTION_KEYS, or name a folder."
        )
    return FileCredentialService(
        Path(location).expanduser() if location else data_dir / "credentials"
    )


def _database(location: str | None, sessions: SessionLog) -> str | URL | None:
    """Return the PostgreSQL database of a store: the named one, else that of the sessions."""
    if location is not None:
        return location if "://" in location else None
    database = sessions.database if isinstance(sessions, DatabaseSessionService) else None
    return database.url if database is not None else None
