"""Credential services over PostgreSQL, to test."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy import delete

from durable_adk.auth.credential_service import PostgresCredentialService
from durable_adk.encryption import Key, KeyProvider, KeyRing
from durable_adk.sql.schema import CREDENTIALS


@asynccontextmanager
async def emptied(
    url: str, keys: KeyProvider | None = None
) -> AsyncGenerator[PostgresCredentialService]:
    """A service over a database in which there is nothing yet."""
    made = PostgresCredentialService(url, keys=keys or KeyRing([Key.new()]))
    await made._database.write(lambda connection: connection.execute(delete(CREDENTIALS)).close())
    try:
        yield made
    finally:
        await made.close()
