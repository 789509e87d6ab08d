"""Credentials in PostgreSQL, for the contract in tests/unit/auth/credential_service."""

from collections.abc import AsyncIterator

import pytest

from durable_adk.auth.credential_service import PostgresCredentialService
from tests.integration.auth.credential_service.databases import emptied


@pytest.fixture
async def service(postgres_url: str) -> AsyncIterator[PostgresCredentialService]:
    """An empty credential service."""
    async with emptied(postgres_url) as made:
        yield made
