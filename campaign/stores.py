"""The stores that workers and clients of a run share beside the session store."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio.converter import DataConverter

from campaign.run_folder import RunFolder
from durable_adk.auth.credential_service import PostgresCredentialService
from durable_adk.embedded.stores import Stores, folder_stores
from durable_adk.encryption import EncryptionCodec, Key, KeyRing
from durable_adk.sessions import DatabaseSessionService
from durable_adk.wire.converter import data_converter, encrypted

_KEYS = KeyRing([Key("campaign", hashlib.sha256(b"campaign").digest())])


@asynccontextmanager
async def shared(
    folder: RunFolder, sessions: DatabaseSessionService, url: str
) -> AsyncGenerator[Stores]:
    """What the command line would use: files beside SQLite, else tables in the same database.

    Args:
        folder: Of the run.
        sessions: The session store.
        url: Where that is.
    """
    credentials = None
    if url.startswith("postgresql"):
        credentials = PostgresCredentialService(url, keys=_KEYS)
    try:
        async with folder_stores(
            folder.stores, session_service=sessions, credential_service=credentials
        ) as stores:
            yield stores
    finally:
        if credentials is not None:
            await credentials.close()


def converter(folder: RunFolder) -> DataConverter:
    """Return the run's data converter, which encrypts if the run says so."""
    if not folder.encrypted.exists():
        return data_converter
    return encrypted(data_converter, EncryptionCodec(keys=_KEYS))
