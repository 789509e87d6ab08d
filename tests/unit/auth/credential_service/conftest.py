"""Credential services to test; tests/integration runs the contract on PostgreSQL."""

import pytest

from durable_adk.auth.credential_service import FileCredentialService, InMemoryCredentialService


@pytest.fixture(params=["memory", "file"])
def service(request, tmp_path):
    """An empty service of each kind."""
    if request.param == "memory":
        return InMemoryCredentialService()
    return FileCredentialService(tmp_path / "credentials")
