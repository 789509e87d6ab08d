"""Long-term memory: text from a user's past sessions, and the services that store it."""

from durable_adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from durable_adk.memory.in_memory_memory_service import InMemoryMemoryService
from durable_adk.memory.memory_entry import MemoryEntry
from durable_adk.memory.postgres_memory_service import PostgresMemoryService
from durable_adk.memory.sqlite_memory_service import SqliteMemoryService

__all__ = [
    "BaseMemoryService",
    "InMemoryMemoryService",
    "MemoryEntry",
    "PostgresMemoryService",
    "SearchMemoryResponse",
    "SqliteMemoryService",
]
