"""Credentials in the memory of one process."""

from durable_adk.auth.credential_service._stored import StoredCredentialService
from durable_adk.storage.memory_objects import MemoryObjects


class InMemoryCredentialService(StoredCredentialService):
    """Keeps credentials in process memory, invisible to workers; for tests and scripts."""

    def __init__(self) -> None:
        super().__init__(MemoryObjects())
