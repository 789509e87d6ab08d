"""Stores for users' credentials."""

from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.auth.credential_service.file_credential_service import FileCredentialService
from durable_adk.auth.credential_service.in_memory_credential_service import (
    InMemoryCredentialService,
)
from durable_adk.auth.credential_service.postgres_credential_service import (
    PostgresCredentialService,
)

__all__ = [
    "BaseCredentialService",
    "FileCredentialService",
    "InMemoryCredentialService",
    "PostgresCredentialService",
]
